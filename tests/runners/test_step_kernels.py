"""The compiled passes of a step do to the bit what the NumPy ones do, alone and in whole runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.core import IntArray, Run
from lightspec_bench.registry import make_planner
from lightspec_bench.runners import slots, step_kernels
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.runners.step_kernels import END, MISSED, POSITION, Kernels, load_kernels
from tests.support import config_for, random_trace

PLAIN = Kernels(step_kernels.look, step_kernels.book, step_kernels.leave, False)


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    pytest.importorskip("numba")
    return load_kernels()


def running(seed: int, n: int, capacity: int, num_positions: int) -> IntArray:
    """A state of `n` requests somewhere in a trace of that many positions; the other columns hold anything."""
    state = np.random.default_rng(seed).integers(0, num_positions, (MISSED + 1, capacity))
    state[END] = np.minimum(state[POSITION] + state[END] % 4 + 1, num_positions)
    return state


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 9), spare=st.integers(0, 3), depth=st.integers(0, 4))
def test_each_pass_is_the_same_compiled(compiled: Kernels, seed: int, n: int, spare: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    recorded = rng.integers(0, depth + 1, 40).astype(np.int16)
    pending = rng.integers(0, depth + 1, n)
    verify = rng.integers(0, pending + 1)
    found = []
    for kernels in (PLAIN, compiled):
        state, outcomes = running(seed, n, n + spare, 40), np.zeros((depth + 1, depth + 1), dtype=np.int64)
        seen = kernels.look(state, n, pending)
        booked = kernels.book(state, n, pending, verify, recorded, outcomes)
        gone = kernels.leave(state, booked[1], booked[2])
        found.append((*seen, *booked, gone, state[:, : booked[2]], outcomes))
    for plain, fast in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, fast)
    assert found[0][-1].sum() == n


@pytest.mark.parametrize("spec", ["none", "static:k=3", "lightspec", "dspark"])
def test_a_run_is_the_same_compiled(compiled: Kernels, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, fast = (run_with(kernels, spec, monkeypatch) for kernels in (PLAIN, compiled))
    assert plain.steps is not None
    assert fast.steps is not None
    for name, column in plain.steps.items():
        if "planner" not in name:
            np.testing.assert_array_equal(column, fast.steps[name])
    for name, column in plain.requests.items():
        np.testing.assert_array_equal(column, fast.requests[name])
    np.testing.assert_array_equal(plain.totals.outcomes, fast.totals.outcomes)
    assert replace(plain.totals, outcomes=0, planner_s=0) == replace(fast.totals, outcomes=0, planner_s=0)


def run_with(kernels: Kernels, spec: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(slots, "load_kernels", lambda: kernels)
    trace = random_trace(seed=7, num_requests=12)
    config = config_for(trace, 6)
    options = SimulatorOptions(planner_time="off", warmup_steps=3)
    return SimulatedRunner(trace, config, Load(6, num_requests=24), options).run(make_planner(spec, config, trace))
