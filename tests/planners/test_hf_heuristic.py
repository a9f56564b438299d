"""Hugging Face's assistant-token schedules, per request."""

from __future__ import annotations

from typing import Any

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.hf_heuristic import HFHeuristic

from .drive import drive
from .support import engine


@pytest.mark.parametrize("schedule", ["heuristic", "heuristic_transient", "constant"])
def test_it_is_sound(schedule: str) -> None:
    assert check_planner("hf-heuristic", options={"schedule": schedule}) == []


def test_two_more_after_a_full_match_up_to_the_drafter() -> None:
    assert drive(HFHeuristic(engine(9), 3), [1] * 6, lambda t: 9, max_draft_tokens=9) == [[3], [3], [5], [7], [9], [9]]


def test_one_less_after_a_miss_but_one() -> None:
    planner = HFHeuristic(engine(7), 3)
    assert drive(planner, [1] * 6, lambda t: 0) == [[3], [3], [2], [1], [1], [1]]


def test_a_run_of_matches_leaves_no_debt() -> None:
    """n is held at D = 7, so the first miss shows at once."""
    assert drive(HFHeuristic(engine(7)), [1] * 9, lambda t: 7 if t < 7 else 0)[-1] == [6]


def test_every_request_has_its_own() -> None:
    """3 accepted of 3 pending, 3 pending, then 5 and 2: only full matches add."""
    planner = HFHeuristic(engine(7), 3)
    assert drive(planner, [2] * 4, lambda t: [3, 1]) == [[3, 3], [3, 3], [5, 2], [7, 1]]


def test_what_a_request_that_left_hands_on() -> None:
    """Request 1 is at 1 when it leaves before step 3; one that comes in step 4 starts there, or anew."""

    def start_of_the_next(schedule: Any) -> Any:
        return drive(HFHeuristic(engine(7), 3, schedule), [2, 2, 2, 1, 2], lambda t: 0)[4]

    assert start_of_the_next("heuristic") == [1, 1]
    assert start_of_the_next("heuristic_transient") == [1, 3]
    assert start_of_the_next("constant") == 3


def test_defaults_are_those_of_the_heuristics_time() -> None:
    assert drive(HFHeuristic(engine(7)), [1], lambda t: 0) == [[5]]
    assert drive(HFHeuristic(engine(7), 20, "constant"), [1, 1], lambda t: 0) == [7, 7]


def test_mistakes() -> None:
    with pytest.raises(BenchError, match="hf-heuristic: num_assistant_tokens is 0, expected at least 1"):
        HFHeuristic(engine(7), 0)
