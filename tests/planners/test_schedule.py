"""The batch-size schedule's context axis, and what counting prefills does to its key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.schedule import Schedule

from .drive import switches
from .support import batch, engine

GRID = [[1, 2, 1, 100, 3], [1, 2, 101, 200, 5], [3, 8, 1, 100, 0], [3, 8, 101, 200, 2]]


def depth(planner: Schedule, context: list[int]) -> Any:
    seen = replace(batch([0] * len(context)), num_context_tokens=np.array(context, dtype=np.int64))
    return planner.plan(seen).num_draft_tokens


def test_it_is_sound() -> None:
    assert check_planner(Schedule, options={"ranges": GRID, "context": "median", "count_prefills": True}) == []


@pytest.mark.parametrize(
    ("context", "k"),
    [
        ([100], 3),  # the last length of the first range
        ([101], 5),
        ([100_000], 5),  # the last range has no end
        ([50, 50, 50], 0),
        ([150, 150, 150], 2),
        ([], 3),  # nobody: the first ranges
    ],
)
def test_k_by_batch_size_and_context(context: list[int], k: int) -> None:
    assert depth(Schedule(engine(7), ranges=GRID), context) == k


@pytest.mark.parametrize(("key", "ks"), [("mean", (2, 0)), ("median", (0, 0)), ("max", (2, 2))])
def test_which_length_stands_for_the_batch(key: Any, ks: tuple[int, int]) -> None:
    """Lengths 60, 60, 300: mean 140, median 60, largest 300; 10, 20, 150: mean 60, median 20, largest 150."""
    planner = Schedule(engine(7), ranges=GRID, context=key)
    assert (depth(planner, [60, 60, 300]), depth(planner, [10, 20, 150])) == ks


def test_a_mean_is_rounded_down() -> None:
    assert depth(Schedule(engine(7), ranges=GRID), [100, 101]) == 3


def test_ranges_in_any_order_and_cut_to_the_drafter() -> None:
    planner = Schedule(engine(4), ranges=GRID[::-1])
    assert [depth(planner, c) for c in ([50], [150], [50] * 3, [150] * 3)] == [3, 4, 0, 2]


def test_key_thrash_when_prefills_count() -> None:
    """vLLM #49548: four decodes and a prompt in chunks; with the prompt in the key K flips 2 to 0 and back."""
    ranges = [[1, 4, 2], [5, 64, 0]]
    chunks = [512, 0, 512, 0, 512, 0]
    batches = [replace(batch([2, 2, 2, 2]), num_prefill_tokens=tokens) for tokens in chunks]
    counting = Schedule(engine(7), ranges=ranges, count_prefills=True)
    assert [int(counting.plan(b).num_draft_tokens) for b in batches] == [0, 2, 0, 2, 0, 2]
    steady = Schedule(engine(7), ranges=ranges)
    assert switches([int(steady.plan(b).num_draft_tokens) for b in batches]) == 0


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        (
            [[1, 2, 3], [3, 8, 1, 100, 2]],
            r"range \[3, 8, 1, 100, 2\] has 5 numbers and others 3, expected all 3 or all 5",
        ),
        ([[1, 2, 2, 100, 3]], r"the first context range \[2, 100\] starts at 2, expected 1"),
        (
            [[1, 2, 1, 100, 3], [1, 2, 102, 200, 1]],
            r"context range \[102, 200\] follows \[1, 100\], expected a start at 101",
        ),
        (
            [*GRID, [9, 9, 1, 100, 1]],
            r"ranges has no K for batch sizes \[9, 9\] and context \[101, 200\], expected every batch range with every",
        ),
        ([GRID[0], GRID[0]], r"ranges \[1, 2, 1, 100, 3\] and \[1, 2, 1, 100, 3\] overlap, expected a start above 2"),
        ([[1, 2, 9, 4, 3]], r"range \[1, 2, 9, 4, 3\] goes context from 9 to 4, expected 1 <= lo <= hi"),
        ([[1, 2, 1, 4, -3]], r"range \[1, 2, 1, 4, -3\] has K -3, expected at least 0"),
        ([[1, 2, 1, 4]], r"is not three whole numbers, expected \[lo, hi, K\] or \[lo, hi, ctx_lo, ctx_hi, K\]"),
    ],
)
def test_mistakes(ranges: Any, message: str) -> None:
    with pytest.raises(BenchError, match=rf"^schedule: .*{message}"):
        Schedule(engine(7), ranges=ranges)
