"""Planning beside the device: the plan for the next step is made in a thread of its own while the drafter works."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from lightspec_bench.check import check_plan
from lightspec_bench.core import Batch, Plan, PlanError, Planner, Step


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the planner's seconds for it (observing included), and how many of them lengthened the step."""

    plan: Plan
    planner_s: float
    exposed_s: float


class Planning:
    """Calls the planner: at once when synchronous, else ahead; observations come `lag_steps` steps late."""

    def __init__(self, planner: Planner, name: str, max_draft_tokens: int, lag_steps: int) -> None:
        self._planner, self._name, self._width, self._lag_steps = planner, name, max_draft_tokens, lag_steps
        self._unseen: deque[Step] = deque()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="planner") if lag_steps else None
        self._ahead: Future[tuple[Plan, float]] | None = None

    def observe(self, step: Step) -> None:
        """Queue a step; the planner sees it before its next plan that may know of it."""
        self._unseen.append(step)

    def start(self, make_batch: Callable[[], Batch]) -> None:
        """Begin planning the next step beside what the caller goes on to do."""
        assert self._pool is not None
        batch = make_batch()
        due = self._due(self._lag_steps - 1)
        self._ahead = self._pool.submit(self._plan, batch, due)

    def finish(self, make_batch: Callable[[], Batch]) -> Planned:
        """The plan for the next step: what was begun, or made now."""
        start = time.perf_counter()
        if self._ahead is not None:
            plan, planner_s = self._ahead.result()
            self._ahead = None
            return Planned(plan, planner_s, time.perf_counter() - start)
        batch = make_batch()
        plan, planner_s = self._plan(batch, self._due(self._lag_steps))
        return Planned(plan, planner_s, planner_s)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def _due(self, hidden: int) -> list[Step]:
        """Queued steps the planner may see now: all but the newest `hidden`."""
        return [self._unseen.popleft() for _ in range(len(self._unseen) - hidden)]

    def _plan(self, batch: Batch, due: list[Step]) -> tuple[Plan, float]:
        start = time.perf_counter()
        for step in due:
            self._planner.observe(step)
        plan = self._planner.plan(batch)
        planner_s = time.perf_counter() - start
        check_plan(plan, batch, self._width, self._name)
        if not self._planner.uses_drafter and np.any(plan.num_draft_tokens):
            raise PlanError(
                f"planner {self._name}: num_draft_tokens is {plan.num_draft_tokens}, expected 0 (no drafter)"
            )
        return plan, planner_s
