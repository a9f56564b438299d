"""Arrivals, the closed loop and its window, and settings that make no sense."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightspec_bench.core import (
    BenchError,
)
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.runners.load import Load, make_workload
from lightspec_bench.runners.options import SimulatorOptions
from tests.runners.planners import EXACT, run
from tests.support import config_for, hand_trace, random_trace


def test_poisson_arrivals_wait_for_a_place() -> None:
    trace = hand_trace([[0, 0, 0]] * 50)
    result = run(trace, NoSpeculation(config_for(trace, 2)), Load(2, "poisson", rate=10.0, num_requests=50))
    requests = result.requests
    gaps = np.diff(requests["arrival_s"])
    assert gaps.mean() == pytest.approx(0.1, rel=0.5)
    waited = requests["start_s"] - requests["arrival_s"]
    assert waited.max() > 100.0  # service takes 24 s for two
    assert (np.diff(requests["start_s"]) >= 0).all()


def test_recorded_arrivals_idle_in_between() -> None:
    trace = hand_trace([[0, 0], [0, 0]], arrival_s=[100.0, 500.0])
    requests = run(trace, NoSpeculation(config_for(trace, 4)), Load(4, "trace")).requests
    assert requests["arrival_s"].tolist() == [0.0, 400.0]
    assert requests["finish_s"].tolist() == [11.5, 411.5]


def test_a_closed_loop_is_full_to_the_end_and_totals_leave_out_the_warm_up() -> None:
    """Requests beyond the counted ones keep both places taken; a request arrives when it gets a place."""
    trace = hand_trace([[0] * 5, [0] * 9])
    options = replace(EXACT, warmup_steps=1)
    result = run(trace, NoSpeculation(config_for(trace, 2)), Load(2, num_requests=3), options=options)
    assert result.steps is not None
    assert (result.steps["num_requests"] == 2).all()
    assert len(result.requests["request_id"]) == 8  # four for each place
    assert np.array_equal(result.requests["arrival_s"], result.requests["start_s"])
    assert result.totals.num_steps == len(result.steps["step"]) - 1
    assert result.totals.elapsed_s == pytest.approx(result.steps["duration_s"][1:].sum())
    assert result.totals.num_output_tokens == 2 * result.totals.num_steps


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Load(0), "concurrency is 0, expected at least 1"),
        (lambda: Load(1, "burst"), "arrivals is 'burst', expected one of closed, poisson, gamma, trace"),
        (lambda: Load(1, "poisson"), "rate is None, expected requests per second above 0"),
        (lambda: Load(1, "gamma", 1.0, cv=-1.0), "cv is -1.0, expected above 0"),
        (lambda: Load(1, num_requests=0), "num_requests is 0, expected at least 1"),
        (lambda: SimulatorOptions(prefill="later"), "prefill is 'later', expected one of off, separate, chunked"),
        (lambda: SimulatorOptions(chunk_tokens=0), "chunk_tokens is 0, expected at least 1"),
        (
            lambda: make_workload(random_trace(1), Load(1, "trace", num_requests=9)),
            "num_requests is 9, expected at most 6",
        ),
    ],
)
def test_bad_settings_are_one_sentence(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BenchError, match=message):
        make()


def test_warm_up_that_leaves_nothing_is_an_error() -> None:
    trace = hand_trace([[0, 0, 0]])
    with pytest.raises(BenchError, match="warmup_steps is 500 and the run took 8 decode steps"):
        run(trace, NoSpeculation(config_for(trace, 1)), Load(1), options=SimulatorOptions(warmup_steps=500))
