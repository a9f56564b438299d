"""The `parallel` drafter: a block head that proposes all its tokens in one pass."""

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
from lightspec_bench.runners.torch_everywhere_heads import blocks_everywhere
from lightspec_bench.runners.torch_graphs import Graphed, graphed_rows
from lightspec_bench.runners.torch_head_context import HeadContext, HeadDrafter, rows_of_final
from lightspec_bench.runners.torch_head_kinds import ParallelHead
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_rows import Rows


class ParallelDrafter(HeadDrafter):
    """A head whose slots are run together, once per proposal; only a small term per token is sequential.

    Real entries are read into the cache as keys and values alone. A proposal is one pass over the block's slots, of
    which slot 0 stands where the newest real entry stands and the others behind it, to be overwritten later.
    """

    _head: ParallelHead

    def __init__(self, head: str | Path = "smollm2-135m-parallel", max_draft_tokens: int | None = None) -> None:
        """`head`: a shipped head's name, or a folder. `max_draft_tokens`: slots used, all by default."""
        folder = head_folder(head)
        found = load_head(folder)
        if not isinstance(found, ParallelHead):
            raise BenchError(f"{folder}: a head that drafts token by token, expected a parallel one (drafter eagle)")
        block = found.settings.num_slots if max_draft_tokens is None else max_draft_tokens
        if not 1 <= block <= found.settings.num_slots:
            raise BenchError(f"max_draft_tokens is {block}, expected 1 to {found.settings.num_slots}, the head's slots")
        self.shape = Drafter("parallel", block)
        self.name, self.taps, self._head = folder.name, found.settings.taps, found

    def start(self, target: TorchModel, num_slots: int, capacity: int) -> None:
        super().start(target, num_slots, capacity)
        head, context, newest, width = self._head, self._context, self._newest, self.shape.max_draft_tokens
        token, features = self._like_inputs(target)
        entries = partial(graphed_rows, graphs=target.graphs, cache=context.cache)
        self._reading = entries(
            f"what {self.name} reads", partial(_read, head, context, newest),
            width=width + 1, most=num_slots * (width + 1), like=(token, features),
        )  # fmt: skip
        self._drafting = entries(
            f"the block of {self.name}", partial(_run_block, head, context),
            width=width, most=num_slots * width, like=(newest[:0], token),
        )  # fmt: skip
        self._saying = Graphed(
            f"a token of {self.name}", partial(_say, head, context), target.graphs, num_slots, (newest[:0], token)
        )

    @torch.no_grad()
    def draft(self, request: DraftRequest) -> Proposal:
        """Up to `depth` tokens per request, greedily; rows that became final meanwhile are read first, all at once.

        The block is as long as the deepest request asks, whatever an early exit leaves of it: its price is paid.
        """
        proposal = empty_proposal(request, self.shape.max_draft_tokens)
        exit_state = ExitState(request.early_exit, request.depth, request.slot.device)
        if request.max_depth == 0:
            return proposal
        drafting = exit_state.active()
        self._catch_up(request.slot[drafting])
        outputs = self._block(request.slot[drafting], request.position[drafting] - 1, request.max_depth)
        token = request.token[drafting]
        for number in range(1, request.max_depth + 1):
            token, confidence, entropy = self._say(outputs[:, number - 1], token)
            proposal.tokens[drafting, number - 1] = token
            proposal.confidence[drafting, number - 1] = confidence
            proposal.entropy[drafting, number - 1] = entropy
            exit_state.after(number, proposal.confidence[:, number - 1], proposal.entropy[:, number - 1])
        proposal.num_tokens.copy_(exit_state.num_tokens())
        return proposal

    def _catch_up(self, slot: Tensor) -> None:
        """Read the final rows of these slots as keys and values; keep the newest entry of each."""
        final = self._backlog.take(slot)
        if final is None:
            return
        assert final.features is not None
        inputs = final.next_token, final.features
        if self._reading.takes(final.num_rows):
            self._reading(final.slot, final.position, *inputs)
        else:
            _read(self._head, self._context, self._newest, rows_of_final(final), *inputs)

    def _block(self, slot: Tensor, start: Tensor, length: int) -> Tensor:
        """Outputs (n, length, H) of the block's slots, from the newest entry at `start` (n,) on."""
        place = torch.arange(length, device=slot.device)
        inputs = self._newest[slot].repeat_interleave(length, dim=0), place.repeat(len(slot))
        if self._drafting.takes(len(slot) * length):
            every_slot, position = slot.repeat_interleave(length), (start[:, None] + place).flatten()
            (output,) = self._drafting(every_slot, position, *inputs)
        else:
            (output,) = _run_block(self._head, self._context, self._context.rows_of(slot, start, length), *inputs)
        return output.view(len(slot), length, -1)

    def _say(self, output: Tensor, token: Tensor) -> tuple[Tensor, ...]:
        """Of outputs (n, H) and the tokens before (n,): the tokens, their confidences and entropies."""
        if self._saying.takes(len(output)):
            return self._saying(output, token)
        return _say(self._head, self._context, output, token)

    def everywhere(self, text: Tensor, num_prompt_tokens: int, features: Tensor) -> Proposal:
        """Proposals at every position of a text at once (`DraftsEverywhere`)."""
        depth = self.shape.max_draft_tokens
        return blocks_everywhere(self._head, self._context, depth, text, num_prompt_tokens, features)


def _read(
    head: ParallelHead, context: HeadContext, newest: Tensor, rows: Rows, token: Tensor, features: Tensor
) -> tuple[()]:
    base = head.base(features, context.embedding(token))
    context.cache.write(0, rows, *head.key_value(base, context.rotary[rows.position]))
    rows.store_last(base, newest)
    return ()


def _run_block(head: ParallelHead, context: HeadContext, rows: Rows, base: Tensor, number: Tensor) -> tuple[Tensor]:
    return (head(base, number, context.rotary[rows.position], context.attention(rows)),)


def _say(head: ParallelHead, context: HeadContext, output: Tensor, token: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    place, confidence, entropy = top_token(head.logits(output, context.embedding(token), context.output_rows))
    return context.token_ids[place], confidence, entropy
