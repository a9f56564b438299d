"""LightLLM's cost tables: which batch sizes are captured, how a cost is read off them, what drafting costs.

Rules of LightLLM's `lightspec` branch at 414c39b. A table is unit-free; the planners here fill it with seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from lightspec_bench.core import BenchError, DrafterKind, EngineConfig, FloatArray, IntArray, Number

Mode: TypeAlias = Literal[
    "eagle3", "eagle_with_att", "eagle_no_att", "vanilla_with_att", "vanilla_no_att", "dflash", "dspark"
]
NO_ATTENTION_MODES: tuple[Mode, ...] = ("eagle_no_att", "vanilla_no_att")
BLOCK_MODES: tuple[Mode, ...] = ("dflash", "dspark")
FIXED_DEPTH_MODES: tuple[Mode, ...] = ("vanilla_with_att", *BLOCK_MODES)
MODE_OF_KIND: dict[DrafterKind, Mode] = {
    "autoregressive": "eagle3",
    "autoregressive_no_attention": "eagle_no_att",
    "parallel": "dflash",
    "ngram": "eagle_no_att",
}


@dataclass(frozen=True, slots=True)
class CostTable:
    """Cost of a forward pass at each captured batch size; `sizes` ascend, both arrays are (keys,)."""

    sizes: IntArray
    costs: FloatArray

    @classmethod
    def of(cls, costs: Mapping[int, float]) -> CostTable:
        sizes = sorted(costs)
        return cls(np.array(sizes, dtype=np.int64), np.array([costs[size] for size in sizes], dtype=np.float64))

    def estimate(self, rows: Number) -> FloatArray:
        """Cost of `rows`: that of the next captured size, and above the largest one in proportion to the rows.

        Broadcasts. Raises `BenchError` on an empty table.
        """
        if not len(self.sizes):
            raise BenchError("the cost table is empty, expected at least one captured batch size")
        at = np.minimum(np.searchsorted(self.sizes, rows), len(self.sizes) - 1)
        largest = self.sizes[-1]
        return np.where(np.greater(rows, largest), self.costs[-1] * np.asarray(rows) / largest, self.costs[at])

    def keys_between(self, one: int, other: int) -> IntArray:
        """The captured sizes between two batch sizes, in either order, and the two themselves; ascending, unique."""
        low, high = min(one, other), max(one, other)
        first, last = np.searchsorted(self.sizes, (low, high + 1))
        return np.union1d(self.sizes[first:last], np.array((low, high), dtype=np.int64))


def graph_sizes(stride: int, split: int, grow: int, most: int) -> IntArray:
    """Captured batch sizes: every `stride` up to `split`, then every `grow`, and `most` itself in any case."""
    below = np.arange(stride, min(split, most) + 1, stride)
    above = np.arange(split + grow, most + 1, grow)
    return np.union1d(np.concatenate((below, above)), np.array([most], dtype=np.int64))


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """LightLLM's flags `--graph_max_batch_size`, `--graph_split_batch_size` and `--graph_grow_step_size`."""

    max_batch_size: int = 256
    split_batch_size: int = 32
    grow_step_size: int = 16

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "split_batch_size", "grow_step_size"):
            value = getattr(self, name)
            if value < 1:
                raise BenchError(f"graph_{name} is {value}, expected at least 1")

    def target_sizes(self, max_draft_tokens: int) -> IntArray:
        """Target rows captured when verification is dynamic: every size, then every grow-step-th."""
        width = max_draft_tokens + 1
        return graph_sizes(1, self.split_batch_size * width, self.grow_step_size, self.max_batch_size * width)

    def draft_sizes(self, mode: Mode, max_draft_tokens: int) -> IntArray:
        """Drafter rows captured: one per request, or a whole block per request for a parallel drafter."""
        width = max_draft_tokens if mode in BLOCK_MODES else 1
        return graph_sizes(
            width, self.split_batch_size * width, self.grow_step_size * width, self.max_batch_size * width
        )


def cost_tables(config: EngineConfig, mode: Mode, capture: CaptureOptions) -> tuple[CostTable, CostTable]:
    """The target's and the drafter's table as LightLLM's capture would time them, in seconds.

    Every captured row is a dummy request of its own with a context of 2 tokens, so hardly any KV reading is in it.
    An n-gram drafter runs on the host: its table is zero.
    """
    target, draft = capture.target_sizes(config.max_draft_tokens), capture.draft_sizes(mode, config.max_draft_tokens)
    if config.drafter.kind == "ngram":
        draft_costs = np.zeros(len(draft))
    else:
        draft_costs = config.latency.draft_pass_s(draft, 2 * draft)
    return CostTable(target, config.latency.verify_s(target, target, 2 * target)), CostTable(draft, draft_costs)


def allowed_depths(mode: Mode, max_draft_tokens: int) -> range:
    """Depths LightSpec may plan: attention drafters must extend their KV each step, chains and blocks stay whole."""
    if mode in FIXED_DEPTH_MODES:
        return range(max_draft_tokens, max_draft_tokens + 1)
    return range(0 if mode in NO_ATTENTION_MODES else 1, max_draft_tokens + 1)


def draft_cost(
    mode: Mode, table: CostTable, num_requests: int, rows: Number, depth: Number, block_size: int
) -> FloatArray:
    """Modelled cost of drafting `depth` tokens for N requests after verifying `rows` target rows; broadcasts.

    No attention: d C(N). Attention: C(B) + (d - 1) C(N). Block: C(B) + C(N block). Raises `BenchError` for an
    attention drafter at depth 0. (For `vanilla_with_att` this is what the rules price; it really runs d C(B).)
    """
    if mode in NO_ATTENTION_MODES:
        return np.asarray(depth * table.estimate(num_requests), dtype=np.float64)
    if mode in BLOCK_MODES:
        return table.estimate(rows) + table.estimate(num_requests * block_size)
    if np.min(depth) < 1:
        raise BenchError(f"draft depth is {np.min(depth)} for {mode}, expected at least 1")
    return table.estimate(rows) + (np.asarray(depth) - 1) * table.estimate(num_requests)
