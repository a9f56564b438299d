"""Draft & Verify: a draft ends at a low top probability, under a threshold that every request tunes for itself."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EarlyExit, EngineConfig, Plan, Step
from lightspec_bench.planners.exits import cut_depth, draft_until
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.self_tuning import SelfTuning, Tuning


class DraftAndVerify:
    """Stops where the top probability is below a threshold tuned towards `target` accepted drafts (`self_tuning`).

    `threshold` 0.8 is where a request begins and `k` = 8 its longest draft, cut to D. The threshold is not bounded in
    the source; the exit rule takes it as 0 to 1. Everything pending is verified.

    Source: the self-speculative decoding code of Draft & Verify (arXiv 2309.08168), as it also is in IPEX-LLM. It runs
    one request, so its batch form is a threshold per request, forgotten when the request leaves. That the token
    that stopped a draft is verified too (`keep_last`) is from memory of that code, not checked.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        threshold: float = 0.8,
        target: float = 0.9,
        step: float = 0.01,
        share_memory: float = 0.5,
        threshold_memory: float = 0.9,
        k: int | None = 8,
        keep_last: bool = True,
    ) -> None:
        name = "draft-and-verify"
        expect(0.0 <= threshold <= 1.0, name, "threshold", threshold, "0 to 1")
        tuning = Tuning(threshold, target, step, share_memory, threshold_memory)
        tuning.check(name)
        self.k, self.keep_last = cut_depth(name, "k", k, config), keep_last
        self._tuned = SelfTuning(tuning, self.k)

    def plan(self, batch: Batch) -> Plan:
        threshold = np.clip(self._tuned.thresholds(batch.request_id), 0.0, 1.0)
        return draft_until(EarlyExit("confidence", threshold, self.keep_last), batch, self.k)

    def observe(self, step: Step) -> None:
        self._tuned.observe(step)
