"""Timing the engine's own pieces over batch shapes: verifying, and what the drafter does after it.

A shape is a step of N requests with the same context that verify B rows in all. Slots are filled by decree, without a
prefill: what keys and values say changes nothing of what a pass costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from lightspec_bench.core import BenchError, FloatArray, IntArray, Plan
from lightspec_bench.runners.torch_accept import Sampling
from lightspec_bench.runners.torch_clock import Clock, to_device
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_engine import Engine
from lightspec_bench.runners.torch_model import TorchModel, out_of_memory

Part = Literal["verify", "first", "later", "proposal"]
WARM_UPS = 1
DEPTH = 4  # draft tokens over which a later pass is averaged


@dataclass(frozen=True, slots=True)
class Shape:
    """A step of `requests` requests with `context` tokens each, `rows` rows in all."""

    rows: int
    requests: int
    context: int

    def __post_init__(self) -> None:
        if min(self.rows, self.requests, self.context) < 1 or self.rows < self.requests:
            raise BenchError(f"{self} is no shape of a step, expected rows >= requests >= 1 and context >= 1")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one piece of work at a shape, one per repeat.

    `verify`: the target's forward with acceptance. `first`: the drafter reads the verified rows and proposes one token
    per request. `later`: one more token per request. `proposal`: the whole of a parallel drafter's, reading included.
    """

    part: Part
    shape: Shape
    seconds: FloatArray

    @property
    def median_s(self) -> float:
        return float(np.median(self.seconds))

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, over the median."""
        low, high = np.percentile(self.seconds, (25, 75))
        return float(high - low) / 2 / self.median_s if self.median_s > 0 else 0.0


def time_shapes(
    target: TorchModel, drafter: TorchDrafter | None, shapes: Sequence[Shape], width: int, repeats: int
) -> Iterator[tuple[Shape, list[Timing]]]:
    """Timings of every shape, those of the same requests and context one after another. `width` is D.

    Raises `BenchError` for more verify tokens than D per request, and where memory runs out.
    """
    for requests, context in sorted({(shape.requests, shape.context) for shape in shapes}):
        some = [shape for shape in shapes if (shape.requests, shape.context) == (requests, context)]
        with out_of_memory(f"timing {requests} requests of {context} tokens: lower requests or contexts"):
            bench = _Bench(target, drafter, requests, context, width)
            for shape in some:
                yield shape, bench.timings(shape, repeats)
            del bench


class _Bench:
    """An engine of N slots that stand at the same context."""

    def __init__(
        self, target: TorchModel, drafter: TorchDrafter | None, requests: int, context: int, width: int
    ) -> None:
        self.context, self.width = context, width
        self.engine = Engine(target, drafter, requests, context + width + 2, Sampling(), (), width)
        self.clock = Clock(target.device)
        self.slots: IntArray = np.arange(requests)
        rng = np.random.default_rng(0)
        self.prompts = [rng.integers(0, target.vocab_size, context) for _ in range(requests)]
        self.where = to_device(self.slots, target.device)
        self.drafts = torch.from_numpy(rng.integers(0, target.vocab_size, (requests, width))).to(target.device)
        self.kind = None if drafter is None else drafter.shape.kind

    @torch.inference_mode()
    def timings(self, shape: Shape, repeats: int) -> list[Timing]:
        counts = _spread_out(shape, self.width)
        found: dict[Part, list[float]] = {}
        for number in range(WARM_UPS + repeats):
            for part, seconds in self._once(shape, counts).items():
                if number >= WARM_UPS:
                    found.setdefault(part, []).append(seconds)
        return [Timing(part, shape, np.array(seconds)) for part, seconds in found.items()]

    def _once(self, shape: Shape, counts: IntArray) -> dict[Part, float]:
        found: dict[Part, float] = {"verify": self._verify(counts)}
        if self.kind == "parallel":
            found["proposal"] = self._draft(self.width)
        elif self.kind == "autoregressive":
            found["first"] = self._draft(1)
            if shape.rows == shape.requests:
                found["later"] = self._later(counts, found["first"])
        elif self.kind == "autoregressive_no_attention" and shape.rows == shape.requests:
            found["later"] = self._draft(1)
        return found

    def _later(self, counts: IntArray, first_s: float) -> float:
        depth = min(DEPTH, self.width)
        if depth == 1:
            return first_s
        self._verify(counts)
        return max(self._draft(depth) - first_s, 0.0) / (depth - 1)

    def _verify(self, counts: IntArray) -> float:
        """The slots stand where they began, with fresh drafts; afterwards all of them count as accepted."""
        state, engine = self.engine.slots, self.engine
        limits = np.full(len(self.slots), self.context + self.width + 2)
        state.join(self.slots, self.prompts, limits)
        for slot in self.slots.tolist():
            if engine.drafter is not None:
                engine.drafter.join(slot)
        state.drafts[self.where] = self.drafts
        state.num_drafts[self.where] = to_device(counts, state.device)
        state.most_drafts[self.slots] = counts
        start = self.clock.mark()
        engine.verify(self.slots, Plan(0, num_verify_tokens=counts))
        seconds = self.clock.seconds(start, self.clock.mark())
        state.length[self.where] = to_device(self.context + counts + 1, state.device)
        state.lengths[self.slots] = self.context + counts + 1
        return seconds

    def _draft(self, depth: int) -> float:
        start = self.clock.mark()
        self.engine.draft(self.slots, np.full(len(self.slots), depth), None)
        return self.clock.seconds(start, self.clock.mark())


def _spread_out(shape: Shape, width: int) -> IntArray:
    """Verify tokens per request, (N,), as even as they can be."""
    each, more = divmod(shape.rows - shape.requests, shape.requests)
    counts = each + (np.arange(shape.requests) < more)
    if counts.max() > width:
        raise BenchError(f"{shape} verifies {counts.max()} draft tokens of a request, expected at most {width}")
    return counts.astype(np.int64)
