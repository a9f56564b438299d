"""TETRIS: the capacity of a step, and that Fill spends it as its greedy heap would."""

import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.fill import fill, prefix_survival
from lightspec_bench.planners.tetris import Tetris

from .support import batch, engine


@pytest.mark.parametrize(
    ("options", "pending", "rows"),
    [
        ({}, [4, 4, 4], 3 + 9),
        ({}, [4, 0, 1], 3 + 5),  # less pending than capacity
        ({"capacity": 5}, [4, 4, 4], 3 + 5),
        ({"capacity": 0}, [4, 4, 4], 3),
        ({"k": 1, "extra": 2}, [3, 3], 2 + 2),
    ],
)
def test_a_plan_verifies_the_capacity(options: dict[str, Any], pending: list[int], rows: int) -> None:
    planner = Tetris(engine(11), **options)
    assert planner.plan(batch(pending)) == Plan(planner.depth, rows)


@pytest.mark.parametrize(("options", "depth"), [({}, 4), ({"extra": 0}, 3), ({"k": 9, "extra": 9}, 11)])
def test_it_drafts_more_than_it_verifies(options: dict[str, Any], depth: int) -> None:
    assert Tetris(engine(11), **options).depth == depth


def greedy(confidence: list[list[float]], capacity: int) -> float:
    """Survival that the heap collects: the likeliest next token of any request, one after another."""
    heap = [(-row[0], r, 0) for r, row in enumerate(confidence)]
    heapq.heapify(heap)
    total = 0.0
    for _ in range(min(capacity, sum(map(len, confidence)))):
        survival, r, j = heapq.heappop(heap)
        total -= survival
        if j + 1 < len(confidence[r]):
            heapq.heappush(heap, (survival * confidence[r][j + 1], r, j + 1))
    return total


@given(st.lists(st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4), min_size=1, max_size=5), st.integers(0, 20))
def test_fill_spends_a_capacity_as_the_heap_does(confidence: list[list[float]], capacity: int) -> None:
    pending = np.full(len(confidence), 4)
    survival = prefix_survival(np.array(confidence))
    plan = Tetris(engine(4), k=4, extra=0, capacity=capacity).plan(batch(pending.tolist()))
    assert plan.num_target_tokens is not None
    counts = fill(survival, pending, plan.num_target_tokens)
    taken = survival[np.arange(4) < counts[:, None]].sum()
    assert taken == pytest.approx(greedy(confidence, capacity))


@pytest.mark.parametrize("option", ["k", "extra", "capacity"])
def test_options_out_of_range(option: str) -> None:
    with pytest.raises(BenchError, match=f"tetris: {option} is -1, expected at least 0"):
        Tetris(engine(), **{option: -1})


def test_it_is_a_sound_planner() -> None:
    assert check_planner("tetris") == []
