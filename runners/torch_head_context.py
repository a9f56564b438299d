"""What drafters with a head of their own share: the target's matrices, rotary table and a one-layer slot cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import BenchError, Drafter, IntArray
from lightspec_bench.runners.torch_attention import attend
from lightspec_bench.runners.torch_cache import SlotCache
from lightspec_bench.runners.torch_drafter import Backlog, FinalRows
from lightspec_bench.runners.torch_head_kinds import Head, PublishedEagle3Head
from lightspec_bench.runners.torch_heads import Attend, rotary_table
from lightspec_bench.runners.torch_kernels import paged
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_rows import Rows, make_rows


@dataclass(frozen=True, slots=True)
class HeadContext:
    """A head at work on a target, with its own keys and values for every slot."""

    embedding: torch.nn.Module
    output_rows: Tensor  # (Vd, H), the target's output matrix at the draft vocabulary
    token_ids: Tensor  # (Vd,)
    rotary: Tensor  # (positions, 2, head_dim)
    cache: SlotCache

    @classmethod
    def of(cls, head: Head, target: TorchModel, num_slots: int, capacity: int, extra: int) -> HeadContext:
        """For slots of `capacity` tokens and `extra` draft entries past them. Raises BenchError where the head does
        not fit the target."""
        _check_fit(head, target)
        device, dtype = target.device, target.dtype
        head.to(device=device, dtype=dtype)
        ids: Tensor = head.draft_token_ids  # type: ignore[assignment]
        own = head.embed_tokens if isinstance(head, PublishedEagle3Head) else None
        length = paged(capacity + extra, device)
        return cls(
            target.embedding if own is None else own,
            target.head.weight[ids].detach() if not isinstance(head, PublishedEagle3Head) else head.lm_head.weight,  # type: ignore[index]
            ids,
            rotary_table(head.settings, length).to(device),
            SlotCache(num_slots, length, device),
        )

    def attention(self, rows: Rows) -> Attend:
        """Attention of `rows` over the cache, which their keys and values are written to first."""

        def attend_rows(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            self.cache.write(0, rows, key, value)
            return attend(query, self.cache, 0, rows)

        return attend_rows

    def rows_of(self, slot: Tensor, start: Tensor, count: int) -> Rows:
        """`count` rows per slot (M,), from position `start` (M,) on."""
        counts = np.full(len(slot), count, dtype=np.int64)
        return make_rows(_host(slot), _host(start), counts, slot.device)


class HeadDrafter:
    """The part of `TorchDrafter` that is the same for every head: final rows put off until their request drafts, and
    the newest entry of each slot, (S, H)."""

    shape: Drafter
    _head: Head

    def start(self, target: TorchModel, num_slots: int, capacity: int) -> None:
        """Bind the head to the target and allocate its cache; raises `BenchError` where it does not fit."""
        self._context = HeadContext.of(self._head, target, num_slots, capacity, self.shape.max_draft_tokens)
        size = self._head.settings.hidden_size
        self._newest = torch.zeros(num_slots, size, dtype=target.dtype, device=target.device)
        self._backlog = Backlog()

    def _like_inputs(self, target: TorchModel) -> tuple[Tensor, Tensor]:
        """Tokens and hidden states as final rows have them, of no rows."""
        token = torch.zeros(0, dtype=torch.int64, device=target.device)
        return token, self._newest.new_zeros((0, len(self._head.settings.taps), target.hidden_size))

    def _can_be_fixed(self, final: FinalRows) -> bool:
        """Whether no request has more rows than a verification leaves: prompts and spells of depth 0 leave more."""
        return final.most is not None and final.most <= self.shape.max_draft_tokens + 1

    def join(self, slot: int) -> None:
        self._newest[slot] = 0

    def leave(self, slot: int, tokens: Tensor, num_prompt_tokens: int) -> None:
        self._backlog.drop(slot)

    def follow(self, rows: FinalRows) -> None:
        self._backlog.add(rows)


def rows_of_final(rows: FinalRows) -> Rows:
    """Final rows, sorted by slot and position, as rows of a forward pass."""
    slots, counts = torch.unique_consecutive(rows.slot, return_counts=True)
    starts = rows.position[torch.cumsum(counts, 0) - counts]
    return make_rows(_host(slots), _host(starts), _host(counts), rows.slot.device)


def _host(values: Tensor) -> IntArray:
    return values.cpu().numpy().astype(np.int64, copy=False)


def _check_fit(head: Head, target: TorchModel) -> None:
    settings = head.settings
    if settings.target_hidden_size != target.hidden_size or settings.hidden_size != target.hidden_size:
        raise BenchError(
            f"the head was made for a target of hidden size {settings.target_hidden_size}, {target.name} has "
            f"{target.hidden_size}"
        )
    if max(settings.taps) > target.num_layers:
        raise BenchError(f"the head reads layer {max(settings.taps)}, {target.name} has {target.num_layers}")
    ids: Tensor = head.draft_token_ids  # type: ignore[assignment]
    if int(ids.max()) >= target.vocab_size:
        raise BenchError(f"the head drafts token {int(ids.max())}, {target.name} has {target.vocab_size} tokens")
