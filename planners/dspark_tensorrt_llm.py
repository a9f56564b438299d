"""TensorRT-LLM's DSpark planner: trims verification only where that clearly beats verifying everything."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.planners.additive_cost import AdditiveCost, profile_additive
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.verify_budget import (
    EarlierConfidences,
    gains,
    pending_slots,
    shown_confidence,
    survival_of,
)

NAME = "dspark-tensorrt-llm"


class DSparkTensorRTLLM:
    """Always drafts D; verifies the n draft tokens of the highest (G + survival sum) / (bias + alpha(G) + theta(rows)).

    The first `min_verify_len` draft tokens of every request are granted and their survival is in the sum; the others
    are taken by falling survival, over every n. The best n is used only if its score is at least
    1 + `minimum_predicted_gain` times that of verifying everything, otherwise everything is verified. So a flat
    cost never trims. Survival is that of the proposal before the pending one; requests without one count as sure.

    Costs are the latency model in additive form at captured sizes (`additive_cost`), at a context of
    `profile_context_tokens` each, interpolated and held at the ends. Fill spends the rows by current survival, so a
    request with hopeless tokens may get fewer than `min_verify_len`, where TensorRT-LLM grants them.

    Source: TensorRT-LLM #17056. Left out: its exact mode, which uses only measured pairs of requests and rows from a
    file that is bound to one machine. Not known: the context at which it profiles (1024 is ours). Raises `BenchError`
    for options out of range.
    """

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        minimum_predicted_gain: float = 0.01,
        min_verify_len: int = 1,
        profile_context_tokens: int = 1024,
    ) -> None:
        gain_ok = 0.0 <= minimum_predicted_gain < np.inf
        expect(gain_ok, NAME, "minimum_predicted_gain", minimum_predicted_gain, "at least 0")
        expect(min_verify_len >= 1, NAME, "min_verify_len", min_verify_len, "at least 1")
        expect(profile_context_tokens >= 0, NAME, "profile_context_tokens", profile_context_tokens, "at least 0")
        self.depth, self.minimum_predicted_gain = config.max_draft_tokens, minimum_predicted_gain
        self.min_verify_len = min(min_verify_len, self.depth)
        self.table: AdditiveCost = profile_additive(config, profile_context_tokens)
        self.earlier = EarlierConfidences(1 - config.lag_steps)
        self._seconds = lru_cache(maxsize=64)(self.seconds)

    def plan(self, batch: Batch) -> Plan:
        survival = survival_of(self.earlier.of(batch.request_id, shown_confidence(batch, NAME)))
        return Plan(self.depth, batch.num_requests + self.num_verify_tokens(survival, batch.num_draft_tokens))

    def num_verify_tokens(self, survival: FloatArray, pending: IntArray) -> int:
        """Draft tokens of the whole batch to verify, for survivals (N, D) of which the first `pending` are there."""
        slots = pending_slots(pending, self.depth)
        granted = slots & (np.arange(self.depth) < self.min_verify_len)
        floor = int(np.count_nonzero(granted))
        tokens = len(pending) + float(survival[granted].sum()) + gains(survival[slots & ~granted])
        score = tokens / self._seconds(len(pending))[floor : floor + len(tokens)]
        best = int(np.argmax(score))
        trims = score[best] >= (1.0 + self.minimum_predicted_gain) * score[-1]
        return floor + (best if trims else len(tokens) - 1)

    def seconds(self, num_requests: int) -> FloatArray:
        """Price of a step at N to N (D + 1) rows, (N D + 1,)."""
        return self.table.step_s(num_requests, num_requests + np.arange(num_requests * self.depth + 1))

    def observe(self, step: Step) -> None:
        pass
