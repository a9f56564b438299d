"""Schedule cap: another planner's draft depth, at most what a batch-size schedule allows."""

from __future__ import annotations

from typing import Any

from lightspec_bench.core import Batch, EngineConfig, Plan
from lightspec_bench.planners.schedule import Schedule
from lightspec_bench.planners.wrapper import DEFAULT_INNER, Wrapper, at_most, with_depth


class ScheduleCap(Wrapper):
    """Drafts the smaller of what the planner in it wishes and what the schedule says for the batch size.

    `ranges` are written as for `schedule`, and a mistake in them is said in its words. With a planner that learns
    inside, this is a safe way into production: an engine's tuned table stays the upper bound.
    """

    def __init__(
        self, config: EngineConfig, planner: str = DEFAULT_INNER, ranges: list[Any] | dict[str, Any] | None = None
    ) -> None:
        super().__init__(config, "schedule-cap", planner)
        self.schedule = Schedule(config, ranges)

    def change(self, plan: Plan, batch: Batch) -> Plan:
        return with_depth(plan, at_most(plan.num_draft_tokens, self.schedule.plan(batch).num_draft_tokens))
