"""A fleet: one replica is the simulator, requests go where the router sends them, and ranks that step together wait."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lightspec_bench.core import BenchError, Planner, Run, Trace
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.planners.static import Static
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.fleet import Align, Fleet, FleetRunner, Router
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from tests.support import config_for, hand_trace, random_trace

EXACT = SimulatorOptions(planner_time="off")


def fleet_run(
    trace: Trace, planners: list[Planner], load: Load, router: Router = "round-robin", align: Align = "none"
) -> Run:
    config = config_for(trace, load.concurrency)
    return FleetRunner(trace, config, load, Fleet(len(planners), router, align), EXACT).run(planners)


def arriving(trace: Trace, arrival_s: list[float]) -> Trace:
    return replace(trace, arrival_s=np.array(arrival_s))


def same_requests(run: Run, other: Run) -> None:
    for name, column in run.requests.items():
        np.testing.assert_array_equal(column, other.requests[name], err_msg=name)


@pytest.mark.parametrize("spec", ["none", "static:k=3", "lightspec", "dspark"])
@pytest.mark.parametrize("router", ["round-robin", "least-requests"])
@pytest.mark.parametrize("align", ["none", "max"])
def test_a_fleet_of_one_is_the_simulator(spec: str, router: Router, align: Align) -> None:
    trace = random_trace(seed=3, num_requests=9)
    load = Load(4, "poisson", rate=0.02, num_requests=20, seed=1)
    config = config_for(trace, 4)
    alone = SimulatedRunner(trace, config, load, EXACT).run(make_planner(spec, config, trace))
    run = fleet_run(trace, [make_planner(spec, config, trace)], load, router, align)
    same_requests(run, alone)
    assert run.steps is not None
    assert alone.steps is not None
    np.testing.assert_array_equal(run.steps["duration_s"], alone.steps["duration_s"])
    unmeasured = {"planner_s": 0.0, "outcomes": 0}
    assert replace(run.totals, **unmeasured) == replace(alone.totals, **unmeasured)
    np.testing.assert_array_equal(run.totals.outcomes, alone.totals.outcomes)


def test_round_robin_is_one_simulator_for_each_share() -> None:
    trace = arriving(random_trace(seed=5, num_requests=6), [0.0, 3.0, 9.0, 20.0, 21.0, 50.0])
    config, load = config_for(trace, 2), Load(2, "trace")
    run = fleet_run(trace, [Static(config, k=2), Static(config, k=2)], load)
    for replica in (0, 1):
        share = hand_share(trace, replica)
        alone = SimulatedRunner(share, config, load, EXACT).run(Static(config, k=2))
        np.testing.assert_allclose(run.requests["finish_s"][replica::2], alone.requests["finish_s"] + 3.0 * replica)


def hand_share(trace: Trace, replica: int) -> Trace:
    """Every second request as a trace of its own; its clock starts with its first request."""
    parts = np.split(trace.num_accepted, trace.offsets[1:-1])[replica::2]
    return arriving(hand_trace([part.tolist() for part in parts], 3), trace.arrival_s[replica::2].tolist())


def test_least_requests_goes_where_fewest_are_left_at_that_moment() -> None:
    """A step of one request takes 11.5 s: the first needs eight, the others two each."""
    trace = arriving(hand_trace([[0] * 9, [0] * 3, [0] * 3, [0] * 3]), [0.0, 1.0, 20.0, 25.0])
    config = config_for(trace, 4)
    run = fleet_run(trace, [NoSpeculation(config), NoSpeculation(config)], Load(4, "trace"), "least-requests")
    started = run.requests["start_s"].tolist()
    assert started[:2] == [0.0, 1.0]  # the second replica is empty when the second request arrives
    assert run.requests["finish_s"][1] == pytest.approx(24.0)
    assert started[2] == pytest.approx(23.0)  # one each at 20: the first replica, once its second step is over
    assert started[3] == 25.0  # the second replica has been empty since 24


def test_ranks_that_step_together_draft_as_deep_as_the_deepest_and_wait_for_the_slowest() -> None:
    trace = arriving(hand_trace([[0] * 6, [0] * 6, [0] * 6]), [0.0, 0.0, 0.0])
    config = config_for(trace, 4)
    run = fleet_run(trace, [Static(config, k=1), Static(config, k=3)], Load(4, "trace"), align="max")
    assert run.steps is not None
    starts, ends = run.steps["start_s"], run.steps["start_s"] + run.steps["duration_s"]
    for start in np.unique(starts)[1:]:
        assert start == pytest.approx(ends[starts < start].max())  # nobody begins before the slowest is done
    assert np.unique(starts, return_counts=True)[1].tolist() == [2, 2, 2, 2, 2]
    assert run.steps["planned_depth"].tolist() == [3] * 10  # the rank that wanted 1 drafts 3 as well
    apart = fleet_run(trace, [Static(config, k=1), Static(config, k=3)], Load(4, "trace"))
    assert apart.steps is not None
    assert sorted(set(apart.steps["planned_depth"].tolist())) == [1, 3]
    assert run.totals.elapsed_s >= apart.totals.elapsed_s


@given(
    seed=st.integers(0, 999),
    num_replicas=st.integers(1, 4),
    concurrency=st.integers(1, 3),
    rate=st.floats(0.001, 1.0),
    router=st.sampled_from(["round-robin", "least-requests"]),
    align=st.sampled_from(["none", "max"]),
)
def test_every_request_is_finished_once_and_whole(
    seed: int, num_replicas: int, concurrency: int, rate: float, router: Router, align: Align
) -> None:
    trace = random_trace(seed, num_requests=5)
    config, load = config_for(trace, concurrency), Load(concurrency, "poisson", rate=rate, num_requests=12, seed=seed)
    run = fleet_run(trace, [Static(config) for _ in range(num_replicas)], load, router, align)
    requests = run.requests
    assert len(requests["request_id"]) == 12
    assert (requests["arrival_s"] <= requests["start_s"]).all()
    assert (requests["start_s"] <= requests["finish_s"]).all()
    emitted = requests["num_steps"] + requests["num_accepted_tokens"] + 1
    np.testing.assert_array_equal(emitted, requests["num_output_tokens"])
    decoded = run.totals.num_output_tokens + int((requests["num_output_tokens"] > 0).sum())
    assert decoded == requests["num_output_tokens"].sum()


def test_bad_fleets_are_refused_in_one_sentence() -> None:
    trace = random_trace(seed=1)
    config = config_for(trace, 2)
    with pytest.raises(BenchError, match="replicas is 0, expected at least 1"):
        Fleet(0)
    with pytest.raises(BenchError, match="router is 'random', expected one of round-robin, least-requests"):
        Fleet(2, "random")  # type: ignore[arg-type]
    with pytest.raises(BenchError, match="arrivals is closed, expected poisson, gamma or trace"):
        FleetRunner(trace, config, Load(2), Fleet(2))
    with pytest.raises(BenchError, match="1 planners were given, expected one for each of 2 replicas"):
        FleetRunner(trace, config, Load(2, "poisson", rate=1.0), Fleet(2)).run([Static(config)])
