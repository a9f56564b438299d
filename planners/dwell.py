"""Dwell: another planner's draft depth, with a least number of steps between two changes."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Batch, BenchError, EngineConfig, Plan
from lightspec_bench.planners.held_depths import HeldDepths
from lightspec_bench.planners.wrapper import DEFAULT_INNER, Wrapper, with_depth


class Dwell(Wrapper):
    """Drafts a depth for at least `steps` steps, then what the planner in it wishes.

    Wishes in between are passed over, not queued. `steps` 1 follows every wish. Depths per request dwell per request;
    a new request gets what is wished for it. For engines where a depth is a captured graph or a key that others are
    batched by, and a change costs. Raises `BenchError` for steps below 1.
    """

    def __init__(self, config: EngineConfig, planner: str = DEFAULT_INNER, steps: int = 8) -> None:
        super().__init__(config, "dwell", planner)
        if steps < 1:
            raise BenchError(f"dwell: steps is {steps}, expected 1 or more")
        self.steps = steps
        self.held = HeldDepths()

    def change(self, plan: Plan, batch: Batch) -> Plan:
        # `count` is for how many steps the depth has been drafted.
        wish, depth, count = self.held.recall(batch.request_id, plan.num_draft_tokens)
        moves = (wish != depth) & (count >= self.steps)
        depth, count = np.where(moves, wish, depth), np.where(moves, 1, count + 1)
        return with_depth(plan, self.held.keep(batch.request_id, depth, count))
