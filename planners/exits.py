"""Exits: what planners share that end drafts through an exit rule: everything pending is verified, depth k planned."""

from __future__ import annotations

from typing import ClassVar

from lightspec_bench.core import Batch, ConfidenceAge, EarlyExit, EngineConfig, Plan, Step
from lightspec_bench.planners.option_checks import expect


class FixedExit:
    """Plans the same depth `k` and the same `rule` in every step; learns nothing. Subclasses make both."""

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(self, k: int, rule: EarlyExit) -> None:
        self.k, self.rule = k, rule

    def plan(self, batch: Batch) -> Plan:
        return draft_until(self.rule, batch, self.k)

    def observe(self, step: Step) -> None:
        pass


def draft_until(rule: EarlyExit, batch: Batch, depth: int) -> Plan:
    """Verify everything pending, then draft to `depth` or until the rule stops it."""
    return Plan(depth, batch.num_requests + int(batch.num_draft_tokens.sum()), early_exit=rule)


def cut_depth(planner: str, option: str, value: int | None, config: EngineConfig) -> int:
    """A depth of at least 1, cut to D; None is D."""
    if value is None:
        return config.max_draft_tokens
    expect(value >= 1, planner, option, value, "at least 1")
    return min(value, config.max_draft_tokens)
