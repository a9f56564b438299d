"""Hugging Face's dynamic threshold: a history per request, which pairs join it, when it begins to decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, EarlyExit, Plan
from lightspec_bench.early_exit import stopped_drafts
from lightspec_bench.planners.hf_confidence import HFConfidence

from .driven import batch_of, outcome
from .support import batch, engine


def thresholds(planner: HFConfidence, request_id: list[int]) -> list[float]:
    rule = planner.plan(batch_of(request_id)).early_exit
    assert rule is not None
    return list(np.asarray(rule.threshold).tolist())


def test_the_first_plan_and_the_static_form() -> None:
    planner = HFConfidence(engine(4))
    made = planner.plan(batch([4, 0]))
    rule = made.early_exit
    assert rule is not None
    assert made == Plan(4, 6, early_exit=rule)
    assert (rule.signal, rule.keep_last, rule.threshold.tolist()) == ("confidence", True, [0.4, 0.4])
    static = HFConfidence(engine(30), mode="static", threshold=0.6)
    assert static.plan(batch([4, 0])) == Plan(20, 6, early_exit=EarlyExit("confidence", 0.6, keep_last=True))
    static.observe(outcome([1], [3], [0], confidence=[[0.9] * 30]))
    assert static.plan(batch([])) == Plan(20, 0, early_exit=EarlyExit("confidence", 0.6, keep_last=True))


def test_the_token_of_low_confidence_is_kept() -> None:
    rule = HFConfidence(engine(3), mode="static").plan(batch([])).early_exit
    assert rule is not None
    confidence = np.array([[0.9, 0.3, 0.9], [0.4, 0.4, 0.4]], dtype=np.float32)
    kept, passes = stopped_drafts(rule, confidence, np.array([3, 3]))
    assert (kept.tolist(), passes.tolist()) == ([2, 3], [2, 3])


def test_a_threshold_by_hand() -> None:
    """0.875 and 0.75 match, 0.5 misses (0.9 after it is discarded); 0.625 matches, 0.5 misses, 0.25 misses.

    Of three matches and three misses, 0.625 costs 0, all others more.
    """
    planner = HFConfidence(engine(4))
    planner.observe(outcome([5], [4], [2], confidence=[[0.875, 0.75, 0.5, 0.9]]))
    planner.observe(outcome([5], [2], [1], confidence=[[0.625, 0.5, np.nan, np.nan]], index=1))
    assert thresholds(planner, [5]) == [0.4]  # five pairs are not enough
    planner.observe(outcome([5], [1], [0], confidence=[[0.25, np.nan, np.nan, np.nan]], index=2))
    assert thresholds(planner, [5, 6]) == [0.625, 0.4]


def test_one_kind_of_pair_decides_nothing() -> None:
    planner = HFConfidence(engine(4))
    for index in range(3):
        planner.observe(outcome([5], [4], [4], confidence=[[0.9] * 4], index=index))
    assert thresholds(planner, [5]) == [0.4]
    planner.observe(outcome([5], [1], [0], confidence=[[0.5] * 4], index=3))
    assert thresholds(planner, [5]) == pytest.approx([0.9])


def test_histories_are_per_request_and_end_with_it() -> None:
    planner = HFConfidence(engine(3), min_pairs=1)
    both = [[0.75, 0.5, 0.25], [0.9, 0.8, 0.7]]
    planner.observe(outcome([1, 2], [3, 3], [1, 3], confidence=both))
    assert thresholds(planner, [2, 1]) == [0.4, 0.75]
    planner.observe(outcome([2, 3], [1, 2], [0, 1], confidence=[[0.5] * 3, [0.625, 0.5, np.nan]], index=1))
    assert thresholds(planner, [1, 2, 3]) == pytest.approx([0.4, 0.7, 0.625])


def test_requests_that_come_and_go_leave_nothing_behind() -> None:
    planner = HFConfidence(engine(1))
    for index in range(50):
        planner.observe(outcome([2 * index, 2 * index + 1], [1, 1], [1, 0], confidence=[[0.5]] * 2, index=index))
    assert len(planner._histories._keys) == 2


def test_only_what_was_verified_is_known() -> None:
    """One of three was verified and accepted: whether the second matches is not known."""
    planner = HFConfidence(engine(3), min_pairs=0)
    planner.observe(outcome([1], [1], [1], confidence=[[0.75, 0.5, 0.25]]))
    planner.observe(outcome([1], [1], [0], confidence=[[0.25, 0.5, 0.25]], index=1))
    assert thresholds(planner, [1]) == [0.75]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": -1.0}, "hf-confidence: threshold is -1.0, expected 0 to 1"),
        ({"mode": "roc"}, "hf-confidence: mode is 'roc', expected one of dynamic, static"),
        ({"k": 0}, "hf-confidence: k is 0, expected at least 1"),
        ({"min_pairs": -1}, "hf-confidence: min_pairs is -1, expected at least 0"),
        ({"miss_weight": -3.0}, "hf-confidence: miss_weight is -3.0, expected at least 0"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        HFConfidence(engine(), **options)
    assert str(error.value) == message


def test_it_cannot_do_without_confidences() -> None:
    with pytest.raises(BenchError, match="hf-confidence: the step has no confidences, expected a trace or engine"):
        HFConfidence(engine()).observe(outcome([1], [1], [1]))


def test_conformance() -> None:
    assert check_planner("hf-confidence") == []
