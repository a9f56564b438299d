"""What several planners share: depths for a batch, the table of requests, batch-size look-ups, checks of options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.batch_depth import DraftedBy, mean_accepted, verify_all
from lightspec_bench.planners.batch_sizes import largest_at_most, nearest, smallest_at_least
from lightspec_bench.planners.option_checks import by_batch_size, depths, expect
from lightspec_bench.planners.request_table import RequestTable

from .support import batch, step


def test_verify_all() -> None:
    assert verify_all(batch([5, 0, 2]), 4) == Plan(4, num_target_tokens=10)


@pytest.mark.parametrize(
    ("verified", "accepted", "mean"), [([3, 3, 0], [1, 2, 0], 1.5), ([0, 0], [0, 0], None), ([], [], None)]
)
def test_mean_accepted_leaves_out_who_verified_nothing(
    verified: list[int], accepted: list[int], mean: float | None
) -> None:
    assert mean_accepted(step(Plan(3, 9), verified, verified, accepted)) == mean


def test_who_drafted_what_a_step_verifies() -> None:
    drafted = DraftedBy()
    assert drafted.follow(step(Plan(3, 2), [0, 0], [0, 0], [0, 0])) is None
    assert drafted.follow(step(Plan(np.array([1, 5, 2]), 3), [3, 3, 0], [3, 3, 0], [0, 0, 0])) == (2, 3)
    assert drafted.follow(step(Plan(0, 0), [], [], [])) == (3, 5)
    assert drafted.follow(step(Plan(1, 1), [0], [0], [0])) == (0, 0)


def test_request_table_remembers_forgets_and_starts_newcomers() -> None:
    table = RequestTable(k=3, history=np.array([1.0, 2.0]))
    rows, known = table.read(np.array([7, 5]))
    assert known.tolist() == [False, False]
    assert rows["history"].tolist() == [[1.0, 2.0], [1.0, 2.0]]
    rows["k"] += [1, 2]
    rows["history"][0] = 9.0
    table.write(np.array([7, 5]), rows)
    rows, known = table.read(np.array([5, 6, 7]))
    assert (rows["k"].tolist(), known.tolist()) == ([5, 3, 4], [True, False, True])
    assert rows["history"].tolist() == [[1.0, 2.0], [1.0, 2.0], [9.0, 9.0]]
    assert table.gone(np.array([7]))["k"].tolist() == [5]
    table.write(np.array([7]), {"k": np.array([4]), "history": np.zeros((1, 2))})
    assert table.read(np.array([5]))[0]["k"].tolist() == [3]


def test_request_table_gives_copies() -> None:
    table = RequestTable(k=3)
    table.write(np.array([1]), {"k": np.array([8])})
    table.read(np.array([1]))[0]["k"][0] = 0
    assert table.read(np.array([1]))[0]["k"].tolist() == [8]


@given(st.lists(st.lists(st.integers(0, 20), unique=True, max_size=9), max_size=8))
def test_request_table_is_a_dictionary_of_the_last_batch(batches: list[list[int]]) -> None:
    table, plain = RequestTable(count=0), dict[int, int]()
    for ids in batches:
        request_id = np.array(ids, dtype=np.int64)
        rows, known = table.read(request_id)
        assert known.tolist() == [i in plain for i in ids]
        assert rows["count"].tolist() == [plain.get(i, 0) for i in ids]
        assert table.gone(request_id)["count"].tolist() == [plain[i] for i in sorted(plain) if i not in ids]
        rows["count"] += 1
        table.write(request_id, rows)
        plain = {i: plain.get(i, 0) + 1 for i in ids}


@pytest.mark.parametrize(
    ("size", "below", "above", "near"),
    [(1, 2, 2, 2), (2, 2, 2, 2), (3, 2, 4, 2), (5, 4, 8, 4), (6, 4, 8, 4), (7, 4, 8, 8), (9, 8, 9, 8)],
)
def test_batch_size_look_ups(size: int, below: int, above: int, near: int) -> None:
    """Sizes 2, 4, 8; outside them the smallest, the size itself, the nearest."""
    sizes = [2, 4, 8]
    assert (largest_at_most(sizes, size), smallest_at_least(sizes, size), nearest(sizes, size)) == (below, above, near)


def test_no_captured_sizes() -> None:
    assert smallest_at_least([], 5) == 5


def test_mappings_by_batch_size() -> None:
    assert by_batch_size("p", "o", {"8": "b", 1: "a"}) == [(1, "a"), (8, "b")]


def test_depths_are_sorted_and_cut() -> None:
    assert depths("p", "o", [7, 1, 5, 9], 0, 6) == [1, 5, 6]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: by_batch_size("p", "o", {}), "p: o is {}, expected at least one batch size"),
        (lambda: by_batch_size("p", "o", {True: 1}), "p: o batch size is True, expected a whole number"),
        (lambda: by_batch_size("p", "o", {1.5: 1}), "p: o batch size is 1.5, expected a whole number"),
        (lambda: by_batch_size("p", "o", {"0": 1}), "p: o batch size is 0, expected at least 1"),
        (lambda: by_batch_size("p", "o", {"1": 1, 1: 1}), "p: o batch size is 1, expected each size once"),
        (lambda: depths("p", "o", "12", 0, 6), "p: o is 12, expected a list of whole numbers"),
        (lambda: depths("p", "o", [1, True], 0, 6), r"p: o is \[1, True\], expected a list of whole numbers"),
        (lambda: depths("p", "o", [1, 0], 1, 6), r"p: o is \[1, 0\], expected at least 1 each"),
        (lambda: expect(False, "p", "o", 3, "4"), "p: o is 3, expected 4"),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(BenchError, match=f"^{message}"):
        call()
