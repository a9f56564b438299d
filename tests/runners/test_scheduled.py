"""A batch-size schedule replayed in compiled code gives what replaying it step by step gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.core import DRAFTER_KINDS, Batch, Plan, Planner
from lightspec_bench.latency import LinearLatency
from lightspec_bench.latency_curves import AffineCurve
from lightspec_bench.latency_file import load_latency
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.planners.schedule import Schedule
from lightspec_bench.planners.static import Static
from lightspec_bench.registry import name_of
from lightspec_bench.runners import scheduled
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.replay import Replay
from lightspec_bench.runners.scheduled import depth_by_load, scheduled_replay
from lightspec_bench.runners.slots import Slots
from tests.support import RoundLatency, config_for, random_trace

PLAIN = SimulatorOptions(planner_time="off")
TABLE = "h200-qwen3-14b"
LINE = LinearLatency(
    name="line", origin="modelled", source="a test", target=AffineCurve(2e-3, 1e-4, 1e-7), draft=AffineCurve(3e-4, 1e-5)
)
pytest.importorskip("numba")


def both_ways(planner_of: Any, trace: Any, load: Load, options: SimulatorOptions, latency: Any) -> list[Any]:
    config = config_for(trace, load.concurrency, 1, latency)
    found = []
    for quick in (True, False):
        planner, slots = planner_of(config), Slots(trace, load)
        if quick:
            found.append(scheduled_replay(trace, config, slots, options, planner))
        else:
            found.append(Replay(trace, config, slots, options, planner, name_of(planner)).run())
    return found


def check_same(quick: Any, slow: Any) -> None:
    (totals, requests, steps), (slow_totals, slow_requests, slow_steps) = quick, slow
    np.testing.assert_array_equal(totals.outcomes, slow_totals.outcomes)
    for name in ("num_steps", "num_draft_tokens", "num_output_tokens", "num_prefill_tokens"):
        assert getattr(totals, name) == getattr(slow_totals, name), name
    for name in ("elapsed_s", "verify_s", "draft_s", "host_s"):
        assert getattr(totals, name) == pytest.approx(getattr(slow_totals, name), rel=1e-12), name
    for name, column in slow_requests.items():
        np.testing.assert_allclose(requests[name], column, rtol=1e-12, err_msg=name)
    assert (steps is None) == (slow_steps is None)
    for name, column in (slow_steps or {}).items():
        if "planner" not in name:
            np.testing.assert_allclose(steps[name], column, rtol=1e-11, atol=1e-15, err_msg=name)


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 999),
    kind=st.sampled_from(DRAFTER_KINDS),
    planner=st.sampled_from(["none", "static", "schedule"]),
    k=st.integers(0, 3),
    concurrency=st.integers(1, 6),
    arrivals=st.sampled_from(["closed", "poisson", "trace"]),
    warmup=st.integers(0, 2),
    keep=st.booleans(),
    priced=st.sampled_from(["table", "line"]),
)
def test_the_same_run_either_way(
    seed: int, kind: Any, planner: str, k: int, concurrency: int, arrivals: Any, warmup: int, keep: bool, priced: str
) -> None:
    trace = random_trace(seed, num_requests=7, kind=kind)
    trace = replace(trace, arrival_s=np.cumsum(np.random.default_rng(seed).exponential(0.02, 7)))
    rate = 40.0 if arrivals == "poisson" else None
    load = Load(concurrency, arrivals, rate=rate, num_requests=None if arrivals == "trace" else 15, seed=seed)
    options = SimulatorOptions(planner_time="off", warmup_steps=warmup, keep_steps=keep)
    made = {
        "none": NoSpeculation,
        "static": lambda config: Static(config, k=k),
        "schedule": lambda config: Schedule(config, ranges=[[1, 2, 3], [3, 4, k], [5, 9, 0]]),
    }
    latency = load_latency(TABLE) if priced == "table" else LINE
    check_same(*both_ways(made[planner], trace, load, options, latency))


def test_steps_that_do_not_fit_at_once_are_handed_over_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled, "STEPS_AT_ONCE", 5)
    trace = random_trace(seed=2, num_requests=9)
    for warmup in (0, 7):
        options = SimulatorOptions(planner_time="off", warmup_steps=warmup)
        check_same(*both_ways(Static, trace, Load(3), options, load_latency(TABLE)))


class Curious(Static):
    """Changes its mind, so it has to be asked."""

    def plan(self, batch: Batch) -> Plan:
        return Plan(batch.step % 2, batch.num_requests + int(batch.num_draft_tokens.sum()))


def test_who_says_that_the_load_is_all_it_looks_at() -> None:
    config = config_for(random_trace(seed=1), 4)
    said: dict[str, Any] = {
        "none": depth_by_load(NoSpeculation(config)),
        "static": depth_by_load(Static(config, k=2)),
        "schedule": depth_by_load(Schedule(config, ranges=[[1, 2, 3], [3, 4, 1]])),
        "contexts": depth_by_load(Schedule(config, ranges=[[1, 4, 1, 99, 3], [1, 4, 100, 999, 1]])),
        "prefills": depth_by_load(Schedule(config, count_prefills=True)),
        "curious": depth_by_load(Curious(config)),
    }
    shown = {name: None if depths is None else depths.tolist() for name, depths in said.items()}
    assert shown == {
        "none": [0, 0, 0, 0, 0],
        "static": [2, 2, 2, 2, 2],
        "schedule": [3, 3, 3, 1, 1],
        "contexts": None,
        "prefills": None,
        "curious": None,
    }


@pytest.mark.parametrize("why", ["asked", "short proposals", "sleeping drafter", "prefill", "latency", "numba"])
def test_what_cannot_be_done_this_way_is_replayed_step_by_step(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = random_trace(seed=4, short_proposals=why == "short proposals")
    latency: Any = RoundLatency() if why == "latency" else load_latency(TABLE)
    options = PLAIN
    if why == "prefill":
        options = replace(PLAIN, prefill="separate")
    if why == "sleeping drafter":
        options = replace(PLAIN, catch_up="on_resume")
    if why == "numba":
        monkeypatch.setattr(scheduled, "compiled_loop", lambda: None)
    config = config_for(trace, 3, 0, latency)
    planner: Planner = Curious(config) if why == "asked" else Static(config)
    assert scheduled_replay(trace, config, Slots(trace, Load(3)), options, planner) is None
