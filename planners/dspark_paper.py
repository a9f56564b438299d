"""DSpark's scheduler as its paper has it: Algorithm 1 with its early stop, and the form it runs in production."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from lightspec_bench.core import Batch, Confidence, ConfidenceAge, EngineConfig, FloatArray, Plan, Step
from lightspec_bench.drafting import draft_s
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.scan import first_drop
from lightspec_bench.planners.temperature_scaling import TemperatureScaling
from lightspec_bench.planners.verify_budget import (
    EarlierConfidences,
    gains,
    pending_slots,
    shown_confidence,
    survival_of,
)

NAME = "dspark-paper"
Form: TypeAlias = Literal["algorithm-1", "production"]
Calibration: TypeAlias = Literal["none", "online"]


class DSparkPaper:
    """Always drafts D; verifies the B rows of the highest tokens(B) SPS(B): N + the B - N largest survivals, per step.

    `form` "algorithm-1": tokens are admitted one by one in falling survival, and the first that does not raise the
    product ends it; confidences are the newest that the engine shows. On a staircase of costs that stops at the first
    riser. "production" (section 5.2): the best B of all, of equals the fewest, from the confidences of the proposal
    before the pending one; requests that had none count as sure. Fill then takes the best rows by current confidences,
    so the order of acceptance stays that of the algorithm and the output is not changed.

    SPS(B), steps per second, is a profile of the engine: here the latency model at every B, for N requests at a context
    of `profile_context_tokens` each, verification, drafting D and host time. The paper does not give the points of its
    profile (1024 is ours).

    `calibration` "online" divides the confidences' logits by temperatures kept while serving
    (`temperature_scaling`); the paper fits them once, on held-out data, which a planner does not have. "none" takes
    confidences as they are, right for a head that was calibrated before.

    Source: DSpark paper (arXiv 2607.05147), Algorithm 1 and section 5.2. LightLLM's form of it is planner `dspark`.
    """

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        form: Form = "production",
        calibration: Calibration = "none",
        profile_context_tokens: int = 1024,
    ) -> None:
        expect(profile_context_tokens >= 0, NAME, "profile_context_tokens", profile_context_tokens, "at least 0")
        self.config, self.form, self.depth = config, form, config.max_draft_tokens
        self.context_per_request = profile_context_tokens
        self._seconds = lru_cache(maxsize=64)(self.seconds)
        self.earlier = EarlierConfidences(1 - config.lag_steps if form == "production" else 0)
        self.scaling = TemperatureScaling(self.depth) if calibration == "online" else None

    def plan(self, batch: Batch) -> Plan:
        scores: Confidence | FloatArray = self.earlier.of(batch.request_id, shown_confidence(batch, NAME))
        if self.scaling is not None:
            scores = self.scaling.acceptance(scores)
        survival = survival_of(scores)[pending_slots(batch.num_draft_tokens, self.depth)]
        throughput = self.throughput(survival, batch.num_requests)
        best = first_drop(throughput) if self.form == "algorithm-1" else int(throughput.argmax())
        return Plan(self.depth, batch.num_requests + best)

    def throughput(self, survival: FloatArray, num_requests: int) -> FloatArray:
        """Expected tokens per second when 0 to M of the draft tokens with these survivals, (M,), are verified."""
        return np.asarray((num_requests + gains(survival)) / self._seconds(num_requests)[: len(survival) + 1])

    def seconds(self, num_requests: int) -> FloatArray:
        """Price of a step at N to N (D + 1) rows, (N D + 1,)."""
        latency, context = self.config.latency, num_requests * self.context_per_request
        rows = num_requests + np.arange(num_requests * self.depth + 1)
        seconds = latency.verify_s(rows, num_requests, context) + latency.host_s(num_requests, True)
        return seconds + draft_s(latency, self.config.drafter, rows, num_requests, self.depth, context)

    def observe(self, step: Step) -> None:
        if self.scaling is not None and step.confidence is not None:
            self.scaling.observe(step.confidence, step.num_verify_tokens, step.num_accepted_tokens)
