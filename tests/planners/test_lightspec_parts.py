"""The parts of `lightspec`: what each learns from steps written by hand, and what it says before it has seen any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from lightspec_bench.core import FloatArray, IntArray, Plan, Step
from lightspec_bench.drafting import draft_s
from lightspec_bench.planners.lightspec_calibration import Calibration, monotone
from lightspec_bench.planners.lightspec_cost import Cost
from lightspec_bench.planners.lightspec_history import History
from tests.support import RoundLatency

from . import support

HALF_A_BIN = 0.025 + 1e-6
CONFIDENCES = np.linspace(0.0, 1.0, 101, dtype=np.float32)


def curve(calibration: Calibration, max_draft_tokens: int) -> FloatArray:
    """The map of every depth at `CONFIDENCES`, (101, D)."""
    return calibration.acceptance(np.repeat(CONFIDENCES[:, None], max_draft_tokens, axis=1))


def taught(confidence: float, acceptance: float, *, learns: bool = True, seed: int = 0) -> Calibration:
    """200 steps of 16 proposals of 3 tokens, of which 0 to 3 are verified."""
    rng, calibration = np.random.default_rng(seed), Calibration(3, learns)
    for _ in range(200):
        verified = rng.integers(0, 4, 16)
        reached = np.cumprod(rng.random((16, 3)) < acceptance, axis=1).sum(axis=1)
        calibration.observe(np.full((16, 3), confidence, np.float32), verified, np.minimum(verified, reached))
    calibration.refresh()
    return calibration


def test_before_any_evidence_a_confidence_is_taken_at_its_word() -> None:
    calibration = Calibration(3)
    calibration.refresh()
    assert np.abs(curve(calibration, 3) - CONFIDENCES[:, None]).max() <= HALF_A_BIN


@pytest.mark.parametrize(("confidence", "acceptance"), [(0.9, 0.5), (0.5, 0.9)])
def test_a_biased_confidence_is_corrected_from_censored_rows(confidence: float, acceptance: float) -> None:
    """Counting rows that were not at risk would make .125 of .5 at the last depth. Neighbours' priors pull a little."""
    known = taught(confidence, acceptance).acceptance(np.full((1, 3), confidence, np.float32))
    assert known[0] == pytest.approx([acceptance] * 3, abs=0.05)


def test_without_learning_the_map_stays_as_it_was() -> None:
    assert np.array_equal(curve(taught(0.9, 0.5, learns=False), 3), curve(Calibration(3), 3))


def test_rows_that_were_not_verified_or_came_after_a_rejection_teach_nothing() -> None:
    one, other = Calibration(3), Calibration(3)
    verified, accepted = np.array([0, 1, 3]), np.array([0, 1, 1])  # at risk: none, the first, the first two
    shown, changed = np.full((3, 3), 0.7, np.float32), np.full((3, 3), 0.7, np.float32)
    changed[0], changed[1, 1:], changed[2, 2:] = 0.1, 0.2, 0.3
    for calibration, confidence in ((one, shown), (other, changed)):
        for _ in range(50):
            calibration.observe(confidence, verified, accepted)
        calibration.refresh()
    assert np.array_equal(curve(one, 3), curve(other, 3))
    assert not np.array_equal(curve(one, 3), curve(Calibration(3), 3))


def test_a_proposal_that_ended_has_no_acceptance_past_its_end() -> None:
    known = Calibration(3).acceptance(np.array([[0.5, np.nan, np.nan]], np.float32))
    assert np.isnan(known[0]).tolist() == [False, True, True]


@given(st.integers(0, 10**6))
def test_the_map_never_falls_in_confidence_and_stays_a_probability(seed: int) -> None:
    """Whatever was accepted: here outcomes have nothing to do with confidences."""
    rng, calibration = np.random.default_rng(seed), Calibration(4)
    for _ in range(rng.integers(1, 30)):
        verified = rng.integers(0, 5, 8)
        calibration.observe(rng.random((8, 4), np.float32), verified, rng.integers(0, verified + 1))
    calibration.refresh()
    known = curve(calibration, 4)
    assert (np.diff(known, axis=0) >= -1e-12).all()
    assert ((known >= 0.0) & (known <= 1.0)).all()


rows_of_values = array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=12).flatmap(
    lambda shape: st.tuples(
        arrays(np.float64, shape, elements=st.floats(0.0, 1.0)),
        arrays(np.float64, shape, elements=st.floats(0.1, 1000.0)),
    )
)


@given(rows_of_values)
def test_monotone_never_falls_and_stays_within_the_values(given_: tuple[FloatArray, FloatArray]) -> None:
    values, weights = given_
    fitted = monotone(values, weights)
    assert fitted.shape == values.shape
    assert (np.diff(fitted, axis=-1) >= -1e-9).all()
    assert (fitted >= values.min(axis=-1, keepdims=True) - 1e-9).all()
    assert (fitted <= values.max(axis=-1, keepdims=True) + 1e-9).all()


@given(rows_of_values)
def test_monotone_leaves_what_is_monotone_already(given_: tuple[FloatArray, FloatArray]) -> None:
    values, weights = np.sort(given_[0], axis=-1), given_[1]
    assert monotone(values, weights) == pytest.approx(values, abs=1e-9)


CONFIG = replace(support.engine(3), latency=RoundLatency())


def took(times_model: float) -> Step:
    """A step of 4 requests and 16 rows, 26 s by the model, that took so many times as long."""
    return replace(support.step(Plan(3), [3] * 4, [3] * 4, [0] * 4), verify_s=times_model * 26.0)


