"""Rows: the flattened ragged batch of one forward pass, and how its requests are grouped for attention.

N requests, R rows. A request's rows are consecutive, and requests ascend by slot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import IntArray
from lightspec_bench.runners.torch_clock import to_device

# What one more attention call costs, in query-key pairs: measured at 9 heads of 64 on a CPU core.
CALL_COST_PAIRS = 1000
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Group:
    """Requests `first..last - 1`, in neighbouring slots, that attend in one call padded to the same shape."""

    first: int
    last: int
    first_slot: int
    max_count: int
    max_keys: int
    starts_at_zero: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """Which slot and position each row of a forward pass stands for.

    Row r of a request sees the keys before `visible[r]`: its own position and all before it, where nothing else was
    asked for. `max_count` and `max_keys` are bounds the host knows; the device tensors are exact.
    """

    slots: Tensor  # (N,) int64
    counts: Tensor  # (N,) int64, rows per request
    first_row: Tensor  # (N,) int64
    request: Tensor  # (R,) int64; N for rows of padding
    slot: Tensor  # (R,) int64; the scratch slot for rows of padding
    position: Tensor  # (R,) int64
    visible: Tensor  # (R,) int64
    groups: tuple[Group, ...]
    first_rows: IntArray  # (N + 1,) on the host: `first_row` and the end; bounds where the counts are bounds
    is_causal: bool  # whether rows see what their position allows, no more and no less
    is_exact: bool = True  # whether the host's counts are the device's
    is_fixed: bool = False  # whether every shape follows from the number of rows alone (`fixed_rows`)
    _made: dict[object, Any] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        return len(self.slot)

    @property
    def num_requests(self) -> int:
        return len(self.slots)

    @property
    def last_row(self) -> Tensor:
        """Index of each request's last row, (N,)."""
        return self.first_row + self.counts - 1

    @property
    def max_count(self) -> int:
        return max(group.max_count for group in self.groups)

    @property
    def max_keys(self) -> int:
        return max(group.max_keys for group in self.groups)

    def once(self, key: object, make: Callable[[], Made]) -> Made:
        """What `make` gives, made once for all layers."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]  # type: ignore[no-any-return]

    def flat_index(self, capacity: int) -> Tensor:
        """Each row's place in a cache of so many tokens a slot, (R,)."""
        return self.once(("flat", capacity), lambda: self.slot * capacity + self.position)

    def padded(self, width: int) -> tuple[Tensor, Tensor]:
        """Row of each request's j-th place, (N, width), repeating the last; and which places are rows."""
        place = torch.arange(width, device=self.slot.device)
        index = self.first_row[:, None] + torch.minimum(place, self.counts[:, None] - 1)
        return index, place < self.counts[:, None]

    def group_padding(self, number: int) -> tuple[Tensor, Tensor]:
        """Of a group: rows in its padded places, (n * max_count,); place of each of its rows, and those rows."""
        return self.once(("padding", number), lambda: self._padding(self.groups[number]))

    def _padding(self, group: Group) -> tuple[Tensor, Tensor]:
        place = torch.arange(group.max_count, device=self.slot.device)
        counts = self.counts[group.first : group.last, None]
        index = self.first_row[group.first : group.last, None] + torch.minimum(place, counts - 1)
        if not self.is_exact:  # a request may have no rows
            index = index.clamp(0, self.num_rows - 1)
        inside = (self.request >= group.first) & (self.request < group.last)
        here = self.request.clamp(group.first, group.last - 1)
        offset = torch.arange(self.num_rows, device=self.slot.device) - self.first_row[here]
        back = (here - group.first) * group.max_count + offset.clamp(0, group.max_count - 1)
        return index.reshape(-1), torch.where(inside, back, 0)

    def group_rows(self, number: int) -> slice:
        """The rows of a group, where the host knows the counts exactly."""
        group = self.groups[number]
        return slice(int(self.first_rows[group.first]), int(self.first_rows[group.last]))

    def last_keys(self) -> Tensor:
        """Keys that each request's last row sees, (N,); 0 for requests without rows."""
        seen = self.visible[self.last_row.clamp(0, self.num_rows - 1)]
        return torch.where(self.counts > 0, seen, 0)

    def store_last(self, values: Tensor, into: Tensor) -> None:
        """Keep each request's last of the rows' values (R, ...) at its slot, (S, ...)."""
        if not self.is_fixed:
            into[self.slots] = values[self.last_row]
            return
        last, counts = self.last_row[: len(into)].clamp(0, self.num_rows - 1), self.counts[: len(into)]
        has_rows = (counts > 0).view(-1, *[1] * (into.dim() - 1))
        into.copy_(torch.where(has_rows, values[last], into))

    def mask(self, number: int, repeats: int, window: int | None, dtype: torch.dtype) -> Tensor:
        """Additive mask of a group's padded places over its keys, (n, 1, max_count * repeats, max_keys)."""
        return self.once((number, repeats, window, dtype), lambda: self._mask(number, repeats, window, dtype))

    def _mask(self, number: int, repeats: int, window: int | None, dtype: torch.dtype) -> Tensor:
        group = self.groups[number]
        index, _ = self.group_padding(number)
        keys = torch.arange(group.max_keys, device=self.slot.device)
        seen = keys < self.visible[index][:, None]
        if window is not None:
            seen = seen & (keys > self.position[index][:, None] - window)
        additive = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)
        additive = additive.repeat_interleave(repeats, dim=0)
        return additive.view(group.last - group.first, 1, group.max_count * repeats, group.max_keys)


