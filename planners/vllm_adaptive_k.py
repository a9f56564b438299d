"""vLLM's Adaptive K*: conditional acceptance per position against a drafting cost in units of a target forward."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.position_counts import position_counts
from lightspec_bench.planners.schedule_grid import parse_grid

NAME = "vllm-adaptive-k"


class VllmAdaptiveK:
    """Drafts the K of the highest utility E(K) / (1 + K c_draft + bs_penalty N), at most what a schedule allows.

    E(K) = 1 + sum over i <= K of alpha_1 ... alpha_i. alpha_j is an exponential average (weight `ema` of the new
    value) of accepted given reached, over windows of `window_steps` steps; a position never reached has `alpha_prior`.
    Where no K >= 1 has a utility of 1 or more, K is 0. Otherwise K stays for `cooldown` plans after a change, and
    a change of one or less is not made. With probability `explore` a plan drafts D instead, so that every position is
    measured now and then; that changes neither K nor the cool-down. `schedule` (as planner `schedule` takes its ranges)
    caps the result.

    Source: vLLM #44336 (closed) and #47111 (open), whose tests these decisions reproduce. Defaults are those of the
    later document; the earlier one has `c_draft` 0.05 and `cooldown` 4, the tests `alpha_prior` 0.75. `c_draft`,
    drafter forward over target forward, is of a 0.5B drafter and a 7B target on an RTX 4050: profile your own. Not
    checked, as only documents and tests were found: what an exploring step drafts, that the first window sets alpha
    instead of being averaged with the prior, and that K = 0 is exempt from the rule against changes of one. Raises
    `BenchError` for options out of range.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        ema: float = 0.3,
        c_draft: float = 0.1144,
        bs_penalty: float = 0.002,
        alpha_prior: float = 0.85,
        min_k: int = 0,
        cooldown: int = 2,
        explore: float = 0.1,
        window_steps: int = 10,
        schedule: list[Any] | dict[str, Any] | None = None,
    ) -> None:
        depth = config.max_draft_tokens
        expect(0.0 < ema <= 1.0, NAME, "ema", ema, "above 0 and at most 1")
        for option, value in (("c_draft", c_draft), ("bs_penalty", bs_penalty)):
            expect(0.0 <= value < np.inf, NAME, option, value, "at least 0")
        for option, value in (("alpha_prior", alpha_prior), ("explore", explore)):
            expect(0.0 <= value <= 1.0, NAME, option, value, "0 to 1")
        expect(0 <= min_k <= depth, NAME, "min_k", min_k, f"0 to {depth} (the drafter's max_draft_tokens)")
        expect(cooldown >= 0, NAME, "cooldown", cooldown, "at least 0")
        expect(window_steps >= 1, NAME, "window_steps", window_steps, "at least 1")
        self.ema, self.c_draft, self.bs_penalty, self.min_k = ema, c_draft, bs_penalty, min_k
        self.cooldown, self.explore, self.window_steps = cooldown, explore, window_steps
        self.alpha, self.k, self.waiting = np.full(depth, alpha_prior), depth, 0
        self._tracked = np.zeros(depth, dtype=bool)
        self._accepted, self._at_risk, self._steps = np.zeros(depth), np.zeros(depth), 0
        self._rng = np.random.default_rng(config.seed)
        self.most: IntArray | None = None
        if schedule is not None:
            self.most = parse_grid(schedule, NAME).table(config.max_num_seqs, depth)[:, 0]

    def plan(self, batch: Batch) -> Plan:
        k = self.adaptive_k(batch.num_requests)
        if self._rng.random() < self.explore:
            k = len(self.alpha)
        if self.most is not None:
            k = min(k, int(self.most[min(batch.num_requests, len(self.most) - 1)]))
        return verify_all(batch, k)

    def adaptive_k(self, num_requests: int) -> int:
        """The K in force, decided anew unless it cools down."""
        if self.waiting:
            self.waiting -= 1
            return self.k
        utility = self.utility(num_requests)
        best = int(np.argmax(utility))
        if utility[1:].max() < 1.0:
            best = 0
        best = max(best, self.min_k)
        if abs(best - self.k) > 1 or (best == 0 and self.k):
            self.k, self.waiting = best, self.cooldown
        return self.k

    def utility(self, num_requests: int) -> FloatArray:
        """E(K) over cost of each K from 0, (D + 1,)."""
        expected = 1.0 + np.concatenate(([0.0], np.cumsum(np.cumprod(self.alpha))))
        depth = np.arange(len(expected))
        return np.asarray(expected / (1.0 + depth * self.c_draft + self.bs_penalty * num_requests))

    def observe(self, step: Step) -> None:
        counts = position_counts(step, len(self.alpha))
        self._accepted += counts.accepted
        self._at_risk += counts.at_risk
        self._steps += 1
        if self._steps == self.window_steps:
            self._close_window()

    def _close_window(self) -> None:
        seen = self._at_risk > 0
        rate = self._accepted[seen] / self._at_risk[seen]
        averaged = self.alpha[seen] + self.ema * (rate - self.alpha[seen])
        self.alpha[seen] = np.where(self._tracked[seen], averaged, rate)
        self._tracked |= seen
        self._accepted[:], self._at_risk[:], self._steps = 0.0, 0.0, 0
