"""The `eagle` drafter: a one-layer head on the target's hidden states, drafting token by token."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from lightspec_bench.core import BenchError, Drafter
from lightspec_bench.runners.torch_checkpoints import head_folder, load_head
from lightspec_bench.runners.torch_drafter import (
    DraftRequest,
    ExitState,
    Proposal,
    empty_proposal,
    top_token,
)
from lightspec_bench.runners.torch_everywhere_heads import chains_everywhere
from lightspec_bench.runners.torch_graphs import Graphed, graphed_rows
from lightspec_bench.runners.torch_head_context import HeadContext, HeadDrafter, rows_of_final
from lightspec_bench.runners.torch_head_kinds import ChainHead, ParallelHead
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_rows import Rows


class EagleDrafter(HeadDrafter):
    """An autoregressive head: ours, or a published EAGLE-3 or Speculators one.

    Entry t of its context is the target's hidden states at position t with the token at t + 1, and stands in its
    cache at t. The output of the newest real entry is kept per slot: its best token is the first draft token; each
    further one is an entry whose hidden state is the output before. Those entries lie past the real ones in the
    cache and are overwritten when the real ones come.
    """

    _head: ChainHead

    def __init__(
        self, head: str | Path = "smollm2-135m-eagle", max_draft_tokens: int = 8, num_target_layers: int | None = None
    ) -> None:
        """`head`: a shipped head's name, or a folder with config.json and safetensors. `num_target_layers` is asked
        for by published heads that do not name the layers they read."""
        self.shape = Drafter("autoregressive", max_draft_tokens)
        folder = head_folder(head)
        self.name = folder.name
        self._head = _chain_head(folder, num_target_layers)
        self.taps = self._head.settings.taps

    def start(self, target: TorchModel, num_slots: int, capacity: int) -> None:
        super().start(target, num_slots, capacity)
        head, context, newest = self._head, self._context, self._newest
        token, features = self._like_inputs(target)
        entries = partial(graphed_rows, graphs=target.graphs, cache=context.cache)
        self._reading = entries(
            f"what {self.name} reads", partial(_read, head, context, newest),
            width=self.shape.max_draft_tokens + 1, most=num_slots * (self.shape.max_draft_tokens + 1),
            like=(token, features),
        )  # fmt: skip
        self._entering = entries(
            f"an entry of {self.name}",
            partial(_enter, head, context),
            width=1,
            most=num_slots,
            like=(newest[:0], token),
        )
        self._saying = Graphed(
            f"a token of {self.name}", partial(_say, head, context), target.graphs, num_slots, [newest[:0]]
        )

    @torch.no_grad()
    def draft(self, request: DraftRequest) -> Proposal:
        """Up to `depth` tokens per request, greedily; rows that became final meanwhile are read first, all at once."""
        proposal = empty_proposal(request, self.shape.max_draft_tokens)
        exit_state = ExitState(request.early_exit, request.depth, request.slot.device)
        if request.max_depth == 0:
            return proposal
        self._catch_up(request.slot[exit_state.active()])
        output, token = self._newest[request.slot], request.token
        for number in range(1, request.max_depth + 1):
            drafting = exit_state.active()
            if not len(drafting):
                break
            if number > 1:
                output = output.index_put((drafting,), self._step(request, drafting, number, output, token))
            best, confidence, entropy = self._say(output[drafting])
            proposal.tokens[drafting, number - 1] = best
            proposal.confidence[drafting, number - 1] = confidence
            proposal.entropy[drafting, number - 1] = entropy
            token = proposal.tokens[:, number - 1]
            exit_state.after(number, proposal.confidence[:, number - 1], proposal.entropy[:, number - 1])
        proposal.num_tokens.copy_(exit_state.num_tokens())
        return proposal

    def _catch_up(self, slot: Tensor) -> None:
        """Read the final rows of these slots; keep the newest output of each."""
        final = self._backlog.take(slot)
        if final is None:
            return
        assert final.features is not None
        inputs = final.next_token, final.features
        if self._can_be_fixed(final) and self._reading.takes(final.num_rows):
            self._reading(final.slot, final.position, *inputs)
        else:
            _read(self._head, self._context, self._newest, rows_of_final(final), *inputs)

    def _step(self, request: DraftRequest, drafting: Tensor, number: int, output: Tensor, token: Tensor) -> Tensor:
        """Outputs (n, H) of the entries that hold draft token `number - 1`."""
        slot, position = request.slot[drafting], request.position[drafting] + (number - 2)
        inputs = output[drafting], token[drafting]
        if self._entering.takes(len(slot)):
            return self._entering(slot, position, *inputs)[0]
        return _enter(self._head, self._context, self._context.rows_of(slot, position, 1), *inputs)[0]

    def _say(self, output: Tensor) -> tuple[Tensor, ...]:
        """Of outputs (n, H): the tokens, their confidences and entropies."""
        if self._saying.takes(len(output)):
            return self._saying(output)
        return _say(self._head, self._context, output)

    def everywhere(self, text: Tensor, num_prompt_tokens: int, features: Tensor) -> Proposal:
        """Proposals at every position of a text at once (`DraftsEverywhere`)."""
        depth = self.shape.max_draft_tokens
        return chains_everywhere(self._head, self._context, depth, text, num_prompt_tokens, features)


def _enter(head: ChainHead, context: HeadContext, rows: Rows, feature: Tensor, token: Tensor) -> tuple[Tensor]:
    """Outputs (R, H) of entries."""
    rotary = context.rotary[rows.position]
    return (head(feature, context.embedding(token), rotary, context.attention(rows)),)


def _read(
    head: ChainHead, context: HeadContext, newest: Tensor, rows: Rows, token: Tensor, features: Tensor
) -> tuple[()]:
    (output,) = _enter(head, context, rows, head.fuse(features), token)
    rows.store_last(output, newest)
    return ()


def _say(head: ChainHead, context: HeadContext, output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    place, confidence, entropy = top_token(head.logits(output, context.output_rows))
    return context.token_ids[place], confidence, entropy


def _chain_head(folder: Path, num_target_layers: int | None) -> ChainHead:
    head = load_head(folder, num_target_layers)
    if isinstance(head, ParallelHead):
        raise BenchError(f"{folder}: a parallel head, expected one that drafts token by token (drafter parallel)")
    return head