def make_rows(
    slots: IntArray,
    starts: IntArray,
    counts: IntArray,
    device: torch.device,
    exact: tuple[Tensor, Tensor] | None = None,
    visible: Tensor | None = None,
    num_rows: int | None = None,
    scratch_slot: int = 0,
) -> Rows:
    """Rows for requests in ascending `slots` (N,) that read `counts` (N,) tokens from position `starts` (N,) on.

    Where the device knows better than the host, `exact` holds starts and counts there and the host's are upper bounds
    of them. `num_rows` pads the batch with rows of `scratch_slot`. `visible` (R,) overrides how many keys a row sees.
    """
    slot_ids = to_device(slots, device)
    start, count = exact or (to_device(starts, device), to_device(counts, device))
    total = int(counts.sum())
    padded = (exact is not None and device.type != "cpu") or (num_rows or total) != total
    length = (num_rows or total) if padded else total
    ends = torch.cumsum(count, 0)
    first_row = ends - count
    if padded:
        request, slot, position = _padded_rows(slot_ids, start, count, first_row, ends, length, scratch_slot)
    else:
        request = torch.repeat_interleave(torch.arange(len(slots), device=device), count, output_size=length)
        slot = slot_ids[request]
        position = torch.arange(length, device=device) + (start - first_row)[request]
    groups = group_requests(slots, starts, counts)
    seen = position + 1 if visible is None else visible
    ends_at = np.concatenate(([0], np.cumsum(counts)))
    return Rows(
        slot_ids, count, first_row, request, slot, position, seen, groups, ends_at, visible is None, exact is None
    )


def fixed_rows(slot: Tensor, position: Tensor, num_slots: int, width: int, capacity: int) -> Rows:
    """Rows of which the host knows only how many there are: `slot` and `position` (R,) live on the device.

    Rows ascend by slot, with at most `width` of a slot and those of its scratch slot, `num_slots`, last. Every slot
    is a request, most without rows; so all shapes follow from R, and nothing is copied between host and device.
    """
    requests, device = num_slots + 1, slot.device
    counts = torch.zeros(requests, dtype=torch.int64, device=device).index_add_(0, slot, torch.ones_like(slot))
    group = Group(0, requests, 0, width, capacity, False)
    return Rows(
        slots=torch.arange(requests, device=device),
        counts=counts,
        first_row=torch.cumsum(counts, 0) - counts,
        request=slot,
        slot=slot,
        position=position,
        visible=position + 1,
        groups=(group,),
        first_rows=np.array([0, len(slot)]),
        is_causal=True,
        is_exact=False,
        is_fixed=True,
    )


def _padded_rows(
    slots: Tensor, start: Tensor, count: Tensor, first_row: Tensor, ends: Tensor, length: int, scratch_slot: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Request, slot and position per row, without a word from the device; rows past the last request are padding."""
    row = torch.arange(length, device=slots.device)
    request = torch.searchsorted(ends, row, right=True)
    real = request < len(slots)
    here = request.clamp(max=len(slots) - 1)
    slot = torch.where(real, slots[here], scratch_slot)
    return request, slot, torch.where(real, row + (start - first_row)[here], 0)


def group_requests(slots: IntArray, starts: IntArray, counts: IntArray) -> tuple[Group, ...]:
    """Split a batch for attention: neighbours in slot and alike in shape attend together.

    Padding costs query-key pairs, another call a fixed price; neighbours are merged while that is cheaper.
    """
    keys = starts + counts
    number = len(slots)
    pairs = counts * keys
    whole = number * int(counts.max()) * int(keys.max())
    neighbours = int(slots[-1]) - int(slots[0]) == number - 1
    if neighbours and whole <= int(pairs.sum()) + CALL_COST_PAIRS:
        return (_group(slots, starts, counts, keys, 0, number),)
    found, first = [], 0
    for last in range(1, number + 1):
        if last < number and int(slots[last]) == int(slots[last - 1]) + 1:
            merged = (last + 1 - first) * int(counts[first : last + 1].max()) * int(keys[first : last + 1].max())
            apart = (last - first) * int(counts[first:last].max()) * int(keys[first:last].max()) + int(pairs[last])
            if merged <= apart + CALL_COST_PAIRS:
                continue
        found.append(_group(slots, starts, counts, keys, first, last))
        first = last
    return tuple(found)


def _group(slots: IntArray, starts: IntArray, counts: IntArray, keys: IntArray, first: int, last: int) -> Group:
    some = slice(first, last)
    return Group(
        first, last, int(slots[first]), int(counts[some].max()), int(keys[some].max()), bool(np.all(starts[some] == 0))
    )
