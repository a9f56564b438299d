"""Per-request averages: the rule by hand, newcomers, and the trap that its floor avoids."""

from __future__ import annotations

from typing import Any

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.request_ema import RequestEMA

from .drive import drive
from .support import engine


@pytest.mark.parametrize("options", [{}, {"min_k": 0, "headroom": 0.0, "k": 0}])
def test_it_is_sound(options: dict[str, Any]) -> None:
    assert check_planner("request-ema", options=options) == []


def test_a_good_request_grows() -> None:
    """Weight 0.5, start at 2: full accepts of 3, 3, 4, 4 give 2.5, 2.75, 3.375, 3.6875; plus 1, rounded."""
    planner = RequestEMA(engine(7), weight=0.5)
    assert drive(planner, [1] * 6, lambda t: 7) == [[3], [3], [4], [4], [4], [5]]


def test_a_bad_one_shrinks_to_the_least() -> None:
    """2, 1, 0.5, 0.25: plus 1 and rounded, halves up, 3, 2, 2, 1."""
    planner = RequestEMA(engine(7), weight=0.5)
    assert drive(planner, [1] * 6, lambda t: 0) == [[3], [3], [2], [2], [1], [1]]


def test_requests_differ_and_newcomers_start_at_the_mean() -> None:
    """After step 2 the averages are 2.75 and 0.5, the mean 1.625: a newcomer drafts round(2.625) = 3."""
    planner = RequestEMA(engine(7), weight=0.5)
    assert drive(planner, [2, 2, 2, 3], lambda t: [7, 0, 0][: 3 if t == 3 else 2])[-1] == [4, 2, 3]


def test_a_request_that_left_is_forgotten() -> None:
    """Request 1 left with an average of 1; when it is back in step 3 it starts at that of request 0, 2.75."""
    planner = RequestEMA(engine(7), weight=0.5)
    assert drive(planner, [2, 2, 1, 2], lambda t: [7, 0][: 1 if t == 2 else 2])[-1] == [4, 4]


def test_with_nothing_left_over_a_bad_spell_ends_drafting_for_good() -> None:
    trapped = RequestEMA(engine(7), min_k=0, headroom=0.0)
    assert drive(trapped, [1] * 200, lambda t: 0 if t < 20 else 7)[-1] == [0]
    assert drive(RequestEMA(engine(7)), [1] * 200, lambda t: 0 if t < 20 else 7)[-1] == [7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": 0.0}, "weight is 0.0, expected above 0, at most 1"),
        ({"headroom": -1.0}, "headroom is -1.0, expected 0 to 7"),
        ({"min_k": 8}, r"min_k is 8, expected 0 to 7 \(the drafter's max_draft_tokens\)"),
        ({"k": 8}, r"k is 8, expected 0 to 7 \(the drafter's max_draft_tokens\)"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"^request-ema: {message}"):
        RequestEMA(engine(7), **options)
