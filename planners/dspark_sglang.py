"""SGLang's DSpark planner: a budget from an earlier proposal's survival, by a floor table or an additive cost."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from lightspec_bench.core import Batch, Confidence, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.fill import prefix_survival
from lightspec_bench.planners.additive_cost import AdditiveCost, profile_additive
from lightspec_bench.planners.capture_costs import captured_sizes
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.verify_budget import (
    EarlierConfidences,
    gains,
    pending_slots,
    shown_confidence,
    survival_of,
)

NAME = "dspark-sglang"
Cost: TypeAlias = Literal["additive", "floor", "flat"]
Order: TypeAlias = Literal["survival", "uncertainty"]


class DSparkSGLang:
    """Always drafts D; verifies the n draft tokens of the highest (N + n largest survivals) / seconds(N, N + n).

    Survival is that of the proposal before the pending one; requests without one count as sure. Draft tokens below
    `survival_eps` are no candidates, nor those past `max_verify_len` - 1 (rows per request, 0: D + 1). Every request
    verifies `min_verify_len` - 1 draft tokens in any case. Equal scores take fewer rows.

    `cost`: "additive", bias + alpha(N) + theta(rows), interpolated and held at the ends; "floor", the price of the
    largest profiled row count that is not above (so a step between two points costs too little); "flat", what SGLang
    has until a table is profiled: everything with survival above `survival_eps` is verified. Both tables are the
    latency model at captured sizes, at a context of `profile_context_tokens` each (`additive_cost`). `fill_tier` raises
    the budget to the next captured size, which costs nothing more.

    `order` "survival" leaves the choice to Fill: the highest current survivals. "uncertainty" is the rule of SGLang's
    DFlash variant: requests whose next token's survival is below `confidence_threshold` first, within both groups the
    least certain first, each filled to its end before the next. It spends rows where they are lost: a negative control.
    It orders by the confidences that the engine shows, older ones under lag.

    Source: SGLang `speculative/dspark_components/dspark_planner.py`, `dspark_sps.py` (45b76f55) and
    `speculative/dflash_confidence.py` (51ce3229; its threshold has no default, 0.5 is ours). Not known: its profiling
    points and context (1024 is ours). Raises `BenchError` for options out of range.
    """

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        cost: Cost = "additive",
        min_verify_len: int = 1,
        max_verify_len: int = 0,
        survival_eps: float = 1e-6,
        fill_tier: bool = False,
        order: Order = "survival",
        confidence_threshold: float = 0.5,
        profile_context_tokens: int = 1024,
    ) -> None:
        self.depth, width = config.max_draft_tokens, config.max_draft_tokens + 1
        expect(max_verify_len >= 0, NAME, "max_verify_len", max_verify_len, "at least 0")
        self.longest = min(max_verify_len or width, width) - 1
        self.least = max(min_verify_len, 1) - 1
        bounds = f"0 to {self.longest + 1} (max_verify_len)"
        expect(0 <= min_verify_len <= self.longest + 1, NAME, "min_verify_len", min_verify_len, bounds)
        expect(0.0 <= survival_eps < np.inf, NAME, "survival_eps", survival_eps, "at least 0")
        expect(0.0 <= confidence_threshold <= 1.0, NAME, "confidence_threshold", confidence_threshold, "0 to 1")
        expect(profile_context_tokens >= 0, NAME, "profile_context_tokens", profile_context_tokens, "at least 0")
        self.cost, self.order, self.survival_eps = cost, order, survival_eps
        self.confidence_threshold = confidence_threshold
        self.table: AdditiveCost = profile_additive(config, profile_context_tokens)
        self.tiers = captured_sizes(config.latency, config.max_num_seqs * width) if fill_tier else None
        self.earlier = EarlierConfidences(1 - config.lag_steps)
        self._seconds = lru_cache(maxsize=64)(self.seconds)

    def plan(self, batch: Batch) -> Plan:
        shown = shown_confidence(batch, NAME)
        survival = survival_of(self.earlier.of(batch.request_id, shown))
        pending = np.minimum(batch.num_draft_tokens, self.longest)
        budget = self.budget(survival[pending_slots(pending, self.depth)], batch.num_requests)
        number, floor = batch.num_requests, np.minimum(pending, self.least)
        rows = max(number + budget, number + int(floor.sum()))
        if self.tiers is not None and len(self.tiers) and rows <= self.tiers[-1]:
            rows = int(self.tiers[np.searchsorted(self.tiers, rows)])
        rows = min(rows, number + int(pending.sum()))
        if self.order == "survival":
            return Plan(self.depth, rows)
        now = prefix_survival(shown)
        return Plan(self.depth, num_verify_tokens=self.least_certain_first(now, pending, floor, rows - number))

    def budget(self, survival: FloatArray, num_requests: int) -> int:
        """Draft tokens to verify, of those with these survivals, (M,)."""
        survival = survival[survival >= self.survival_eps]
        seconds = self._seconds(num_requests)[: len(survival) + 1]
        return int(np.argmax((num_requests + gains(survival)) / seconds))

    def seconds(self, num_requests: int) -> FloatArray:
        """Price of a step at N to N (D + 1) rows, (N D + 1,)."""
        rows = num_requests + np.arange(num_requests * self.depth + 1)
        if self.cost == "flat":
            return np.ones(len(rows))
        if self.cost == "additive":
            return self.table.step_s(num_requests, rows)
        points = self.table.row_points
        return self.table.step_s(num_requests, points[np.maximum(np.searchsorted(points, rows, side="right") - 1, 0)])

    def least_certain_first(
        self, survival: FloatArray | Confidence, pending: IntArray, floor: IntArray, budget: int
    ) -> IntArray:
        """Draft tokens per request, (N,), that spend `budget` by uncertainty, above a floor that each has anyway."""
        following = survival[:, min(self.least, self.depth - 1)].astype(np.float64)
        priority = 2.0 * (following < self.confidence_threshold) + (1.0 - following)
        order = np.argsort(-priority, kind="stable")
        room = (pending - floor)[order]
        left = budget - int(floor.sum()) - (np.cumsum(room) - room)
        counts = floor.copy()
        counts[order] += np.clip(left, 0, room)
        return counts

    def observe(self, step: Step) -> None:
        pass
