"""Hysteresis: follows another planner's draft depth where its wish is far from the present one, or lasts."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Batch, BenchError, EngineConfig, Plan
from lightspec_bench.planners.held_depths import HeldDepths
from lightspec_bench.planners.wrapper import DEFAULT_INNER, Wrapper, with_depth


class Hysteresis(Wrapper):
    """Changes the draft depth only where the wish of the planner in it is more than `margin` away, or lasts.

    A wish lasts when it was deeper, or shallower, than the present depth for `patience` steps in a row; then, and
    where it is far away, the depth becomes what is wished now. A wish that swings around the present depth within the
    margin therefore changes nothing, and no depth is out of reach. `margin` 0 or `patience` 1 follows every wish.
    Depths per request are held per request; a new request gets what is wished for it. Raises `BenchError` for a
    margin below 0 or a patience below 1.
    """

    def __init__(self, config: EngineConfig, planner: str = DEFAULT_INNER, margin: int = 1, patience: int = 8) -> None:
        super().__init__(config, "hysteresis", planner)
        if margin < 0:
            raise BenchError(f"hysteresis: margin is {margin}, expected 0 or more")
        if patience < 1:
            raise BenchError(f"hysteresis: patience is {patience}, expected 1 or more")
        self.margin, self.patience = margin, patience
        self.held = HeldDepths()

    def change(self, plan: Plan, batch: Batch) -> Plan:
        # `count` is the number of steps in a row with a deeper wish, negative with a shallower one.
        wish, depth, count = self.held.recall(batch.request_id, plan.num_draft_tokens)
        side = np.sign(wish - depth)
        count = np.where(side == np.sign(count), count + side, side)
        moves = (np.abs(wish - depth) > self.margin) | (np.abs(count) >= self.patience)
        depth, count = np.where(moves, wish, depth), np.where(moves, 0, count)
        return with_depth(plan, self.held.keep(batch.request_id, depth, count))
