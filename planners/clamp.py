"""Clamp: another planner's draft depth, kept within two bounds."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Batch, BenchError, EngineConfig, Plan
from lightspec_bench.planners.wrapper import DEFAULT_INNER, Wrapper, with_depth


class Clamp(Wrapper):
    """Drafts as deep as the planner in it wishes, but at least `least` and at most `most` tokens.

    `most` left out is D; above D it changes nothing. With `least` 1 or more, a planner that stops drafting for good
    goes on seeing outcomes, as far as it verifies what is pending. What is verified now is left to that planner.
    Raises `BenchError` unless 0 <= least <= most and least <= D, or for a `least` where no drafter is loaded.
    """

    def __init__(
        self, config: EngineConfig, planner: str = DEFAULT_INNER, most: int | None = None, least: int = 0
    ) -> None:
        super().__init__(config, "clamp", planner)
        depth = config.max_draft_tokens
        if most is not None and most < 0:
            raise BenchError(f"clamp: most is {most}, expected 0 or more")
        self.most = depth if most is None else min(most, depth)
        self.least = least
        if not 0 <= least <= self.most:
            raise BenchError(f"clamp: least is {least}, expected 0 to {self.most} (the smaller of most and D)")
        if least and not self.uses_drafter:
            raise BenchError(f"clamp: least is {least}, expected 0 around {planner}, which runs without a drafter")

    def change(self, plan: Plan, batch: Batch) -> Plan:
        depth = plan.num_draft_tokens
        if isinstance(depth, np.ndarray):
            return with_depth(plan, np.clip(depth, self.least, self.most))
        return with_depth(plan, min(max(depth, self.least), self.most))
