"""AdaEDL: a draft ends where entropy bounds the chance of acceptance too low, under a self-tuning threshold."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EarlyExit, EngineConfig, Plan, Step
from lightspec_bench.planners.exits import cut_depth, draft_until
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.self_tuning import SelfTuning, Tuning


class AdaEDL:
    """Stops where 1 - sqrt(gamma H) < lambda, H the drafter's entropy in nats, lambda tuned per request.

    Written for the exit rule as H > (1 - lambda)^2 / gamma. Everything pending is verified; `k` left out is D.

    Source: AdaEDL (arXiv 2410.18351). From memory of the paper, not checked: gamma 0.2 and that lambda follows the
    filter of Draft & Verify with its constants. Not known: lambda's start (`threshold` 0.5 is a choice of this tool)
    and whether the token that stopped a draft is verified (`keep_last`; the paper's bound is on a token about to be
    drafted, so not). The paper runs one request; here lambda is kept per request, and forgotten when it leaves.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset({"entropy"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        gamma: float = 0.2,
        threshold: float = 0.5,
        target: float = 0.9,
        step: float = 0.01,
        share_memory: float = 0.5,
        threshold_memory: float = 0.9,
        k: int | None = None,
        keep_last: bool = False,
    ) -> None:
        expect(gamma > 0.0, "adaedl", "gamma", gamma, "above 0")
        expect(0.0 <= threshold <= 1.0, "adaedl", "threshold", threshold, "0 to 1")
        tuning = Tuning(threshold, target, step, share_memory, threshold_memory)
        tuning.check("adaedl")
        self.gamma, self.k, self.keep_last = gamma, cut_depth("adaedl", "k", k, config), keep_last
        self._tuned = SelfTuning(tuning, self.k)

    def plan(self, batch: Batch) -> Plan:
        room = np.maximum(1.0 - self._tuned.thresholds(batch.request_id), 0.0)
        return draft_until(EarlyExit("entropy", room**2 / self.gamma, self.keep_last), batch, self.k)

    def observe(self, step: Step) -> None:
        self._tuned.observe(step)
