"""Gains of a verify budget, and confidences that are one proposal old."""

import numpy as np
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.planners.verify_budget import (
    EarlierConfidences,
    gains,
    pending_slots,
    shown_confidence,
    survival_of,
)

from .support import batch


def test_gains_are_sums_of_the_largest() -> None:
    assert gains(np.array([[0.9, 0.5], [0.7, 0.1]])) == pytest.approx([0.0, 0.9, 1.6, 2.1, 2.2])
    assert gains(np.zeros(0)).tolist() == [0.0]


def test_what_is_not_known_counts_as_sure() -> None:
    survival = survival_of(np.array([[0.5, 0.5, np.nan], [np.nan] * 3], dtype=np.float32))
    assert survival.tolist() == [[0.5, 0.25, 0.25], [1.0, 1.0, 1.0]]


def test_slots_end_with_the_proposal() -> None:
    assert pending_slots(np.array([2, 0]), 3).tolist() == [[True, True, False], [False] * 3]


def test_a_batch_without_confidences_is_refused() -> None:
    with pytest.raises(BenchError, match="mine: the batch has no confidences"):
        shown_confidence(batch([3]), "mine")


def values(earlier: EarlierConfidences, ids: list[int], shown: list[float]) -> list[float | None]:
    found = earlier.of(np.array(ids, dtype=np.int64), np.array(shown, dtype=np.float32)[:, None])
    return [None if np.isnan(value) else round(float(value), 3) for value in found[:, 0]]


def test_earlier_confidences_follow_their_request() -> None:
    earlier = EarlierConfidences(1)
    assert values(earlier, [7, 3], [0.7, 0.3]) == [None, None]
    assert values(earlier, [3, 9, 7], [0.31, 0.9, 0.71]) == [0.3, None, 0.7]
    assert values(earlier, [9], [0.91]) == [0.9]
    assert values(earlier, [7, 9], [0.72, 0.92]) == [None, 0.91]  # 7 had left, and is not remembered


def test_without_delay_they_are_what_is_shown() -> None:
    assert values(EarlierConfidences(0), [7, 3], [0.7, 0.3]) == [0.7, 0.3]


def test_an_empty_batch_in_between_forgets_everybody() -> None:
    earlier = EarlierConfidences(1)
    values(earlier, [1], [0.5])
    earlier.of(np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.float32))
    assert values(earlier, [1], [0.6]) == [None]
