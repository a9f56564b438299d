"""A planner inside a serving engine: called, checked, and left out for good once it fails."""

from __future__ import annotations

import logging
import time

import numpy as np

from lightspec_bench.check import check_plan
from lightspec_bench.core import Batch, EngineConfig, Plan, PlanError, Planner, Step
from lightspec_bench.registry import name_of, shown

logger = logging.getLogger("vllm.lightspec_bench")


class GuardedPlanner:
    """`strict` lets a planner's failure through; otherwise it is said once and `active` is False from then on."""

    def __init__(self, planner: Planner, config: EngineConfig, strict: bool) -> None:
        self.planner, self.name = planner, name_of(planner)
        self.reads_confidence = planner.confidence != "none"
        self._width, self._strict = config.max_draft_tokens, strict
        self.active = True
        self.waited_s = 0.0  # seconds in `observe` since the last plan

    def plan(self, batch: Batch) -> tuple[Plan, float] | None:
        """The plan and the planner's seconds for it, `observe` since the last one included; None once it failed."""
        start = time.perf_counter()
        try:
            plan = self.planner.plan(batch)
            check_plan(plan, batch, self._width, self.name)
            if not self.planner.uses_drafter and np.any(plan.num_draft_tokens):
                raise PlanError(
                    f"planner {self.name}: num_draft_tokens is {plan.num_draft_tokens}, expected 0 (no drafter)"
                )
        except Exception as error:  # serving goes on whatever a planner does
            self._failed(error)
            return None
        seconds, self.waited_s = self.waited_s + time.perf_counter() - start, 0.0
        return plan, seconds

    def observe(self, step: Step) -> None:
        if not self.active:
            return
        start = time.perf_counter()
        try:
            self.planner.observe(step)
        except Exception as error:
            self._failed(error)
        self.waited_s += time.perf_counter() - start

    def _failed(self, error: Exception) -> None:
        self.active = False
        if self._strict:
            raise error
        logger.warning(
            "lightspec: planner %s failed and is switched off, vLLM's own depth is used from here on (%s)",
            self.name,
            shown(error),
        )
