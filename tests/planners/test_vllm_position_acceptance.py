"""vLLM's acceptance-adaptive K: the vectors of its own tests, the fold of a batch, and the trap at K = 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.vllm_position_acceptance import VllmPositionAcceptance

from .drive import drive, made
from .support import batch, engine


def feed(planner: VllmPositionAcceptance, accepted: list[int], k: int) -> None:
    """One step in which that many requests verified k tokens each."""
    observe(planner, [(k, count) for count in accepted])


def observe(planner: VllmPositionAcceptance, outcomes: list[tuple[int, int]]) -> None:
    verified = np.array([v for v, _ in outcomes], dtype=np.int64)
    accepted = np.array([a for _, a in outcomes], dtype=np.int64)
    planner.observe(made(0, Plan(0, 0), np.arange(len(outcomes)), verified, verified, accepted))


def depth(planner: VllmPositionAcceptance, size: int = 1) -> Any:
    return planner.plan(batch([0] * size)).num_draft_tokens


@pytest.mark.parametrize("options", [{}, {"window": 4, "probe_interval": 3, "schedule": {"1-4": 5, "5-9": 1}}])
def test_it_is_sound(options: dict[str, Any]) -> None:
    assert check_planner("vllm-position-acceptance", options=options) == []


def test_all_positions_until_the_window_is_full() -> None:
    planner = VllmPositionAcceptance(engine(5), window=10, probe_interval=0)
    feed(planner, [0] * 9, k=5)
    assert depth(planner) == 5
    feed(planner, [0], k=5)
    assert depth(planner) == 0


def test_leading_positions_above_the_threshold() -> None:
    planner = VllmPositionAcceptance(engine(5), window=100, probe_interval=0)
    feed(planner, [5] * 20 + [4] * 5 + [3] * 10 + [2] * 10 + [1] * 25 + [0] * 30, k=5)
    np.testing.assert_allclose(planner.rate, [0.70, 0.45, 0.35, 0.25, 0.20])
    assert depth(planner) == 2


def test_the_least_k() -> None:
    planner = VllmPositionAcceptance(engine(4), threshold=0.9, min_k=1, window=4, probe_interval=0)
    feed(planner, [0] * 4, k=4)
    assert depth(planner) == 1


def test_probes_find_out_that_the_drafter_is_good_again() -> None:
    planner = VllmPositionAcceptance(engine(3), threshold=0.5, window=8, probe_interval=4)
    feed(planner, [0] * 8, k=3)
    assert [depth(planner) for _ in range(8)] == [0, 0, 0, 3, 0, 0, 0, 3]
    feed(planner, [3] * 12, k=3)
    assert planner.recommended_k() == 3


def test_positions_never_drafted_stay_enabled() -> None:
    planner = VllmPositionAcceptance(engine(5), window=4, probe_interval=0)
    feed(planner, [2] * 4, k=2)
    assert planner.recommended_k() == 5


def test_hysteresis_keeps_a_position_from_coming_and_going() -> None:
    planner = VllmPositionAcceptance(engine(2), threshold=0.5, window=20, probe_interval=0, hysteresis=0.1)
    feed(planner, [2, 1] * 10, k=2)
    assert (planner.rate[1], planner.recommended_k()) == (pytest.approx(0.5), 2)
    feed(planner, [1], k=2)
    assert (planner.rate[1], planner.recommended_k()) == (pytest.approx(0.475), 1)
    feed(planner, [2] * 4, k=2)
    assert (planner.rate[1], planner.recommended_k()) == (pytest.approx(1 - 0.525 * 0.95**4), 1)
    feed(planner, [2] * 2, k=2)
    assert planner.rate[1] > 0.6
    assert planner.recommended_k() == 2


def test_the_trap_at_zero_without_probes() -> None:
    """A hundred bad steps, then a drafter that is always right. Without probes nothing is drafted again, ever; with
    them all positions are back after some probes."""

    def acceptable(t: int) -> int:
        return 0 if t < 100 else 7

    trapped = drive(VllmPositionAcceptance(engine(7), window=16, probe_interval=0), [4] * 2000, acceptable)
    assert trapped[150:] == [0] * 1850
    probing = drive(VllmPositionAcceptance(engine(7), window=16), [4] * 2000, acceptable)
    assert probing[-1] == 7


def test_the_smaller_k_of_schedule_and_acceptance() -> None:
    planner = VllmPositionAcceptance(
        engine(3), threshold=0.5, window=2, probe_interval=0, schedule=[[1, 2, 3], [3, 16, 0]]
    )
    assert [depth(planner, size) for size in (1, 2, 3)] == [3, 3, 0]
    feed(planner, [1, 1], k=3)
    assert [depth(planner, size) for size in (1, 3)] == [1, 0]


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=9), max_size=6),
    st.integers(1, 12),
)
def test_a_batch_is_its_proposals_one_after_another(steps: list[list[tuple[int, int]]], window: int) -> None:
    """All positions of a step at once give what the source's loop over proposals and positions gives."""
    planner = VllmPositionAcceptance(engine(4), window=window)
    rate, observed = [0.0] * 4, [0] * 4
    for outcomes in steps:
        outcomes = [(drafted, min(drafted, accepted)) for drafted, accepted in outcomes]
        observe(planner, outcomes)
        for drafted, accepted in outcomes:
            for j in range(drafted):
                weight = 1 / (observed[j] + 1) if observed[j] < window else 1 / window
                rate[j] += weight * ((j < accepted) - rate[j])
                observed[j] += 1
    np.testing.assert_allclose(planner.rate, rate, atol=1e-12)
    assert planner.num_observed.tolist() == observed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.0}, "threshold is 0.0, expected above 0, at most 1"),
        ({"threshold": 1.5}, "threshold is 1.5, expected above 0, at most 1"),
        ({"min_k": 8}, r"min_k is 8, expected 0 to 7 \(the drafter's max_draft_tokens\)"),
        ({"window": 0}, "window is 0, expected at least 1"),
        ({"probe_interval": -1}, "probe_interval is -1, expected at least 0"),
        ({"hysteresis": -0.1}, "hysteresis is -0.1, expected at least 0"),
        ({"schedule": [[2, 4, 1]]}, r"the first range \[2, 4, 1\] starts at 2, expected 1"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"^vllm-position-acceptance: {message}"):
        VllmPositionAcceptance(engine(7), **options)
