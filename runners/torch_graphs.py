"""Passes at fixed sizes: a function of rows runs on static buffers, padded to the next captured number of rows.

On CUDA each size is captured as a graph and replayed; on a CPU the same padded pass is called. Above the largest size
a pass runs as it is.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from lightspec_bench.core import BenchError
from lightspec_bench.latency_file import parse_sizes
from lightspec_bench.runners.torch_cache import SlotCache
from lightspec_bench.runners.torch_rows import fixed_rows

# Denser where few rows make a step: what is computed for padding is at most 8 rows up to 256, 16 up to 512.
CUDA_SIZES = "1,2,4,8-256/8,272-512/16"
NONE = "none"
Run: TypeAlias = Callable[..., tuple[Tensor, ...]]
# Makes of a function of static buffers one that does the same again, on whatever the buffers then hold.
Capture: TypeAlias = Callable[[Callable[[], None]], Callable[[], None]]


@dataclass(frozen=True, slots=True)
class Graphs:
    """Which numbers of rows passes are padded to, ascending, and how a pass of fixed size is kept.

    `ahead`: capture all sizes that a pass can need when it is made, else each when it is first needed. `refused` says
    of passes that could not be captured why not, by name: they run as they are.
    """

    sizes: tuple[int, ...] = ()
    capture: Capture = lambda run: run
    ahead: bool = False
    refused: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.sizes:
            return "not captured"
        how = "CUDA graphs" if isinstance(self.capture, CudaCapture) else "padded as for CUDA graphs"
        but = f", but not {' and '.join(self.refused)}" if self.refused else ""
        return f"{how} up to {self.sizes[-1]} rows{but}"

    def padded(self, rows: int) -> int:
        """The size that so many rows are padded to; above the largest the rows themselves."""
        place = bisect_left(self.sizes, rows)
        return self.sizes[place] if place < len(self.sizes) else rows

    def up_to(self, name: str, most: int) -> tuple[int, ...]:
        """The sizes of a pass that never has more than `most` rows; none where it was refused."""
        return () if name in self.refused else self.sizes[: bisect_left(self.sizes, most) + 1]


def make_graphs(device: torch.device, sizes: str | None = None) -> Graphs:
    """Graphs of `sizes` (`1-8,16-512/16`, or `none`); None: `CUDA_SIZES` on CUDA, none on a CPU.

    Raises `BenchError` for sizes that do not ascend from 1 up.
    """
    if sizes is None:
        sizes = CUDA_SIZES if device.type == "cuda" else NONE
    if sizes.strip() == NONE:
        return Graphs()
    try:
        found = tuple(parse_sizes(sizes, "graph sizes").tolist())
    except BenchError as error:
        raise BenchError(f"{error}, or {NONE}") from None
    return Graphs(found, CudaCapture(device)) if device.type == "cuda" else Graphs(found)


class CudaCapture:
    """Captures CUDA graphs on a stream of its own, all in one memory pool, which engines take over from one another."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._anchor: Any = None

    def __call__(self, run: Callable[[], None]) -> Callable[[], None]:
        """Warm `run` up, then capture it; raises RuntimeError for a pass that waits for the device on its way."""
        outside = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(outside)
        try:
            with torch.cuda.stream(self._stream):
                run()  # compiles and allocates what a capture may not
                _without_waiting(run)
            if self._anchor is None:  # a pool that no graph uses any more cannot be used again
                self._anchor = self._graph(lambda: torch.zeros(1, device=self._device))
            graph = self._graph(run)
        finally:
            torch.cuda.set_stream(outside)  # a capture that fails leaves its own stream behind
        outside.wait_stream(self._stream)
        return graph.replay  # type: ignore[no-any-return]

    def _graph(self, run: Callable[[], object]) -> Any:
        graph = torch.cuda.CUDAGraph()
        # Other threads plan meanwhile: only this one's calls may break a capture.
        with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
            run()
        return graph


def _without_waiting(run: Callable[[], None]) -> None:
    """Raise before a capture what would break it: reading a value or a shape from the device."""
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode(mode)


