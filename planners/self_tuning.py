"""Self-tuning threshold: Draft & Verify's filter, which moves a stop threshold towards a share of accepted drafts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import FloatArray, IntArray, Step
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.request_table import RequestTable


@dataclass(frozen=True, slots=True)
class Tuning:
    """A threshold that rises where fewer drafts are accepted than `target`, and else falls.

    After a verification of a request, with m its running share of accepted draft tokens, from 0, and th its threshold:

        m  = share_memory m + (1 - share_memory) accepted / verified
        to = th + step  if m < target;  th  if the draft was of full length;  th - step  otherwise
        th = threshold_memory th + (1 - threshold_memory) to
    """

    start: float
    target: float
    step: float
    share_memory: float
    threshold_memory: float

    def check(self, planner: str) -> None:
        """Raise `BenchError`, naming the planner, unless everything is 0 to 1."""
        for name in ("target", "step", "share_memory", "threshold_memory"):
            value = getattr(self, name)
            expect(0.0 <= value <= 1.0, planner, name, value, "0 to 1")


class SelfTuning:
    """Thresholds of the running requests, each tuned by its own outcomes. `full` is the length of a full draft."""

    def __init__(self, tuning: Tuning, full: int) -> None:
        self.tuning, self.full = tuning, full
        self._table = RequestTable(threshold=tuning.start, share=0.0)

    def thresholds(self, request_id: IntArray) -> FloatArray:
        """(N,), not kept within any bounds."""
        return self._table.read(request_id)[0]["threshold"]

    def observe(self, step: Step) -> None:
        """Tune the requests that verified something; keep the others as they are."""
        rows, _ = self._table.read(step.request_id)
        tuning, old, share = self.tuning, rows["threshold"], rows["share"]
        tried = step.num_verify_tokens > 0
        seen = step.num_accepted_tokens / np.maximum(step.num_verify_tokens, 1)
        share = np.where(tried, tuning.share_memory * share + (1.0 - tuning.share_memory) * seen, share)
        full = step.num_draft_tokens >= self.full
        move = np.where(share < tuning.target, tuning.step, np.where(full, 0.0, -tuning.step))
        new = tuning.threshold_memory * old + (1.0 - tuning.threshold_memory) * (old + move)
        self._table.write(step.request_id, {"threshold": np.where(tried, new, old), "share": share})
