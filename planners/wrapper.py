"""What wrappers share: they hold another planner, let it decide, and change what it decided."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from lightspec_bench.check import check_plan
from lightspec_bench.core import Batch, BenchError, ConfidenceAge, EngineConfig, IntArray, Plan, Planner, Step
from lightspec_bench.registry import make_planner, parse_spec, reads_trace, resolve

DEFAULT_INNER = "lightspec"


class Wrapper(ABC):
    """Holds the planner that a spec names: `clamp:most=4,planner=(static:k=6)`.

    A wrapper reads, requires and drafts what the planner in it does, so `confidence`, `requires` and `uses_drafter` are
    set on the instance. That planner sees every batch and every step as they are: `step.plan` is the plan that ran.
    What it verifies is left alone unless `change` says otherwise. Where it runs without a drafter nothing is changed.
    Raises `BenchError` for a planner that reads the trace, `PlanError` where the planner's own plan is out of bounds.
    """

    confidence: ConfidenceAge = "none"
    requires: frozenset[str] = frozenset()
    uses_drafter: bool = True

    def __init__(self, config: EngineConfig, name: str, planner: str) -> None:
        self.config, self.spec = config, planner
        self.inner = make_inner(config, name, planner)
        self.confidence = self.inner.confidence
        self.requires = self.inner.requires
        self.uses_drafter = self.inner.uses_drafter

    def plan(self, batch: Batch) -> Plan:
        plan = self.inner.plan(batch)
        # Cutting a plan would hide that it was out of its bounds.
        check_plan(plan, batch, self.config.max_draft_tokens, self.spec)
        return self.change(plan, batch) if self.uses_drafter else plan

    @abstractmethod
    def change(self, plan: Plan, batch: Batch) -> Plan:
        """The plan to run instead of the inner planner's, which is within its bounds."""

    def observe(self, step: Step) -> None:
        self.inner.observe(step)


def make_inner(config: EngineConfig, name: str, planner: str) -> Planner:
    """The planner that a spec names, for the wrapper called `name`."""
    inner = parse_spec(planner)[0]
    if reads_trace(resolve("planner", inner)):
        raise BenchError(
            f"{name}: planner {inner} reads the trace it runs on, expected one that plans from batches alone"
        )
    return make_planner(planner, config)


def with_depth(plan: Plan, depth: int | IntArray) -> Plan:
    """The plan with another draft depth; a 0-d array becomes one number."""
    return replace(plan, num_draft_tokens=depth if np.ndim(depth) else int(depth))


def at_most(depth: int | IntArray, cap: int | IntArray) -> int | IntArray:
    """The smaller of a depth and a cap, each one number or (N,)."""
    return np.minimum(depth, cap) if np.ndim(depth) or np.ndim(cap) else min(int(depth), int(cap))