class Graphed:
    """A pass over rows at the sizes of `graphs`, up to the first that holds `most` rows.

    `run` takes tensors that share their first dimension, the rows, and returns such tensors; `like` has its inputs
    without rows. Rows of padding hold `padding`, a number for each of the first inputs, and whatever in the others.
    Outputs are valid until the next call. `run` must not refer to the object that owns this one: memory of graphs and
    caches is freed when their owner goes.
    """

    def __init__(
        self, name: str, run: Run, graphs: Graphs, most: int, like: Sequence[Tensor], padding: Sequence[int] = ()
    ) -> None:
        self.name, self.sizes = name, graphs.up_to(name, most)
        self._run, self._graphs, self._padding = run, graphs, tuple(padding)
        self._replays: dict[int, Callable[[], None]] = {}
        self._outputs: list[Tensor] = []
        largest = self.sizes[-1] if self.sizes else 0
        self._inputs = [tensor.new_zeros((largest, *tensor.shape[1:])) for tensor in like] if largest else []
        if graphs.ahead:
            for size in reversed(self.sizes):  # smaller graphs find room in what the larger ones took
                if not self._captured(size):
                    break

    def takes(self, number: int) -> bool:
        """Whether so many rows can be run at a fixed size, which is captured now where it was not yet."""
        return bool(self.sizes) and 0 < number <= self.sizes[-1] and self._captured(self._size(number))

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """What `run` returns for the inputs' rows (R, ...), as many as it `takes`."""
        number = len(inputs[0])
        size = self._size(number)
        for buffer, values in zip(self._inputs, inputs, strict=True):
            buffer[:number].copy_(values)
        self._pad(number, size)
        self._replays[size]()
        return tuple(buffer[:number] for buffer in self._outputs)

    def _size(self, number: int) -> int:
        return self.sizes[bisect_left(self.sizes, number)]

    def _captured(self, size: int) -> bool:
        """Make sure of this size. A pass that cannot be captured runs without sizes from then on, with one warning."""
        if size in self._replays:
            return True
        self._pad(0, size)  # what warms up and is captured touches no request
        try:
            self._replays[size] = self._graphs.capture(self._of_size(size))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            warnings.warn(f"{self.name} cannot be captured as a CUDA graph, it runs without: {reason}", stacklevel=3)
            self._graphs.refused[self.name] = reason
            self.sizes = ()
            self._replays.clear()
        return bool(self.sizes)

    def _pad(self, number: int, size: int) -> None:
        for buffer, value in zip(self._inputs, self._padding, strict=False):
            if number < size:
                buffer[number:size].fill_(value)

    def _of_size(self, size: int) -> Callable[[], None]:
        """The pass from static inputs to static outputs; holds on to the buffers and to nothing else of this object."""
        run, inputs, outputs = self._run, [buffer[:size] for buffer in self._inputs], self._outputs
        largest = self.sizes[-1]

        def fixed() -> None:
            values = run(*inputs)
            if not outputs:
                outputs.extend(value.new_zeros((largest, *value.shape[1:])) for value in values)
            for buffer, value in zip(outputs, values, strict=True):
                buffer[:size].copy_(value)

        return fixed


def graphed_rows(
    name: str, run: Run, graphs: Graphs, cache: SlotCache, width: int, most: int, like: Sequence[Tensor]
) -> Graphed:
    """A pass whose first input is `Rows` over `cache`, at most `width` of a request: called with the slot and the
    position of each row (R,) in their place. Rows of padding are the scratch slot's."""
    row = torch.zeros(0, dtype=torch.int64, device=cache.device)
    over = partial(_over_rows, run, cache.num_slots, width, cache.capacity)
    return Graphed(name, over, graphs, most, (row, row, *like), (cache.scratch_slot, 0))


def _over_rows(
    run: Run, num_slots: int, width: int, capacity: int, slot: Tensor, position: Tensor, *inputs: Tensor
) -> tuple[Tensor, ...]:
    return run(fixed_rows(slot, position, num_slots, width, capacity), *inputs)
