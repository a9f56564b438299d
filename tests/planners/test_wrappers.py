"""Wrappers: what each does to another planner's wishes, and that they pass on everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import Batch, BenchError, Plan, PlanError
from lightspec_bench.planners.wrapper import Wrapper
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from tests.planners.support import batch, engine, step
from tests.planners.wishes import Wishes, around
from tests.support import config_for, random_trace

WRAPPERS = ("clamp", "depth-limit", "hysteresis", "dwell", "schedule-cap", "slo")


def wrapped(spec: str, depth: int = 8) -> Wrapper:
    planner = make_planner(spec, engine(depth))
    assert isinstance(planner, Wrapper)
    return planner


def depths(spec: str, wishes: list[Any], ids: list[list[int]] | None = None) -> list[Any]:
    """What a wrapper, `NAME` or `NAME:options`, drafts step by step around a planner with these wishes."""
    planner = wrapped(f"{spec}{',' if ':' in spec else ':'}planner=({around(wishes)})")
    plans = []
    for t in range(len(wishes)):
        present = np.array(ids[t] if ids else [0, 1], dtype=np.int64)
        none = np.zeros_like(present)
        plans.append(planner.plan(Batch(t, 0.0, present, none, none + 1, none + 100, None, None)))
    return [p.num_draft_tokens if isinstance(p.num_draft_tokens, int) else p.num_draft_tokens.tolist() for p in plans]


@pytest.mark.parametrize(
    ("spec", "wishes", "drafted"),
    [
        ("clamp:most=4", [0, 3, 4, 5, 8], [0, 3, 4, 4, 4]),
        ("clamp:most=4,least=2", [0, 3, 8], [2, 3, 4]),
        ("clamp:least=1", [0, 8], [1, 8]),
        ("clamp:most=20", [8, 0], [8, 0]),  # above D it changes nothing
        ("clamp:most=0", [5], [0]),
        ("clamp:most=4,least=1", [[0, 6], [3, 1]], [[1, 4], [3, 1]]),
        # The schedule allows 3 for two requests.
        ("schedule-cap:ranges=[[1,1,6],[2,9,3]]", [0, 2, 5, [1, 5]], [0, 2, 3, [1, 3]]),
        # From 4: 5 and 3 are within the margin, 6 is not; three steps in a row above count, across two depths.
        ("hysteresis:patience=3", [4, 5, 3, 5, 5, 3, 6, 4], [4, 4, 4, 4, 4, 4, 6, 4]),
        ("hysteresis:patience=3", [4, 5, 5, 5, 5], [4, 4, 4, 5, 5]),
        ("hysteresis:patience=3", [4, 5, 5, 4, 5, 5, 5], [4, 4, 4, 4, 4, 4, 5]),
        ("hysteresis:margin=3,patience=2", [1, 4, 3, 0, 0], [1, 1, 3, 3, 0]),
        ("hysteresis:margin=0", [1, 2, 1], [1, 2, 1]),
        ("hysteresis:patience=1", [1, 2, 1], [1, 2, 1]),
        # 3 holds for steps 0 to 2; the wish of step 1 is passed over, that of step 3 counts.
        ("dwell:steps=3", [3, 5, 3, 4, 6, 6, 7], [3, 3, 3, 4, 4, 4, 7]),
        ("dwell:steps=3", [3, 3, 3, 3, 6, 7], [3, 3, 3, 3, 6, 6]),
        ("dwell:steps=1", [1, 2, 1], [1, 2, 1]),
    ],
)
def test_what_is_drafted(spec: str, wishes: list[Any], drafted: list[Any]) -> None:
    assert depths(spec, wishes) == drafted


def test_a_depth_limit_is_the_drafter_that_the_planner_is_told_of() -> None:
    """D is 8 outside and 2 inside: what always drafts to D drafts 2, and two confidences of eight are shown."""
    assert wrapped("depth-limit:k=2,planner=dspark").plan(batch([2], confidence=[[0.9] * 8])).num_draft_tokens == 2
    planner = wrapped(f"depth-limit:k=2,planner=({around([1])})")
    planner.plan(batch([2], confidence=[[0.9, 0.8] + [0.1] * 6]))
    assert isinstance(planner.inner, Wishes)
    shown = planner.inner.batches[0].confidence
    assert shown is not None
    np.testing.assert_array_equal(shown, np.array([[0.9, 0.8]], dtype=np.float32))
    with pytest.raises(BenchError, match="static: k is 3, expected 0 to 2"):
        wrapped("depth-limit:k=2,planner=(static:k=3)")
    with pytest.raises(BenchError, match="depth-limit: k is 0, expected at least 1"):
        wrapped("depth-limit:k=0")


def test_depths_per_request_are_held_per_request() -> None:
    """Request 7 joins in the middle and gets its wish; request 0 leaves; 1 keeps its own count."""
    ids = [[0, 1], [0, 7, 1], [1, 7], [1, 7]]
    assert depths("dwell:steps=3", [[2, 4], [5, 6, 5], [5, 5], [5, 5]], ids) == [[2, 4], [2, 6, 4], [4, 6], [5, 6]]
    assert depths("hysteresis:patience=2", [[2, 4], [3, 6, 5], [5, 5], [5, 5]], ids) == [
        [2, 4], [2, 6, 4], [5, 6], [5, 5],
    ]  # fmt: skip


def test_one_depth_is_held_whoever_comes_and_goes() -> None:
    ids = [[0, 1], [2, 3, 4], [], [5]]
    assert depths("dwell:steps=9", [2, 4, 5, 6], ids) == [2, 2, 2, 2]


def test_a_planner_may_go_from_one_depth_to_several_and_back() -> None:
    assert depths("dwell:steps=2", [2, [3, 4], [3, 4], 5, 5], None) == [2, [2, 2], [3, 4], [3, 4], [5, 5]]
    assert depths("dwell:steps=2", [[2, 3], [], 4], [[0, 1], [], [0]]) == [[2, 3], [], 4]


@pytest.mark.parametrize("spec", WRAPPERS)
def test_what_is_wrapped_says_what_it_needs(spec: str) -> None:
    planner = wrapped(f"{spec}:planner=({around([1])})")
    assert (planner.confidence, planner.requires, planner.uses_drafter) == ("lagged", frozenset({"entropy"}), True)
    none = wrapped(f"{spec}:planner=none")
    assert (none.confidence, none.requires, none.uses_drafter) == ("none", frozenset(), False)
    nested = wrapped(f"{spec}:planner=(clamp:most=2,planner=(dwell:planner=dspark))")
    assert (nested.confidence, nested.requires) == ("lagged", frozenset({"confidence"}))


def test_the_inner_planner_sees_what_is_and_what_happened() -> None:
    planner = wrapped(f"clamp:most=2,planner=({around([5])})")
    inner = planner.inner
    assert isinstance(inner, Wishes)
    given_batch = batch([2, 0])
    plan = planner.plan(given_batch)
    assert plan == Plan(2, 4)
    happened = step(plan, [2, 0], [2, 0], [1, 0])
    planner.observe(happened)
    assert inner.batches[0] is given_batch
    assert inner.steps[0] is happened
    assert inner.steps[0].plan.num_draft_tokens == 2  # what ran, not what it wished


@pytest.mark.parametrize("spec", WRAPPERS)
def test_nothing_changes_without_a_drafter(spec: str) -> None:
    assert wrapped(f"{spec}:planner=none").plan(batch([0, 0])) == Plan(0, 2)


@pytest.mark.parametrize("spec", WRAPPERS)
@pytest.mark.parametrize("inner", ["static:k=3", "lightspec-reference", "dspark", "dwell:planner=schedule"])
def test_wrapped_planners_are_sound(spec: str, inner: str) -> None:
    """Under D = 1 the fixed depth refuses to be built, as it does alone."""
    assert check_planner(f"{spec}:planner=({inner})") == []


class TooDeep(Wishes):
    """Wishes what no drafter here can draft."""

    def __init__(self, config: object) -> None:
        super().__init__(config, [99])  # type: ignore[arg-type]


def test_a_wrong_plan_is_not_cut_to_a_right_one() -> None:
    spec = f"{__name__}:TooDeep"
    planner = wrapped(f"clamp:most=2,planner=({spec})")
    with pytest.raises(PlanError, match=f"^planner {spec}: num_draft_tokens is 99, expected 0 to 8"):
        planner.plan(batch([0]))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("clamp:most=-1", "clamp: most is -1, expected 0 or more"),
        ("clamp:least=9", "clamp: least is 9, expected 0 to 8"),
        ("clamp:least=4,most=3", "clamp: least is 4, expected 0 to 3"),
        ("clamp:least=1,planner=none", "clamp: least is 1, expected 0 around none, which runs without a drafter"),
        ("hysteresis:margin=-1", "hysteresis: margin is -1, expected 0 or more"),
        ("hysteresis:patience=0", "hysteresis: patience is 0, expected 1 or more"),
        ("dwell:steps=0", "dwell: steps is 0, expected 1 or more"),
        ("slo:tpot_ms=0", "slo: tpot_ms is 0, expected more than 0"),
        ("slo:tpot_ms=.nan", "slo: tpot_ms is nan, expected more than 0"),
        ("slo:memory=1.5", "slo: memory is 1.5, expected more than 0, at most 1"),
        ("schedule-cap:ranges=[[2,4,1]]", "schedule-cap:.*: schedule: the first range .* starts at 2, expected 1"),
        ("clamp:planner=oracle", "clamp: planner oracle reads the trace it runs on, expected one that plans from"),
        ("clamp:planner=(dwell:planner=oracle)", "dwell: planner oracle reads the trace it runs on"),
        ("clamp:planner=(static:k=9)", r"^clamp:planner=\(static:k=9\): static: k is 9, expected 0 to 8"),
        ("dwell:planner=(statik:k=9)", "^dwell:planner=.*: unknown planner 'statik', did you mean 'static'"),
        ("dwell:planner=(static:kk=9)", "^dwell:planner=.*: static: unknown option 'kk', did you mean 'k'"),
        ("dwell:planner=3", "dwell: option planner is 3, expected str"),
    ],
)
def test_mistakes(spec: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        wrapped(spec)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), outer=st.sampled_from(WRAPPERS), lag=st.integers(0, 1), short=st.booleans())
def test_a_wrapped_planner_runs_to_the_end_within_its_bounds(seed: int, outer: str, lag: int, short: bool) -> None:
    trace = random_trace(seed, short_proposals=short)
    config = config_for(trace, 3, lag)
    runner = SimulatedRunner(trace, config, Load(3, seed=seed), SimulatorOptions(planner_time="off"))
    tight = ",tpot_ms=9000" if outer == "slo" else ""
    run = runner.run(make_planner(f"{outer}:planner=(hysteresis:planner=lightspec){tight}", config, trace))
    alone = runner.run(make_planner("none", config, trace))
    assert len(run.requests["request_id"]) == len(alone.requests["request_id"])
    np.testing.assert_array_equal(run.requests["num_output_tokens"], alone.requests["num_output_tokens"])
