"""Clock of the device: marks between pieces of work, and the seconds between two of them."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from lightspec_bench.core import IntArray


class Clock:
    """On a CPU a mark is the wall clock; on CUDA an event in the stream, read once the device has passed it."""

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"

    def mark(self) -> Any:
        if not self._is_cuda:
            return time.perf_counter()
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, start: Any, end: Any) -> float:
        """Between two marks; waits for the second on CUDA."""
        if not self._is_cuda:
            return float(end - start)
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


def to_host(*tensors: Tensor) -> list[Any]:
    """Copies on the host as NumPy arrays: on CUDA pinned, all in flight together, with one wait."""
    if not tensors or tensors[0].device.type == "cpu":
        return [tensor.numpy() for tensor in tensors]
    pinned = [torch.empty(t.shape, dtype=t.dtype, pin_memory=True).copy_(t, non_blocking=True) for t in tensors]
    done: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    done.record()
    done.synchronize()
    return [copy.numpy() for copy in pinned]


def to_device(array: IntArray, device: torch.device) -> Tensor:
    """A copy on the device: on CUDA from pinned memory, without waiting for it."""
    tensor = torch.from_numpy(array)
    return tensor.clone() if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
