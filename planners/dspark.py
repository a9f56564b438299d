"""DSpark's production scheduler as LightLLM runs it: the verify budget from older confidences, the depth always D."""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import (
    Batch,
    BenchError,
    Confidence,
    ConfidenceAge,
    EngineConfig,
    FloatArray,
    IntArray,
    Plan,
    Step,
)
from lightspec_bench.planners.lightspec_tables import (
    MODE_OF_KIND,
    CaptureOptions,
    CostTable,
    Mode,
    cost_tables,
    draft_cost,
)

LOWEST, HIGHEST = 0.01, 0.99  # confidences are kept between these


def head_confidence(logits: FloatArray, depth: int) -> FloatArray:
    """Confidences of the first `depth` draft tokens, (N, depth), from DSpark's confidence logits, (N, D)."""
    return np.clip(1.0 / (1.0 + np.exp(-logits[:, :depth])), LOWEST, HIGHEST)


def top_sums(survival: npt.NDArray[Any], counts: IntArray) -> FloatArray:
    """Sums of the `counts` largest survivals, pooled over the batch; like `counts`."""
    falling = np.sort(survival, axis=None)[::-1]
    return np.concatenate(([0.0], np.cumsum(falling)))[counts]


class DSparkCapacity:
    """The core, free of engine records: a queue of at most two capacities, used one after another.

    Costs are in any unit. `mode` prices the drafting ("dspark": C(B) + C(N D)).
    """

    def __init__(self, max_draft_tokens: int, target: CostTable, draft: CostTable, mode: Mode = "dspark") -> None:
        self.max_draft_tokens, self.mode = max_draft_tokens, mode
        self.target, self.draft = target, draft
        self.pending: deque[int] = deque(maxlen=2)
        self._candidates: dict[int, tuple[IntArray, FloatArray]] = {}

    def candidates(self, num_requests: int) -> tuple[IntArray, FloatArray]:
        """Captured sizes from N to N (D + 1) with both ends, and what a step costs at each; both (M,)."""
        found = self._candidates.get(num_requests)
        if found is None:
            depth = self.max_draft_tokens
            rows = self.target.keys_between(num_requests, num_requests * (1 + depth))
            drafting = draft_cost(self.mode, self.draft, num_requests, rows, depth, block_size=depth)
            found = self._candidates[num_requests] = rows, self.target.estimate(rows) + drafting
        return found

    def throughput(self, confidence: Confidence | FloatArray, num_requests: int) -> FloatArray:
        """Expected tokens per cost of each candidate, (M,); NaN confidences count as never accepted."""
        rows, cost = self.candidates(num_requests)
        kept = np.clip(np.asarray(confidence, dtype=np.float64), LOWEST, HIGHEST)
        survival = np.multiply.accumulate(kept, axis=1)
        survival[np.isnan(survival)] = 0.0
        return np.asarray((num_requests + top_sums(survival, rows - num_requests)) / cost, dtype=np.float64)

    def update(self, confidence: Confidence | FloatArray, num_requests: int) -> None:
        """Queue the best rows, of equals the fewest, for proposals with these confidences, (N, D)."""
        rows, _ = self.candidates(num_requests)
        self.pending.append(int(rows[self.throughput(confidence, num_requests).argmax()]))

    def capacity(self, num_requests: int, origin: int) -> int:
        """Rows to verify: the older of two queued capacities, kept within N to `origin`; else `origin`."""
        if len(self.pending) < 2:
            return origin
        return max(num_requests, min(self.pending.popleft(), origin))


class DSpark:
    """Moves the verify budget by the confidences of an earlier proposal; never learns from outcomes.

    Rule: Algorithm 1 of the DSpark paper without its early stop, over captured sizes, with LightLLM's clamp and delay
    (`lightspec` branch at 414c39b). A proposal's confidences decide the budget one step after it was verified under
    lag 0 (LightLLM's plain order of plan and update) and two steps after under lag 1 (its overlapped order): the
    newest that the batch shows are queued, and the older of two queued capacities is used. Requests without
    confidences are left out of the sum, as they had no part in that proposal. The capacity is an absolute number
    of rows, only kept within its bounds when the batch has changed.

    LightLLM has this for parallel drafters; other kinds are priced by their own drafting cost at depth D. The
    `graph_*` options are LightLLM's flags. Raises `BenchError` in a batch without confidences.
    """

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        graph_max_batch_size: int = 256,
        graph_split_batch_size: int = 32,
        graph_grow_step_size: int = 16,
    ) -> None:
        capture = CaptureOptions(graph_max_batch_size, graph_split_batch_size, graph_grow_step_size)
        mode: Mode = "dspark" if config.drafter.kind == "parallel" else MODE_OF_KIND[config.drafter.kind]
        self.core = DSparkCapacity(config.max_draft_tokens, *cost_tables(config, mode, capture), mode)

    def plan(self, batch: Batch) -> Plan:
        if batch.confidence is None:
            raise BenchError("dspark: the batch has no confidences, expected a trace or engine that records them")
        shown = ~np.isnan(batch.confidence[:, 0])
        num_shown = int(np.count_nonzero(shown))
        if num_shown:
            self.core.update(batch.confidence[shown], num_shown)
        origin = batch.num_requests + int(batch.num_draft_tokens.sum())
        return Plan(self.core.max_draft_tokens, self.core.capacity(batch.num_requests, origin))

    def observe(self, step: Step) -> None:
        pass
