"""Costs over captured sizes as vLLM's adaptive verification reads them off its start-up profile.

Rules of vLLM's `v1/worker/gpu/spec_decode/adaptive_verification.py` (at 057929c): the curve is made monotone; up to
the capture limit a size costs what the next profiled one does; above it cost is interpolated between profiled sizes
that are above it too, and continued past the last one by the slope of the last two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import FloatArray, IntArray, LatencyModel

# What vLLM captures by default: 1, 2, 4, then multiples of 8, then of 16.
DEFAULT_SIZES = np.array([1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class CaptureCurve:
    """Cost at profiled sizes; `sizes` ascend, both arrays are (P,), `limit` is the largest captured size."""

    sizes: IntArray
    costs: FloatArray
    limit: int
    floor: float = 0.0

    def at(self, values: IntArray) -> FloatArray:
        """Cost of each size, like `values`."""
        sizes, costs = self.sizes, np.maximum.accumulate(self.costs)
        cost = costs[np.minimum(np.searchsorted(sizes, values), len(sizes) - 1)]
        above = sizes > self.limit
        if above.any():
            cost = np.where(values > self.limit, np.interp(values, sizes[above], costs[above]), cost)
        if len(sizes) > 1:
            slope = (costs[-1] - costs[-2]) / (sizes[-1] - sizes[-2])
            cost = cost + slope * np.maximum(values - sizes[-1], 0)
        return np.maximum(cost, self.floor)


def captured_sizes(latency: LatencyModel, most: int) -> IntArray:
    """Captured row counts up to `most`: the latency model's, or vLLM's defaults where it names none."""
    sizes = latency.graph_sizes if len(latency.graph_sizes) else DEFAULT_SIZES
    kept = sizes[sizes <= most]
    return kept if len(kept) else sizes[:1]


def profiled_sizes(captured: IntArray, most: int) -> IntArray:
    """The captured sizes, then 1.5 times the largest and its doublings up to `most`; ascending."""
    largest = int(captured[-1])
    tail = {min(largest + largest // 2, most)}
    size = largest
    while size < most:
        size = min(size * 2, most)
        tail.add(size)
    return np.union1d(captured, np.array(sorted(tail), dtype=np.int64))
