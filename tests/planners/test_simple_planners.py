"""The planners without state: none, static (LightLLM's fixed planner), schedule (vLLM's batch-size ranges)."""

from typing import Any

import pytest

from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.planners.schedule import Schedule
from lightspec_bench.planners.static import Static

from .support import batch, engine


def test_none_verifies_and_drafts_nothing() -> None:
    planner = NoSpeculation(engine())
    assert planner.plan(batch([0, 0])) == Plan(num_draft_tokens=0, num_target_tokens=2)
    assert planner.plan(batch([])) == Plan(num_draft_tokens=0, num_target_tokens=0)
    assert not NoSpeculation.uses_drafter


def test_static_verifies_everything_pending_and_drafts_k() -> None:
    planner = Static(engine(7), k=5)
    assert planner.plan(batch([5, 0, 2])) == Plan(num_draft_tokens=5, num_target_tokens=10)


def test_static_at_the_maximum_is_the_fixed_planner() -> None:
    """Vector 30."""
    planner = Static(engine(3), k=3)
    assert planner.plan(batch([3, 3, 3, 3])) == Plan(num_draft_tokens=3, num_target_tokens=16)
    assert planner.plan(batch([])) == Plan(num_draft_tokens=3, num_target_tokens=0)


@pytest.mark.parametrize(("max_draft_tokens", "k"), [(11, 3), (3, 3), (2, 2)])
def test_static_drafts_three_tokens_unless_told_otherwise(max_draft_tokens: int, k: int) -> None:
    assert Static(engine(max_draft_tokens)).k == k


@pytest.mark.parametrize("k", [-1, 4])
def test_static_refuses_a_k_outside_the_drafter(k: int) -> None:
    with pytest.raises(BenchError, match=rf"static: k is {k}, expected 0 to 3 \(the drafter's max_draft_tokens\)"):
        Static(engine(3), k=k)


def depths(ranges: Any, max_draft_tokens: int = 7, max_num_seqs: int = 12) -> list[int]:
    """K for 1 to `max_num_seqs` requests."""
    planner = Schedule(engine(max_draft_tokens, max_num_seqs=max_num_seqs), ranges=ranges)
    plans = [planner.plan(batch([0] * n)) for n in range(1, max_num_seqs + 1)]
    return [int(p.num_draft_tokens) for p in plans]


def test_schedule_ranges_are_inclusive_and_gaps_and_tail_inherit() -> None:
    assert depths([[1, 2, 5], [4, 6, 3], [9, 10, 0]]) == [5, 5, 5, 3, 3, 3, 3, 3, 0, 0, 0, 0]


def test_schedule_takes_any_order_and_either_spelling() -> None:
    assert depths({"4-6": 3, "1-2": 5, "9": 0}) == depths([[4, 6, 3], [9, 9, 0], [1, 2, 5]])


def test_schedule_never_exceeds_the_drafter() -> None:
    assert depths([[1, 4, 9], [5, 12, 2]], max_draft_tokens=3) == [3] * 4 + [2] * 8


def test_schedule_verifies_everything_pending() -> None:
    planner = Schedule(engine(7), ranges=[[1, 2, 5], [3, 4, 1]])
    assert planner.plan(batch([5, 5, 0])) == Plan(num_draft_tokens=1, num_target_tokens=13)
    assert planner.plan(batch([])) == Plan(num_draft_tokens=5, num_target_tokens=0)


def test_schedule_default_is_the_example_of_vllm() -> None:
    table = Schedule(engine(7, max_num_seqs=300)).table
    assert [int(table[n]) for n in (1, 16, 17, 63, 64, 128, 129, 255, 256, 300)] == [3, 3, 3, 3, 2, 2, 2, 2, 0, 0]


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ([[2, 4, 1]], r"the first range \[2, 4, 1\] starts at 2, expected 1"),
        ([[1, 4, 3], [4, 8, 1]], r"ranges \[1, 4, 3\] and \[4, 8, 1\] overlap, expected a start above 4"),
        ([[1, 8, 3], [2, 3, 1]], r"ranges \[1, 8, 3\] and \[2, 3, 1\] overlap"),
        ([[1, 4, 3], [9, 5, 1]], r"range \[9, 5, 1\] goes from 9 to 5, expected 1 <= lo <= hi"),
        ([[0, 4, 3]], r"range \[0, 4, 3\] goes from 0 to 4, expected 1 <= lo <= hi"),
        ([[1, 4, -1]], r"range \[1, 4, -1\] has K -1, expected at least 0"),
        ([[1, 4]], r"range \[1, 4\] is not three whole numbers, expected \[lo, hi, K\]"),
        ([[1, 4, 2.5]], ".*is not three whole numbers"),
        ([[1, 4, True]], ".*is not three whole numbers"),
        (["1-4"], "range '1-4' is not three whole numbers"),
        ([7], "range 7 is not three whole numbers"),
        ({"1-4": "3"}, ".*is not three whole numbers"),
        ({"small": 3}, "range 'small' is not a batch-size range, expected 'lo-hi' such as '1-16'"),
        ([], "ranges is empty, expected at least one"),
        ({}, "ranges is empty, expected at least one"),
    ],
)
def test_schedule_errors(ranges: Any, message: str) -> None:
    with pytest.raises(BenchError, match=f"schedule: {message}"):
        Schedule(engine(), ranges=ranges)
