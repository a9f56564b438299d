"""Draft & Verify's self-tuning threshold: by hand, per request, and forgotten when the request leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.draft_and_verify import DraftAndVerify

from .driven import batch_of, outcome
from .support import batch, engine


def thresholds(planner: DraftAndVerify, request_id: list[int]) -> list[float]:
    rule = planner.plan(batch_of(request_id)).early_exit
    assert rule is not None
    return list(np.asarray(rule.threshold).tolist())


def test_the_first_plan() -> None:
    planner = DraftAndVerify(engine(11))
    made = planner.plan(batch([8, 2, 0]))
    rule = made.early_exit
    assert rule is not None
    assert made == Plan(8, 13, early_exit=rule)
    assert (rule.signal, rule.keep_last, rule.threshold.tolist()) == ("confidence", True, [0.8, 0.8, 0.8])


def test_three_moves_by_hand() -> None:
    """m = 0.5 m + 0.5 share; th = 0.9 th + 0.1 to.

    4 of 4, short of full length: m = 0.5 < 0.9, to 0.81, th 0.801. Again: m = 0.75, to 0.811, th 0.802. With target 0.7
    the second is reached: to 0.791, th 0.8; a full draft of 8, all accepted, leaves it.
    """
    planner = DraftAndVerify(engine(8))
    planner.observe(outcome([7], [4], [4]))
    assert thresholds(planner, [7]) == pytest.approx([0.801])
    planner.observe(outcome([7], [4], [4], index=1))
    assert thresholds(planner, [7]) == pytest.approx([0.802])
    eased = DraftAndVerify(engine(8), target=0.7)
    for index, drafted in enumerate([4, 4, 8]):
        eased.observe(outcome([7], [drafted], [drafted], index=index))
    assert thresholds(eased, [7]) == pytest.approx([0.8])


def test_every_request_tunes_its_own_and_starts_anew() -> None:
    """7 of 8 (m 0.4375), 0 of 4 and nothing verified; then request 1 leaves, and one comes that was never seen."""
    planner = DraftAndVerify(engine(8), target=0.4)
    planner.observe(outcome([1, 2, 3], [8, 4, 0], [7, 0, 0]))
    assert thresholds(planner, [3, 2, 1]) == pytest.approx([0.8, 0.801, 0.8])  # 1: reached, but its draft was full
    planner.observe(outcome([2, 3], [4, 4], [4, 4], index=1))  # 2: m 0.5 reached; 3: m 0.5 reached
    assert thresholds(planner, [1, 2, 3, 9]) == pytest.approx([0.8, 0.8, 0.799, 0.8])


def test_the_rule_is_given_0_to_1() -> None:
    """Inside, thresholds go on as in the source: 1.1 after one miss; then m = 0.5 is reached, to 0.1, th 1.0."""
    planner = DraftAndVerify(engine(8), threshold=1.0, step=1.0, target=0.4)
    planner.observe(outcome([1], [4], [0]))
    assert thresholds(planner, [1]) == [1.0]
    planner.observe(outcome([1], [4], [4], index=1))
    assert thresholds(planner, [1]) == pytest.approx([1.0])
    planner.observe(outcome([1], [4], [4], index=2))
    assert thresholds(planner, [1]) == pytest.approx([0.9])
    low = DraftAndVerify(engine(8), threshold=0.0, target=0.0)
    low.observe(outcome([1], [4], [0]))
    assert thresholds(low, [1]) == [0.0]


@pytest.mark.parametrize("option", ["threshold", "target", "step", "share_memory", "threshold_memory"])
def test_errors(option: str) -> None:
    given: dict[str, Any] = {option: 1.5}
    with pytest.raises(BenchError, match=f"^draft-and-verify: {option} is 1.5, expected 0 to 1$"):
        DraftAndVerify(engine(), **given)


def test_conformance() -> None:
    with pytest.raises(BenchError, match="draft-and-verify: k is 0, expected at least 1"):
        DraftAndVerify(engine(), k=0)
    assert check_planner("draft-and-verify") == []
