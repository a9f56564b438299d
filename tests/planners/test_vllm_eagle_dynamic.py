"""vLLM's eagle_dynamic: every request's own length, and a batch that drafts the longest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.vllm_eagle_dynamic import VllmEagleDynamic

from .drive import drive
from .support import batch, engine


def test_it_is_sound() -> None:
    assert check_planner("vllm-eagle-dynamic") == []


def test_one_more_after_three_full_accepts_then_at_every_step() -> None:
    """Proposals are verified in steps 1, 2, 3; the third rate of 1.0 makes 4, every later one another, up to D."""
    assert drive(VllmEagleDynamic(engine(7)), [1] * 10, lambda t: 7) == [3, 3, 3, 3, 4, 5, 6, 7, 7, 7]


def test_one_less_while_the_mean_is_low_not_below_the_minimum() -> None:
    planner = VllmEagleDynamic(engine(7), k=5)
    assert drive(planner, [1] * 9, lambda t: 0) == [5, 5, 5, 5, 4, 3, 2, 2, 2]


def test_inside_the_band_nothing_moves() -> None:
    """1 of 4 accepted is 0.25, the lower bound of 0.3 +- 0.05, and moves down; 0.2 +- 0.1 reaches from 0.1 to 0.3."""
    assert drive(VllmEagleDynamic(engine(7), k=4), [1] * 5, lambda t: 1)[-1] == 3
    assert drive(VllmEagleDynamic(engine(7), k=4, threshold=0.2, hysteresis=0.1), [1] * 9, lambda t: 1) == [4] * 9


def test_only_the_last_rates_count() -> None:
    """With a history of 3, three rates of 0 and one of 1: (0 + 0 + 1) / 3 is inside 0.5 +- 0.2, then 2 / 3, then 1."""
    planner = VllmEagleDynamic(engine(7), threshold=0.5, hysteresis=0.2, history=3, k=5)
    depths = drive(planner, [1] * 8, lambda t: 0 if t < 4 else 7)
    assert depths == [5, 5, 5, 5, 4, 4, 4, 5]


def test_the_batch_drafts_the_longest_and_each_verifies_its_own() -> None:
    planner = VllmEagleDynamic(engine(7), k=4)
    assert drive(planner, [2] * 6, lambda t: [7, 0]) == [4, 4, 4, 4, 5, 6]
    plan = planner.plan(batch([6, 6, 0], step=6))
    np.testing.assert_array_equal(plan.num_verify_tokens, [6, 2, 0])  # planned in step 5; request 2 is new
    assert plan.num_draft_tokens == 7


def test_a_request_that_left_is_forgotten() -> None:
    planner = VllmEagleDynamic(engine(7), k=4)
    assert drive(planner, [2] * 6 + [1, 2], lambda t: [7, 0][: 1 if t == 6 else 2])[-1] == 7
    plan = planner.plan(batch([0, 0]))
    np.testing.assert_array_equal(planner._requests.read(np.array([0, 1]))[0]["k"], [7, 4])
    assert plan.num_draft_tokens == 7


def test_constants_are_cut_to_the_drafter() -> None:
    planner = VllmEagleDynamic(engine(1))
    assert drive(planner, [1] * 6, lambda t: 1, max_draft_tokens=1) == [1] * 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 1.2}, "threshold is 1.2, expected 0 to 1"),
        ({"hysteresis": -0.1}, "hysteresis is -0.1, expected 0 to 1"),
        ({"history": 0}, "history is 0, expected at least 1"),
        ({"min_history": 11}, "min_history is 11, expected 1 to 10, which is history"),
        ({"min_k": 0}, "min_k is 0, expected at least 1"),
        ({"max_k": 1}, "max_k is 1, expected at least 2, which is min_k"),
        ({"k": 0}, "k is 0, expected at least 1"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"^vllm-eagle-dynamic: {message}"):
        VllmEagleDynamic(engine(7), **options)
