"""The `parallel` drafter: a block head that proposes all its tokens in one pass."""

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
from lightspec_bench.runners.torch_head_kinds import ParallelHead


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

    @torch.no_grad()
    def draft(self, request: DraftRequest) -> Proposal:
        """Up to `depth` tokens per request, greedily; rows that became final meanwhile are read first, all at once.

        The block is as long as the deepest request asks, whatever an early exit leaves of it: its price is paid.
        """
        proposal = empty_proposal(request, self.shape.max_draft_tokens)
        exit_state = ExitState(request.early_exit, request.depth, request.slot.device)
        if request.max_depth == 0:
            return proposal
        context, drafting = self._context, exit_state.drafting.nonzero()[:, 0]
        self._catch_up(request.slot[drafting])
        outputs = self._block(request.slot[drafting], request.position[drafting] - 1, request.max_depth)
        token = request.token[drafting]
        for number in range(1, request.max_depth + 1):
            logits = self._head.logits(outputs[:, number - 1], context.embedding(token), context.output_rows)
            place, confidence, entropy = top_token(logits)
            token = context.token_ids[place]
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
        rows, context = rows_of_final(final), self._context
        base = self._head.base(final.features, context.embedding(final.next_token))
        context.cache.write(0, rows, *self._head.key_value(base, context.rotary[rows.position]))
        self._newest[rows.slots] = base[rows.last_row]

    def _block(self, slot: Tensor, start: Tensor, length: int) -> Tensor:
        """Outputs (n, length, H) of the block's slots, from the newest entry at `start` (n,) on."""
        context = self._context
        rows = context.rows_of(slot, start, length)
        base = self._newest[slot].repeat_interleave(length, dim=0)
        number = torch.arange(length, device=slot.device).repeat(len(slot))
        output = self._head(base, number, context.rotary[rows.position], context.attention(rows))
        return output.view(len(slot), length, -1)  # type: ignore[no-any-return]
