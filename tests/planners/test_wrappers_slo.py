"""The `slo` wrapper: its predictions worked out by hand, and what it cuts."""

from __future__ import annotations

import numpy as np
import pytest

from lightspec_bench.core import Batch, Plan
from lightspec_bench.planners.slo import Slo, largest_within
from lightspec_bench.registry import make_planner
from tests.planners.support import TableModel, batch, engine, step
from tests.planners.wishes import around

# Two requests, D = 3. Seconds by target rows; a drafter pass takes 0.1 s; the host nothing.
LATENCY = TableModel(verify={2: 10.0, 3: 11.0, 4: 12.0, 5: 16.0, 6: 20.0, 8: 30.0}, draft={1: 0.1})


def slo(tpot_s: float, counts: bool = False, memory: float = 1.0, seen: bool = True) -> Slo:
    """Around a planner that wishes depth 3 and verifies all, after the step from which acceptance is known.

    First tokens: 3 verified, 1 accepted. Second: 1 verified after an accepted first, 0 accepted. Third: never seen.
    Conditional acceptance with one token of prior: 2/4, 1/2, 1/1; survival 1/2, 1/4, 1/4; tokens 1, 1.5, 1.75, 2.
    """
    spec = f"slo:tpot_ms={tpot_s * 1e3},memory={memory},planner=({around([3] * 99, counts)})"
    planner = make_planner(spec, engine(3, latency=LATENCY))
    assert isinstance(planner, Slo)
    if seen:
        planner.observe(step(Plan(3, 7), [1, 2, 1], [1, 2, 1], [0, 1, 0]))
    return planner


def test_tokens_per_request_are_what_was_accepted() -> None:
    assert slo(9.0, seen=False).tokens_per_request().tolist() == [1, 2, 3, 4]  # unknown: taken to be accepted
    assert slo(9.0).tokens_per_request().tolist() == [1, 1.5, 1.75, 2]


def test_predicted_seconds_are_the_latency_model_s() -> None:
    planner = slo(9.0)
    rows, depth = np.array([2, 4, 6, 8]), np.arange(4)
    np.testing.assert_allclose(planner.step_s(rows, depth, batch([0, 0])), [10.1, 12.1, 20.2, 30.3])


@pytest.mark.parametrize(
    ("tpot_s", "depth"),
    [
        (16.0, 3),  # predictions by depth: 10.1, 8.07, 11.54, 15.15
        (15.0, 2),
        (11.0, 1),
        (9.0, 1),
        (8.0, 1),  # none is within it: the least
    ],
)
def test_the_depth_is_the_largest_within_the_bound(tpot_s: float, depth: int) -> None:
    assert slo(tpot_s).plan(batch([0, 0])) == Plan(depth, 2)


@pytest.mark.parametrize(
    ("tpot_s", "rows"),
    [
        (8.0, 4),  # at depth 1, by rows 2 to 8: 10.1, 8.88, 8.07, 9.91, 11.49, 16.05, 15.05; none within: the least
        (9.0, 4),
        (10.0, 5),
        (11.5, 6),
    ],
)
def test_the_budget_is_the_largest_within_the_bound(tpot_s: float, rows: int) -> None:
    assert slo(tpot_s).plan(batch([3, 3])) == Plan(1, rows)


def test_a_plan_within_the_bound_is_left_alone() -> None:
    assert slo(99.0).plan(batch([3, 3])) == Plan(3, 8)
    assert slo(9.0).plan(batch([])) == Plan(3, 0)


def test_counts_are_cut_by_depth_or_by_the_confidences_of_the_pending_proposals() -> None:
    plan = slo(9.0, counts=True).plan(batch([3, 3]))
    assert plan.num_verify_tokens is not None
    assert plan.num_verify_tokens.tolist() == [1, 1]  # 4 rows, shallow tokens first
    plan = slo(10.0, counts=True).plan(batch([3, 3], confidence=[[0.5, 0.4, 0.3], [0.9, 0.8, 0.7]]))
    assert plan.num_verify_tokens is not None
    assert plan.num_verify_tokens.tolist() == [0, 3]  # 5 rows; survival 0.9, 0.72 and 0.504 against 0.5


def test_confidences_of_an_older_proposal_are_not_taken_for_those_of_the_pending_one() -> None:
    spec = f"slo:tpot_ms=9000,planner=({around([3], True)})"
    planner = make_planner(spec, engine(3, latency=LATENCY, lag_steps=1))
    planner.observe(step(Plan(3, 7), [1, 2, 1], [1, 2, 1], [0, 1, 0]))
    old = np.array([[0.1, 0.1, 0.1], [0.9, 0.9, 0.9]], dtype=np.float32)
    seen = batch([3, 3])
    lagged = Batch(0, 0.0, seen.request_id, seen.num_draft_tokens, seen.num_output_tokens, seen.num_context_tokens,
                   old, None)  # fmt: skip
    plan = planner.plan(lagged)
    assert plan.num_verify_tokens is not None
    assert plan.num_verify_tokens.tolist() == [1, 1]


def test_a_depth_that_was_cut_is_tried_again_when_its_record_has_faded() -> None:
    planner = slo(11.0, memory=0.5)
    drafted = []
    for _ in range(8):
        drafted.append(planner.plan(batch([0, 0])).num_draft_tokens)
        planner.observe(step(Plan(1, 2), [0, 0], [0, 0], [0, 0]))
    assert drafted[0] == 1
    assert drafted[-1] == 3
    assert drafted == sorted(drafted)


def test_largest_within() -> None:
    assert largest_within(np.array([3.0, 1.0, 2.0, 4.0]), 2.5) == 2
    assert largest_within(np.array([3.0, 1.0, 2.0, 4.0]), 0.5) == 1
