"""SLO: another planner's plan, cut to what keeps the predicted time per output token within a bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lightspec_bench.core import Batch, BenchError, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.drafting import draft_s
from lightspec_bench.fill import depth_survival, fill, prefix_survival
from lightspec_bench.planners.wrapper import DEFAULT_INNER, Wrapper, at_most, with_depth


class Slo(Wrapper):
    """Caps draft depth and verify budget at the largest whose predicted TPOT is at most `tpot_ms`.

    Where none is, at the one with the least. Predicted TPOT of a step with N requests, B target rows and depth d is

        (T(B) + drafting(N, B, d) + host) / (1 + s_1 + ... + s_v),   v = (B - N) / N

    with times from the engine's latency model and s_j the observed prefix survival: the product of conditional
    acceptances, accepted / verified where the token before was accepted. The depth is capped by the prediction for
    verifying all of it, B = N (1 + d); the budget by the prediction at the depth that is left, v between whole
    numbers by straight lines. Which draft tokens a cut of per-request counts keeps is decided as by Fill: by the
    confidences of the pending proposals where the batch shows them, else the shallow ones first.

    Each depth's record fades by `memory` a step and starts as one token accepted, so a depth that was cut is tried
    again when its record has faded. Decode steps only: prefill and the planner's time are not in the prediction, and
    it is a mean over the batch, no promise to one request. Raises `BenchError` unless tpot_ms > 0 and
    0 < memory <= 1.
    """

    def __init__(
        self, config: EngineConfig, planner: str = DEFAULT_INNER, tpot_ms: float = 50.0, memory: float = 0.99
    ) -> None:
        super().__init__(config, "slo", planner)
        if not tpot_ms > 0:
            raise BenchError(f"slo: tpot_ms is {tpot_ms:g}, expected more than 0")
        if not 0 < memory <= 1:
            raise BenchError(f"slo: memory is {memory:g}, expected more than 0, at most 1")
        self.bound_s, self.memory = tpot_ms / 1e3, memory
        self.depths = np.arange(config.max_draft_tokens + 1)
        self.tried = np.zeros(config.max_draft_tokens)
        self.accepted = np.zeros(config.max_draft_tokens)
        self.sees_pending = config.lag_steps == 0 or self.confidence == "current"

    def change(self, plan: Plan, batch: Batch) -> Plan:
        if not batch.num_requests:
            return plan
        tokens = self.tokens_per_request()
        rows = batch.num_requests * (1 + self.depths)
        cap = largest_within(self.step_s(rows, self.depths, batch) / tokens, self.bound_s)
        plan = with_depth(plan, at_most(plan.num_draft_tokens, cap))
        return self._cut_budget(plan, batch, tokens)

    def observe(self, step: Step) -> None:
        verified, accepted = step.num_verify_tokens[:, None], step.num_accepted_tokens[:, None]
        number = self.depths[1:]
        self.tried = self.memory * self.tried + ((verified >= number) & (accepted >= number - 1)).sum(axis=0)
        self.accepted = self.memory * self.accepted + (accepted >= number).sum(axis=0)
        super().observe(step)

    def tokens_per_request(self) -> FloatArray:
        """Expected tokens out of a request that verifies 0 to D draft tokens, (D + 1,)."""
        survival = np.cumprod((self.accepted + 1.0) / (self.tried + 1.0))
        return np.concatenate(([1.0], 1.0 + np.cumsum(survival)))

    def step_s(self, rows: IntArray, depth: int | IntArray, batch: Batch) -> FloatArray:
        """Predicted seconds of a step with so many target rows and such a draft depth; broadcasts."""
        latency, number, context = self.config.latency, batch.num_requests, int(batch.num_context_tokens.sum())
        drafting = draft_s(latency, self.config.drafter, rows, number, depth, context)
        return latency.verify_s(rows, number, context) + drafting + latency.host_s(number, True)

    def _cut_budget(self, plan: Plan, batch: Batch, tokens: FloatArray) -> Plan:
        number, counts = batch.num_requests, plan.num_verify_tokens
        asked = plan.num_target_tokens if counts is None else number + int(counts.sum())
        assert asked is not None
        # What is asked for is usually within the bound already, and pricing every smaller budget takes longer.
        if self._tpot_s(np.array([asked]), plan, batch, tokens)[0] <= self.bound_s:
            return plan
        budget = number + largest_within(self._tpot_s(np.arange(number, asked + 1), plan, batch, tokens), self.bound_s)
        if budget >= asked:
            return plan
        if counts is None:
            return replace(plan, num_target_tokens=budget)
        return replace(plan, num_verify_tokens=fill(self._survival(batch), counts, budget))

    def _tpot_s(self, rows: IntArray, plan: Plan, batch: Batch, tokens: FloatArray) -> FloatArray:
        """Predicted TPOT by target rows, at the plan's deepest draft; like `rows`."""
        expected = np.interp((rows - batch.num_requests) / batch.num_requests, self.depths, tokens)
        return self.step_s(rows, int(np.max(plan.num_draft_tokens)), batch) / expected

    def _survival(self, batch: Batch) -> FloatArray:
        if self.sees_pending and batch.confidence is not None:
            return np.asarray(prefix_survival(batch.confidence), dtype=np.float64)
        return np.asarray(depth_survival(batch.num_requests, self.config.max_draft_tokens), dtype=np.float64)


def largest_within(values: FloatArray, bound: float) -> int:
    """The last index whose value is within the bound; where none is, that of the least value."""
    within = np.flatnonzero(values <= bound)
    return int(within[-1]) if len(within) else int(values.argmin())
