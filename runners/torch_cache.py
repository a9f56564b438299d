"""The slot cache: keys and values of every slot, allocated once; forgetting tokens is setting a length."""

from __future__ import annotations

import torch
from torch import Tensor

from lightspec_bench.runners.torch_rows import Rows


class SlotCache:
    """Keys and values, (S + 1, capacity, heads, head_dim) per layer; the last slot is scratch for rows of padding.

    Nothing is kept of lengths: a row overwrites what stands at its position, and attention sees only the keys that
    its rows' positions allow. A layer's memory is allocated when it is first written to, in the model's own shape.
    """

    def __init__(self, num_slots: int, capacity: int, device: torch.device) -> None:
        self.num_slots, self.capacity, self.device = num_slots, capacity, device
        self._keys: dict[int, Tensor] = {}
        self._values: dict[int, Tensor] = {}
        self._flat: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def scratch_slot(self) -> int:
        return self.num_slots

    def write(self, layer: int, rows: Rows, key: Tensor, value: Tensor) -> None:
        """Store the rows' keys and values, (R, heads, head_dim) each, or (1, R, heads, head_dim)."""
        if layer not in self._keys:
            self._allocate(layer, key, value)
        where = rows.flat_index(self.capacity)
        keys, values = self._flat[layer]
        keys.index_copy_(0, where, key.reshape(len(where), -1))
        values.index_copy_(0, where, value.reshape(len(where), -1))

    def layer(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, (S + 1, capacity, heads, head_dim) each."""
        return self._keys[layer], self._values[layer]

    def _allocate(self, layer: int, key: Tensor, value: Tensor) -> None:
        for store, rows in ((self._keys, key), (self._values, value)):
            shape = (self.num_slots + 1, self.capacity, *rows.shape[-2:])
            store[layer] = torch.zeros(shape, dtype=rows.dtype, device=self.device)
        self._flat[layer] = (
            self._keys[layer].view((self.num_slots + 1) * self.capacity, -1),
            self._values[layer].view((self.num_slots + 1) * self.capacity, -1),
        )
