"""The gain curve of `lightspec`: what the best rows of a batch are worth, from proposals written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from lightspec_bench.core import FloatArray
from lightspec_bench.planners.lightspec_calibration import Calibration
from lightspec_bench.planners.lightspec_gain import Gain, Survivals

TWO = np.array([[0.925, 0.525], [0.625, 0.425]], np.float32)  # middles of bins: identity maps them to themselves


def gain_of(proposals: FloatArray | np.ndarray, num_requests: int, offsets: Sequence[int]) -> list[list[float]]:
    gain = Gain(proposals.shape[1])
    gain.observe(proposals.astype(np.float32))
    survivals = gain.survivals(Calibration(proposals.shape[1], learns=False))
    return gain.curves(survivals, num_requests, np.array(offsets)).tolist()


def test_one_request_is_worth_the_mean_of_recent_proposals() -> None:
    """Survivals .925 .485625 and .625 .265625."""
    assert gain_of(TWO, 1, [0, 1, 2]) == [
        [0.0, 0.0, 0.0],
        pytest.approx([0.0, 0.775, 0.775]),
        pytest.approx([0.0, 0.775, 1.150625]),
    ]


def test_two_requests_spend_their_rows_on_the_surest_tokens_of_both() -> None:
    assert gain_of(TWO, 2, [0, 1, 2, 3, 4]) == [
        [0.0, 0.0, 0.0, 0.0, 0.0],
        pytest.approx([0.0, 0.925, 1.55, 1.55, 1.55]),
        pytest.approx([0.0, 0.925, 1.55, 2.035625, 2.30125]),
    ]


def test_a_batch_larger_than_the_memory_is_scaled_up() -> None:
    assert gain_of(TWO, 4, [0, 1, 2, 4, 8])[2] == pytest.approx([0.0, 0.925, 1.85, 3.1, 4.6025])


def test_rows_come_in_the_order_of_confidences_but_count_by_calibrated_survival() -> None:
    """Fill would take the first request's tokens first, whatever they are really worth."""
    known = Survivals(np.array([[0.9, 0.8], [0.5, 0.2]]), np.array([[0.3, 0.1], [0.7, 0.6]]))
    assert Gain(2).curves(known, 2, np.arange(5))[2] == pytest.approx([0.0, 0.3, 0.4, 1.1, 1.7])


def test_with_no_proposal_the_prior_speaks() -> None:
    """Every token .6, given the one before."""
    gain = Gain(3)
    survivals = gain.survivals(Calibration(3))
    assert gain.curves(survivals, 1, np.arange(4))[3] == pytest.approx([0.0, 0.6, 0.96, 1.176])
    assert gain.curves(survivals, 5, np.array([0, 5, 10, 15]))[3] == pytest.approx([0.0, 3.0, 4.8, 5.88])


def test_requests_that_propose_nothing_offer_no_rows() -> None:
    """Lookups that find nothing: of four requests two have drafts, and rows past theirs gain nothing."""
    nothing = np.full((2, 2), np.nan)
    assert gain_of(np.concatenate((TWO, nothing)), 4, [0, 1, 2, 4, 8])[2] == pytest.approx(
        [0.0, 0.925, 1.55, 2.30125, 2.30125]
    )


def test_a_proposal_that_ended_early_goes_on_as_the_deeper_ones_did() -> None:
    gain = Gain(2)
    gain.observe(np.array([[0.925, 0.925]] * 100 + [[0.525, np.nan]], np.float32))
    survival = gain.survivals(Calibration(2, learns=False)).survival
    short = survival[np.isclose(survival[:, 0], 0.525)]
    assert short[:, 1] == pytest.approx([0.525 * 0.925], abs=0.03)


@given(
    arrays(np.float64, st.tuples(st.integers(1, 7), st.integers(1, 5)), elements=st.floats(0.0, 1.0)),
    st.integers(1, 9),
)
def test_calibrated_curves_rise_with_rows_and_depth_and_the_surest_rows_come_first(
    conditional: FloatArray, num_requests: int
) -> None:
    survival = np.cumprod(conditional, axis=1)
    width = survival.shape[1]
    curves = Gain(width).curves(Survivals(survival, survival), num_requests, np.arange(num_requests * width + 1))
    slopes = np.diff(curves, axis=1)
    assert (slopes >= -1e-9).all()
    assert (np.diff(slopes, axis=1) <= 1e-9).all()
    assert (np.diff(curves, axis=0) >= -1e-9).all()
    assert (curves[:, -1] <= num_requests * np.arange(width + 1) + 1e-9).all()
