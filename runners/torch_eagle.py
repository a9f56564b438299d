"""The `eagle` drafter: a one-layer head on the target's hidden states, drafting token by token."""

from __future__ import annotations

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
from lightspec_bench.runners.torch_head_context import HeadDrafter, rows_of_final
from lightspec_bench.runners.torch_head_kinds import ChainHead, ParallelHead


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

    @torch.no_grad()
    def draft(self, request: DraftRequest) -> Proposal:
        """Up to `depth` tokens per request, greedily; rows that became final meanwhile are read first, all at once."""
        proposal = empty_proposal(request, self.shape.max_draft_tokens)
        exit_state = ExitState(request.early_exit, request.depth, request.slot.device)
        if request.max_depth == 0:
            return proposal
        self._catch_up(request.slot[exit_state.drafting])
        output, token = self._newest[request.slot], request.token
        for number in range(1, request.max_depth + 1):
            drafting = exit_state.drafting.nonzero()[:, 0]
            if not len(drafting):
                break
            if number > 1:
                output = output.index_put((drafting,), self._step(request, drafting, number, output, token))
            place, confidence, entropy = top_token(self._head.logits(output[drafting], self._context.output_rows))
            proposal.tokens[drafting, number - 1] = self._context.token_ids[place]
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
        rows = rows_of_final(final)
        context = self._context
        embedding = context.embedding(final.next_token)
        feature = self._head.fuse(final.features)
        output = self._head(feature, embedding, context.rotary[rows.position], context.attention(rows))
        self._newest[rows.slots] = output[rows.last_row]

    def _step(self, request: DraftRequest, drafting: Tensor, number: int, output: Tensor, token: Tensor) -> Tensor:
        """Outputs (n, H) of the entries that hold draft token `number - 1`."""
        context = self._context
        rows = context.rows_of(request.slot[drafting], request.position[drafting] + (number - 2), 1)
        embedding = context.embedding(token[drafting])
        return self._head(  # type: ignore[no-any-return]
            output[drafting], embedding, context.rotary[rows.position], context.attention(rows)
        )


def _chain_head(folder: Path, num_target_layers: int | None) -> ChainHead:
    head = load_head(folder, num_target_layers)
    if isinstance(head, ParallelHead):
        raise BenchError(f"{folder}: a parallel head, expected one that drafts token by token (drafter parallel)")
    return head
