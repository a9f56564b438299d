"""vLLM's acceptance-adaptive K: draft as far as the positions whose unconditional acceptance clears a threshold."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.schedule import Schedule
from lightspec_bench.planners.schedule_grid import parse_grid

NAME = "vllm-position-acceptance"


class VllmPositionAcceptance:
    """K is the number of leading positions that are enabled, at least `min_k`.

    A position's rate is accepted / verified there over all requests: the mean of its first `window` observations, then
    an average that each one moves by 1 / `window`. A position whose rate is below `threshold` is disabled, and enabled
    again from `threshold` + `hysteresis`; those never tried are enabled. K is D until `window` proposals were verified,
    and at every `probe_interval`-th step, so that positions not drafted are tried again. With probe_interval 0 nothing
    is: a K that fell to 0 stays there for ever.

    `schedule` adds batch-size ranges, written as for the planner `schedule`: the smaller K of both is drafted.

    Source: vLLM `v1/spec_decode/dynamic/adaptive.py` at 9f1044b5, a branch. It has no default threshold; 0.4 is that
    of its tests. Not checked: the branch's name for it in the engine's configuration. In vLLM the K of a step is set
    once the step before is known; here, as for every planner, one outcome later.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        threshold: float = 0.4,
        min_k: int = 0,
        window: int = 256,
        probe_interval: int = 64,
        hysteresis: float = 0.05,
        schedule: list[Any] | dict[str, Any] | None = None,
    ) -> None:
        most = config.max_draft_tokens
        expect(0.0 < threshold <= 1.0, NAME, "threshold", threshold, "above 0, at most 1")
        expect(0 <= min_k <= most, NAME, "min_k", min_k, f"0 to {most} (the drafter's max_draft_tokens)")
        expect(window >= 1, NAME, "window", window, "at least 1")
        expect(probe_interval >= 0, NAME, "probe_interval", probe_interval, "at least 0")
        expect(hysteresis >= 0.0, NAME, "hysteresis", hysteresis, "at least 0")
        self.threshold, self.hysteresis, self.window = threshold, hysteresis, window
        self.min_k, self.max_k, self.probe_interval = min_k, most, probe_interval
        if schedule is not None:
            parse_grid(schedule, NAME)  # so that a mistake is said in this planner's name
        self.schedule = None if schedule is None else Schedule(config, schedule)
        self.rate: FloatArray = np.zeros(most)
        self.num_observed: IntArray = np.zeros(most, dtype=np.int64)
        self.enabled = [True] * most
        self.num_drafts = self.num_steps = 0

    def plan(self, batch: Batch) -> Plan:
        k = self._next_k()
        if self.schedule is not None:
            k = min(k, int(self.schedule.plan(batch).num_draft_tokens))
        return verify_all(batch, k)

    def _next_k(self) -> int:
        self.num_steps += 1
        probes = self.probe_interval and self.num_steps % self.probe_interval == 0
        return self.max_k if probes or self.num_drafts < self.window else self.recommended_k()

    def recommended_k(self) -> int:
        """Leading positions enabled after looking at their rates; those behind a disabled one are not looked at."""
        k = 0
        for position, (rate, observed) in enumerate(zip(self.rate.tolist(), self.num_observed.tolist(), strict=True)):
            if observed:
                bound = self.threshold + (0.0 if self.enabled[position] else self.hysteresis)
                self.enabled[position] = rate >= bound
            if not self.enabled[position]:
                break
            k += 1
        return max(self.min_k, k)

    def observe(self, step: Step) -> None:
        """Take the proposals one after another, in the order of the batch, all positions at once."""
        judged = step.num_verify_tokens > 0
        tested = np.arange(self.max_k) < step.num_verify_tokens[judged, None]
        accepted = np.arange(self.max_k) < step.num_accepted_tokens[judged, None]
        self.num_drafts += len(tested)
        nth = np.cumsum(tested, axis=0)  # how many observations of this position up to this request
        early = tested & (nth <= self.window - self.num_observed)
        num_early, num_tested = early.sum(axis=0), tested.sum(axis=0)
        total = self.rate * self.num_observed + (accepted & early).sum(axis=0)
        mean = np.where(num_early > 0, total / np.maximum(self.num_observed + num_early, 1), self.rate)
        decay = 1.0 - 1.0 / self.window
        weight = np.where(accepted & tested & ~early, decay ** (num_tested - nth), 0.0) / self.window
        self.rate = mean * decay ** (num_tested - num_early) + weight.sum(axis=0)
        self.num_observed = self.num_observed + num_tested
