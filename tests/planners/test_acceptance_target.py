"""The acceptance target: its rule step by step, and that it gets there on a trace."""

from __future__ import annotations

from math import exp

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.acceptance_target import AcceptanceTarget
from lightspec_bench.reports.metrics import target_efficiency
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.traces.synthetic import Dials, synthesize
from tests.planners.support import batch, engine, step
from tests.support import config_for


def test_it_is_sound() -> None:
    assert check_planner(AcceptanceTarget) == []


@pytest.mark.parametrize("target", [0.5, 0.8])
def test_it_reaches_its_target(target: float) -> None:
    trace = synthesize(Dials(num_requests=64, num_output_tokens=64))
    planner = AcceptanceTarget(config_for(trace, 16), target)
    totals = SimulatedRunner(trace, config_for(trace, 16), Load(16, num_requests=256)).run(planner).totals
    assert target_efficiency(totals) == pytest.approx(target, abs=0.03)


def test_a_target_out_of_reach_verifies_everything() -> None:
    trace = synthesize(Dials(num_requests=32, num_output_tokens=64))
    planner = AcceptanceTarget(config_for(trace, 8), target=0.05)
    SimulatedRunner(trace, config_for(trace, 8), Load(8)).run(planner)
    assert planner.rows_per_request == 1.0 + trace.max_draft_tokens


def test_rows_move_by_the_distance_to_the_target() -> None:
    planner = AcceptanceTarget(engine(7), target=0.75, rate=0.5)
    planner.rows_per_request = 4.0
    planner.observe(step(Plan(7, 8), [7, 7], [3, 3], [1, 1]))
    assert planner.rows_per_request == pytest.approx(4.0 * exp(0.5 * (4 / 8 - 0.75)))


def test_a_step_without_proposals_says_nothing() -> None:
    planner = AcceptanceTarget(engine(7), target=0.75)
    planner.observe(step(Plan(7, 2), [0, 0], [0, 0], [0, 0]))
    assert planner.rows_per_request == 8.0


def test_the_budget_is_kept_within_what_is_pending() -> None:
    planner = AcceptanceTarget(engine(7), target=0.75)
    assert planner.plan(batch([7, 7, 0])) == Plan(7, 17)
    planner.rows_per_request = 1.5
    assert planner.plan(batch([7, 7])) == Plan(7, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 1.0}, "acceptance-target: target is 1.0, expected above 0 and below 1"),
        ({"rate": 0.0}, "acceptance-target: rate is 0.0, expected above 0"),
        ({"k": 8}, r"acceptance-target: k is 8, expected 0 to 7 \(the drafter's max_draft_tokens\)"),
    ],
)
def test_mistakes(options: dict[str, float], message: str) -> None:
    with pytest.raises(BenchError, match=message):
        AcceptanceTarget(engine(7), **options)  # type: ignore[arg-type]
