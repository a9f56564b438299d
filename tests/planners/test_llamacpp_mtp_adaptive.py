"""llama.cpp's adaptive MTP depth: both counters by hand, with the vectors of the ports it was read from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.llamacpp_mtp_adaptive import LlamaCppMtpAdaptive

from .drive import drive, switches
from .support import engine


class One:
    """One request's depth, moved by (drafted, accepted) without a batch around it."""

    def __init__(self, **options: Any) -> None:
        self.planner = LlamaCppMtpAdaptive(engine(15), **options)
        self.rows, _ = self.planner._requests.read(np.array([0]))

    def take(self, drafted: int, accepted: int, times: int = 1) -> int:
        for _ in range(times):
            self.planner.move(self.rows, np.array([drafted]), np.array([accepted]))
        return self.depth

    @property
    def depth(self) -> int:
        return int(self.rows["depth"][0])


@pytest.mark.parametrize("options", [{}, {"form": "bucket"}, {"climb": [1], "drop_floor": 1, "drop_per_depth": 0}])
def test_it_is_sound(options: dict[str, Any]) -> None:
    assert check_planner("llamacpp-mtp-adaptive", options=options) == []


def test_consecutive_full_accepts_climb() -> None:
    """Floor 4: five in a row; a miss in between starts the row anew."""
    one = One(n_max=15, n_min_adaptive=4)
    assert one.take(4, 4, times=4) == 4
    assert one.take(4, 4) == 5
    assert one.take(5, 3) == 5
    one = One(n_max=15, n_min_adaptive=4)
    one.take(4, 4, times=4)
    one.take(4, 2)
    assert one.take(4, 4, times=4) == 4
    assert one.take(4, 4) == 5


def test_missed_tokens_drop() -> None:
    """At 8 the limit is 40: five total misses of 8. A full accept clears what was missed."""
    one = One(n_max=15, n_min_adaptive=4)
    while one.depth < 8:
        one.take(one.depth, one.depth)
    assert one.take(8, 0, times=4) == 8
    assert one.take(8, 0) == 7
    one.take(7, 0, times=4)  # 28 of 35
    one.take(7, 7)
    assert one.take(7, 0, times=4) == 7
    assert one.take(7, 0) == 6


def test_floor_and_ceiling() -> None:
    one = One(n_max=8, n_min_adaptive=3)
    assert one.take(3, 0, times=100) == 3
    for _ in range(200):
        one.take(one.depth, one.depth)
    assert one.depth == 8


def test_misses_at_the_floor_are_free() -> None:
    """Six full accepts lead from 3 to 4, whatever was missed at 3 before; 20 missed tokens lead back."""
    one = One()
    one.take(3, 0, times=50)
    assert one.take(3, 3, times=6) == 4
    assert one.take(4, 0, times=4) == 4
    assert one.take(4, 0) == 3


def test_a_step_without_proposal_changes_nothing() -> None:
    one = One(n_min_adaptive=1)
    one.take(1, 1)
    one.take(0, 0, times=9)
    assert one.take(1, 1) == 2


def test_bucket_climbs_and_drops() -> None:
    """At 3 it takes ten full accepts net; at 4 a total miss takes 3 of 20, so seven of them drop."""
    one = One(form="bucket")
    assert one.take(3, 3, times=9) == 3
    assert one.take(3, 2, times=50) == 3  # near misses are neutral
    assert one.take(3, 3) == 4
    assert one.take(4, 0, times=6) == 4
    assert one.take(4, 0) == 3


def test_bucket_halves_a_full_accept_that_was_short() -> None:
    """At 4, 1 of 1 accepted: (1 - 4 - 1) / 2 = -2, ten of them; 3 of 3: -2 / 2 = -1, twenty."""
    for drafted, number in ((1, 10), (3, 20)):
        one = One(form="bucket")
        one.take(3, 3, times=10)
        assert one.take(drafted, drafted, times=number - 1) == 4
        assert one.take(drafted, drafted) == 3


def test_bucket_is_held_at_its_ends() -> None:
    """However long it misses at the floor, 20 + 10 full accepts climb."""
    one = One(form="bucket")
    one.take(3, 0, times=99)
    assert one.take(3, 3, times=29) == 3
    assert one.take(3, 3) == 4


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=200), st.sampled_from(["counters", "bucket"]))
def test_the_depth_stays_between_floor_and_ceiling(outcomes: list[tuple[int, int]], form: Any) -> None:
    one = One(form=form, n_max=6, n_min_adaptive=2, climb=[1], drop_floor=2, drop_per_depth=1)
    for drafted, accepted in outcomes:
        before = one.depth
        assert 2 <= one.take(drafted, min(drafted, accepted)) <= 6
        assert abs(one.depth - before) <= 1


def test_every_request_has_its_own_depth() -> None:
    """Floor 1: two full accepts climb to 2, four more to 3; the other request stays."""
    planner = LlamaCppMtpAdaptive(engine(7), n_min_adaptive=1)
    depths = drive(planner, [2] * 9, lambda t: [7, 0])
    assert [d[0] for d in depths if isinstance(d, list)] == [1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert [d[1] for d in depths if isinstance(d, list)] == [1] * 9


def test_a_request_that_comes_back_starts_at_the_floor() -> None:
    planner = LlamaCppMtpAdaptive(engine(7), n_min_adaptive=1)
    assert drive(planner, [1] * 4 + [0, 1], lambda t: 7) == [[1], [1], [1], [2], [], [1]]


def test_a_drafter_of_middling_quality_does_not_flap() -> None:
    """2 of 3 accepted, always: it stays where it is, without a switch in 1000 steps."""
    assert switches(drive(LlamaCppMtpAdaptive(engine(7)), [1] * 1000, lambda t: 2)) == 0


def test_published_numbers_and_the_drafters_depth() -> None:
    planner = LlamaCppMtpAdaptive(engine(15))
    assert (planner.floor, planner.cap) == (3, 12)
    assert planner._climb[1:].tolist() == [2, 4, 6, 5, 4, 3, 2, 2, 2, 2, 2, 2]
    assert planner._drop[3:].tolist() == [20, 20, 25, 30, 35, 40, 45, 50, 55, 60]
    shallow = LlamaCppMtpAdaptive(engine(2))
    assert (shallow.floor, shallow.cap) == (2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_max": 0}, "n_max is 0, expected at least 1"),
        ({"n_min_adaptive": 0}, "n_min_adaptive is 0, expected at least 1"),
        ({"climb": []}, r"climb is \[\], expected a list of whole numbers from 1 up"),
        ({"climb": [2, 0]}, r"climb is \[2, 0\], expected a list of whole numbers from 1 up"),
        ({"drop_per_depth": -1}, "drop_per_depth is -1, expected at least 0"),
        ({"drop_floor": 0}, "drop_floor is 0, expected at least 1"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"^llamacpp-mtp-adaptive: {message}"):
        LlamaCppMtpAdaptive(engine(7), **options)
