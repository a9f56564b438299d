"""Depth limit: another planner in an engine that is set up for fewer draft tokens than the drafter can propose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lightspec_bench.core import Batch, BenchError, Confidence, EngineConfig, Plan, Step
from lightspec_bench.planners.wrapper import DEFAULT_INNER, Wrapper


class DepthLimit(Wrapper):
    """The planner in it is told that D is `k`, and sees the first `k` confidences of a proposal.

    That is what a smaller `num_speculative_tokens` or `--mtp_step` does: cost tables are profiled for k, and planners
    that always draft to D draft k. `clamp:most=k` cuts the wishes of a planner that still believes in D. k is at most
    D, and D where it is left out. A parallel drafter's pass has the trained block size whatever k is: the planner is
    told a block of k, and the simulator charges the block of D. Raises `BenchError` for a k below 1.
    """

    def __init__(self, config: EngineConfig, planner: str = DEFAULT_INNER, k: int | None = None) -> None:
        if k is not None and k < 1:
            raise BenchError(f"depth-limit: k is {k}, expected at least 1")
        self.k = config.max_draft_tokens if k is None else min(k, config.max_draft_tokens)
        told = replace(config, drafter=replace(config.drafter, max_draft_tokens=self.k))
        super().__init__(told, "depth-limit", planner)

    def plan(self, batch: Batch) -> Plan:
        seen = replace(batch, confidence=self._first(batch.confidence), entropy=self._first(batch.entropy))
        return super().plan(seen)

    def change(self, plan: Plan, batch: Batch) -> Plan:
        return plan

    def observe(self, step: Step) -> None:
        self.inner.observe(replace(step, confidence=self._first(step.confidence), entropy=self._first(step.entropy)))

    def _first(self, signal: Confidence | None) -> Confidence | None:
        return None if signal is None else np.ascontiguousarray(signal[:, : self.k])
