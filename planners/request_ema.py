"""Per-request history: every request drafts a little more than it recently got accepted."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.request_table import RequestTable
from lightspec_bench.planners.static import DEFAULT_K

NAME = "request-ema"


class RequestEMA:
    """Per request, depth = average accepted tokens + `headroom`, rounded (halves up), between `min_k` and D.

    The average moves by `weight` towards the accepted draft tokens of each step that verified some. A request not
    seen before starts at the mean of the averages of all requests seen so far in the last step; the very first ones
    at `k` - `headroom`, so that they draft `k` (3 or D, where left out). Everything pending is verified.

    A step that accepts all it drafted says only that at least that many would have been; the headroom lets such a
    request go on growing. With min_k 1 no request stops drafting for good; with min_k 0 and a headroom below 0.5 one
    that accepted nothing for long does.

    This is a rule of our own, not one that was published: the plainest use of per-request history, to compare others
    with. Requests that leave are forgotten.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self, config: EngineConfig, weight: float = 0.3, headroom: float = 1.0, min_k: int = 1, k: int | None = None
    ) -> None:
        most = config.max_draft_tokens
        start = min(DEFAULT_K, most) if k is None else k
        expect(0.0 < weight <= 1.0, NAME, "weight", weight, "above 0, at most 1")
        expect(0.0 <= headroom <= most, NAME, "headroom", headroom, f"0 to {most} (the drafter's max_draft_tokens)")
        expect(0 <= min_k <= most, NAME, "min_k", min_k, f"0 to {most} (the drafter's max_draft_tokens)")
        expect(0 <= start <= most, NAME, "k", k, f"0 to {most} (the drafter's max_draft_tokens)")
        self.weight, self.headroom, self.min_k, self.most = weight, headroom, min_k, most
        self.newcomer = max(start - headroom, 0.0)
        self._requests = RequestTable(average=0.0)

    def plan(self, batch: Batch) -> Plan:
        return verify_all(batch, self.depth(self._averages(batch.request_id)))

    def observe(self, step: Step) -> None:
        average = self._averages(step.request_id)
        judged = step.num_verify_tokens > 0
        average = np.where(judged, average + self.weight * (step.num_accepted_tokens - average), average)
        self._requests.write(step.request_id, {"average": average})
        self.newcomer = float(average.mean()) if judged.any() else self.newcomer

    def depth(self, average: FloatArray) -> IntArray:
        """Draft tokens for averages of accepted tokens, like `average`."""
        wished = np.floor(average + self.headroom + 0.5).astype(np.int64)
        return np.clip(wished, self.min_k, self.most)

    def _averages(self, request_id: IntArray) -> FloatArray:
        rows, known = self._requests.read(request_id)
        return np.where(known, rows["average"], self.newcomer)
