"""A CUDA graph without CUDA: the operations of a pass are recorded once and then repeated, whatever Python would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from lightspec_bench.runners import torch_drafter

aten = torch.ops.aten
# What a capture cannot hold: values or shapes read on the host, and copies of what the host computed.
READS = {
    aten._local_scalar_dense.default: "reads a value on the host",
    aten.item.default: "reads a value on the host",
    aten.is_nonzero.default: "reads a value on the host",
    aten.nonzero.default: "has a shape that depends on values",
    aten.masked_select.default: "has a shape that depends on values",
    aten._unique2.default: "has a shape that depends on values",
    aten.unique_consecutive.default: "has a shape that depends on values",
    aten.repeat_interleave.Tensor: "has a shape that depends on values",
    aten.lift_fresh.default: "copies from the host",
}


class Recording(TorchDispatchMode):
    """Raises RuntimeError, as a capture would, for an operation that waits for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, list[torch.Tensor]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in READS or _indexes_by_mask(func, args):
            raise RuntimeError(f"{func} {READS.get(func, 'has a shape that depends on values')}")
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, _tensors(out)))
        return out

    def replay(self) -> None:
        """The same operations on the same memory; none sees what is outside of its own arguments."""
        for func, args, kwargs, outputs in self.calls:
            held = {tensor.untyped_storage().data_ptr() for tensor in _tensors((args, kwargs))}
            writes = func._schema.is_mutable
            if not writes and all(out.untyped_storage().data_ptr() in held for out in outputs):
                continue  # a view stays where it is
            found = _tensors(func(*args, **kwargs))
            for out, value in zip(outputs, found, strict=True):
                if out.untyped_storage().data_ptr() not in held:
                    out.copy_(value)


def _indexes_by_mask(func: Any, args: Any) -> bool:
    if func not in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default):
        return False
    return any(tensor.dtype is torch.bool for tensor in _tensors(args[1]))


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor)]


class RecordedCapture:
    """Counts what was captured and how often each was replayed."""

    def __init__(self) -> None:
        self.replays: list[int] = []

    def __call__(self, run: Callable[[], None]) -> Callable[[], None]:
        run()  # warms up
        recording = Recording()
        # The best of a row's scores is found by NumPy on a CPU alone.
        with mock.patch.object(torch_drafter, "best_token", lambda scores: scores.argmax(dim=-1)), recording:
            run()
        number = len(self.replays)
        self.replays.append(0)

        def replay() -> None:
            self.replays[number] += 1
            recording.replay()

        return replay
