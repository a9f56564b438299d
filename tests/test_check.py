"""Bounds of one plan."""

from __future__ import annotations

import numpy as np
import pytest

from lightspec_bench.check import check_plan
from lightspec_bench.core import Batch, EarlyExit, Plan, PlanError

PENDING = np.array([3, 0, 2])
BATCH = Batch(0, 0.0, np.arange(3), PENDING, PENDING + 1, PENDING + 100, None, None)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(0, 3),
        Plan(4, 8),
        Plan(np.array([0, 4, 2]), np.int64(5)),
        Plan(2, num_verify_tokens=np.array([3, 0, 0])),
        Plan(2, 3, early_exit=EarlyExit("entropy", 7.5)),
    ],
)
def test_plans_inside_their_bounds(plan: Plan) -> None:
    check_plan(plan, BATCH, 4, "mine")


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(0), "a plan has either num_target_tokens or num_verify_tokens, got neither"),
        (Plan(0, 3, PENDING), "a plan has either num_target_tokens or num_verify_tokens, got both"),
        (Plan(0, 2), r"num_target_tokens is 2, expected 3 to 8 \(3 requests and 5 pending draft tokens\)"),
        (Plan(0, 9), "num_target_tokens is 9, expected 3 to 8"),
        (Plan(0, 4.0), "num_target_tokens is 4.0, expected a whole number"),
        (Plan(0, True), "num_target_tokens is True, expected a whole number"),
        (Plan(5, 3), "num_draft_tokens is 5, expected 0 to 4"),
        (Plan(-1, 3), "num_draft_tokens is -1, expected 0 to 4"),
        (Plan(np.array([0, 5, 2]), 3), r"num_draft_tokens\[1\] is 5, expected 0 to 4"),
        (Plan(np.array([0, 2]), 3), r"num_draft_tokens is int64\[2\], expected 3 whole numbers"),
        (Plan(1.5, 3), "num_draft_tokens is 1.5, expected 3 whole numbers"),
        (Plan(0, num_verify_tokens=np.array([3, 1, 0])), r"num_verify_tokens\[1\] is 1, expected 0 to 0"),
        (Plan(0, num_verify_tokens=np.array([3, 0, -1])), r"num_verify_tokens\[2\] is -1, expected 0 to 2"),
        (Plan(0, num_verify_tokens=np.array([3.0, 0, 0])), r"num_verify_tokens is float64\[3\], expected 3 whole"),
        (
            Plan(0, 3, early_exit=EarlyExit("product", np.array([0.5, 0.5]))),
            r"early_exit.threshold has shape \[2\], expected one number or 3",
        ),
    ],
)
def test_plans_outside_their_bounds(plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=f"planner mine: {message}"):
        check_plan(plan, BATCH, 4, "mine")
