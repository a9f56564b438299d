"""SGLang AutoSpec: steps that go up and down by hand, and which batch size's numbers hold."""

from __future__ import annotations

from typing import Any

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.sglang_autospec import SGLangAutoSpec

from .drive import drive, switches
from .support import batch, engine


@pytest.mark.parametrize("options", [{}, {"version": "v1"}])
def test_it_is_sound(options: dict[str, Any]) -> None:
    assert check_planner("sglang-autospec", options=options) == []


def test_up_while_the_average_is_high() -> None:
    """One request, 5 steps: 5 accepted is a rate of 6 / 6, the average 0.3 * 1 + 0.7 * 0.5 = 0.65, at least 0.55."""
    planner = SGLangAutoSpec(engine(7))
    assert drive(planner, [1] * 6, lambda t: 7) == [5, 5, 6, 6, 6, 6]
    assert planner.tuned[1].ema == pytest.approx(1.0 - 0.5 * 0.7**4)  # step 2 verified what was planned at 5


def test_down_while_the_average_is_low() -> None:
    """Nothing accepted: 0.3 / 6 + 0.35 = 0.4 is below 0.5; from 4 steps 0.3 / 5 + 0.28 = 0.34; 3 is the least."""
    planner = SGLangAutoSpec(engine(7))
    assert drive(planner, [1] * 7, lambda t: 0) == [5, 5, 4, 4, 3, 3, 3]


@pytest.mark.parametrize(("accepted", "steps"), [(1, 4), (2, 5), (3, 6)])
def test_v1_takes_each_steps_own_rate(accepted: int, steps: int) -> None:
    """At 5 steps: 2 / 6 is below 0.5, 3 / 6 between 0.5 and 0.55, 4 / 6 above."""
    assert drive(SGLangAutoSpec(engine(7), "v1"), [1] * 3, lambda t: accepted) == [5, 5, steps]


def test_v1_flaps_where_v2_stays() -> None:
    """One step in ten accepts nothing: alone it is far below 0.5, the average over it stays above 0.55."""

    def mostly_right(t: int) -> int:
        return 0 if t % 10 == 9 else 6

    v1 = drive(SGLangAutoSpec(engine(7), "v1"), [1] * 1000, mostly_right)
    v2 = drive(SGLangAutoSpec(engine(7)), [1] * 1000, mostly_right)
    assert switches(v1) >= 190
    assert switches(v2) == 1  # up, at the start


def test_bigger_batches_have_to_be_surer() -> None:
    """8 requests with 3 of 4 accepted: 4 / 5 = 0.8 goes no higher than the 4 steps allowed; 16 with 3 of 3 accepted
    pass 0.95; 16 with 2 of 3 (0.75) stay."""
    assert drive(SGLangAutoSpec(engine(7), "v1"), [16] * 3, lambda t: 3) == [3, 3, 4]
    assert drive(SGLangAutoSpec(engine(7), "v1"), [16] * 3, lambda t: 2) == [3, 3, 3]
    assert drive(SGLangAutoSpec(engine(7), "v1"), [8] * 3, lambda t: 4) == [4, 4, 4]


def test_the_nearest_size_counts_and_the_smaller_of_two_as_near() -> None:
    """3 is as near to 2 as to 4, 6 as near to 4 as to 8; 96 as near to 64 as to 128."""
    planner = SGLangAutoSpec(engine(7))
    sizes = (1, 3, 6, 7, 12, 13, 96, 97, 1000)
    assert [planner.plan(batch([0] * n)).num_draft_tokens for n in sizes] == [5, 5, 5, 4, 4, 3, 3, 1, 1]


def test_sizes_learn_for_themselves() -> None:
    planner = SGLangAutoSpec(engine(7))
    drive(planner, [1] * 4, lambda t: 0)
    assert {size: planner.tuned[size].steps for size in (1, 2, 4)} == {1: 3, 2: 5, 4: 5}


def test_steps_are_cut_to_the_drafter() -> None:
    planner = SGLangAutoSpec(engine(2))
    assert [planner.tuned[size].candidates for size in (1, 8, 64)] == [[2], [2], [1, 2]]
    assert [planner.tuned[size].steps for size in (1, 8, 64, 128)] == [2, 2, 2, 1]


def test_own_tables() -> None:
    """A size the other tables lack takes their nearest entry; a start that is not allowed becomes the largest."""
    planner = SGLangAutoSpec(engine(7), steps={1: [1, 4], 64: [2]}, initial={1: 3}, thresholds={32: [0.9, 0.1]})
    assert (planner.tuned[1].steps, planner.tuned[64].steps) == (4, 2)
    assert (planner.tuned[1].increase_at, planner.tuned[64].decrease_below) == (0.9, 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ema_weight": 1.5}, "ema_weight is 1.5, expected above 0, at most 1"),
        ({"ema_start": -0.1}, "ema_start is -0.1, expected 0 to 1"),
        ({"steps": {1: 3}}, r"steps\[1\] is 3, expected a list of whole numbers"),
        ({"initial": {1: "x"}}, r"initial\[1\] is x, expected a whole number from 0 up"),
        ({"thresholds": {8: [0.2, 0.5]}}, r"thresholds\[8\] is \[0.2, 0.5\], expected \[increase, decrease\]"),
        ({"thresholds": {8: 0.5}}, r"thresholds\[8\] is 0.5, expected \[increase, decrease\]"),
        ({"thresholds": {}}, "thresholds is {}, expected at least one batch size"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=rf"^sglang-autospec: .*{message}"):
        SGLangAutoSpec(engine(7), **options)