def cost_after(steps: Sequence[Step], learns: bool = True) -> Cost:
    cost = Cost(CONFIG, learns)
    for step in steps:
        cost.observe(step)
    return cost


def test_before_any_step_costs_are_the_model_s() -> None:
    rows, depths = np.array([4, 8, 16]), np.arange(4)
    added_s, whole_s = Cost(CONFIG).step_s(rows, 4, 400, depths)
    latency = RoundLatency()
    drafting = draft_s(latency, CONFIG.drafter, rows[None], 4, depths[:, None], 400)
    assert whole_s == pytest.approx(latency.verify_s(rows, 4, 400) + drafting + 0.75)
    assert np.diff(added_s) == pytest.approx(np.diff(whole_s[0]))  # differences are all that a budget is chosen by


def test_steps_that_take_twice_as_long_are_believed() -> None:
    cost = cost_after([took(2.0)] * 60)
    assert float(cost.verify_s(np.array([16]), 4, 400)[0]) == pytest.approx(2 * 26.0, rel=0.02)


def test_one_outlier_hardly_moves_a_cost() -> None:
    cost = cost_after([*[took(1.0)] * 30, took(100.0)])
    assert 26.0 < float(cost.verify_s(np.array([16]), 4, 400)[0]) < 1.1 * 26.0


def test_without_learning_costs_stay_the_model_s() -> None:
    assert cost_after([took(2.0)] * 60, learns=False).verify_s(np.array([16]), 4, 400).tolist() == [26.0]


def served(
    pending: Sequence[int] | IntArray,
    outcomes: Sequence[tuple[Sequence[int] | IntArray, Sequence[int] | IntArray]],
    max_draft_tokens: int = 3,
    drafted: Sequence[int] | IntArray | None = None,
) -> History:
    """A history after steps given by (verified, accepted); `drafted` where proposals were shorter than planned."""
    history = History(max_draft_tokens)
    for index, (verified, accepted) in enumerate(outcomes):
        history.levels(support.batch(pending, index))
        history.observe(support.step(Plan(0), pending if drafted is None else drafted, verified, accepted, index))
    history.refresh()
    return history


def expected(history: History, count: int, rows: int, depth: int) -> float:
    """Expected accepted tokens of the best rows, for requests that all go on as they are."""
    level = history.levels(support.batch([depth] * count, 10**6))
    return float(history.curves(level, np.array([rows]))[depth, 0])


def test_a_history_without_steps_knows_the_prior() -> None:
    curves = History(3).curves(np.zeros(1, dtype=np.int64), np.arange(4))
    assert curves[3] == pytest.approx([0.0, 0.6, 0.96, 1.176])


def test_requests_that_do_well_and_badly_are_told_apart() -> None:
    """Fifty requests accept both tokens, fifty none: half of the rows bring everything."""
    verified, accepted = [2] * 100, [2] * 50 + [0] * 50
    history = served([2] * 100, [(verified, accepted)] * 40, 2)
    level = history.levels(support.batch([2] * 100, 40))
    assert level[:50].min() > level[50:].max() > 0
    assert history.curves(level, np.array([50, 100, 200]))[2] == pytest.approx([50, 100, 100], abs=5)
    assert history.curves(level, np.array([50, 100]))[1] == pytest.approx([50, 50], abs=3)
    assert history.verify(level, np.full(100, 2), 100.0).tolist() == [2] * 50 + [0] * 50


def test_a_token_is_at_risk_only_where_it_was_verified() -> None:
    """Nobody looked past the first token here, then past the second; only the latter speaks against going on."""
    unseen = served([3] * 20, [([1] * 20, [1] * 20)] * 40)
    refused = served([3] * 20, [([2] * 20, [1] * 20)] * 40)
    assert expected(unseen, 20, 60, 3) == pytest.approx(60, abs=4)
    assert expected(refused, 20, 60, 3) == pytest.approx(20, abs=3)


def test_a_token_after_a_rejection_was_not_at_risk() -> None:
    """All or nothing: once the first token is right so are the others. Half of 3 tokens, not .5 + .25 + .125."""
    rng = np.random.default_rng(0)
    history = served([3] * 64, [([3] * 64, 3 * rng.integers(0, 2, 64)) for _ in range(60)])
    assert expected(history, 64, 192, 3) / 64 == pytest.approx(1.5, abs=0.15)


def test_proposals_that_are_shorter_than_planned_offer_no_rows() -> None:
    history = served([3] * 20, [([1] * 20, [1] * 20)] * 40, drafted=[1] * 20)
    assert expected(history, 20, 60, 3) == pytest.approx(20, abs=3)


def test_a_newcomer_is_at_level_0_and_so_is_one_that_was_long_not_verified() -> None:
    history = served([3] * 3, [([3] * 3, [1] * 3)])
    assert (history.levels(replace(support.batch([3, 0], 1), request_id=np.array([2, 7]))) > 0).tolist() == [
        True,
        False,
    ]
    history = served([3] * 3, [([3] * 3, [1] * 3), *[([0, 0, 3], [0, 0, 1])] * 50])
    assert (history.levels(support.batch([3] * 3, 51)) > 0).tolist() == [False, False, True]


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_history_curves_rise_with_rows_and_depth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    verified = [rng.integers(0, 4, 6) for _ in range(8)]
    history = served([3] * 6, [(v, rng.integers(0, v + 1)) for v in verified])
    curves = history.curves(history.levels(support.batch([3] * 6, 8)), np.arange(19))
    assert (np.diff(curves, axis=1) >= -1e-9).all()
    assert (np.diff(curves, axis=0) >= -1e-9).all()
