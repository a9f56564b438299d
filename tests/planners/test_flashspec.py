"""FlashSpec's UCB1 and Thompson sampling over draft depths."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.flashspec_thompson import FlashSpecThompson
from lightspec_bench.planners.flashspec_ucb1 import FlashSpecUCB1
from lightspec_bench.planners.rounds import Round

from .driven import depths_played
from .support import batch, engine

RATES = {0: 5.0, 1: 10.0, 2: 20.0, 3: 40.0}


def constant(depth: int, t: int) -> float:
    return RATES[depth]


def test_ucb1_by_hand() -> None:
    """Each depth once; 3 again while its outcome is not seen. Then means 1/4, 1/2, 1 plus sqrt(2 ln t / n):

    t = 3, n = 1, 1, 1: depth 3. t = 4, n = 1, 1, 2: 1.92, 2.17, 2.18: depth 3. t = 5, n = 1, 1, 3: 2.04, 2.29, 2.04: 2.
    """
    assert depths_played(FlashSpecUCB1(engine(3)), constant, 7) == [1, 2, 3, 3, 3, 3, 2]


def test_ucb1_bounds_with_another_c() -> None:
    planner = FlashSpecUCB1(engine(3), c=0.5)
    depths_played(planner, constant, 5)
    bonus = [0.5 * math.sqrt(2 * math.log(4) / n) for n in (1, 1, 2)]
    assert planner.scores() == pytest.approx([0.25 + bonus[0], 0.5 + bonus[1], 1.0 + bonus[2]])


def test_ucb1_forgets_rewards_beyond_its_window_but_counts_all_plays() -> None:
    planner = FlashSpecUCB1(engine(3), depths=[1, 2], window=2)
    for rate in (8.0, 2.0, 4.0):
        planner.learn(0, Round(0, 1, 1, 0, 1, 1.0 / rate))
    planner.learn(1, Round(1, 1, 1, 0, 1, 1.0))
    bonus = [math.sqrt(2 * math.log(4) / n) for n in (3, 1)]
    assert planner.scores() == pytest.approx([3.0 / 8.0 + bonus[0], 1.0 / 8.0 + bonus[1]])


def test_ucb1_by_acceptance() -> None:
    planner = FlashSpecUCB1(engine(3), depths=[0, 2], reward="acceptance")
    planner.learn(1, Round(1, 2, 4, 3, 5, 1.0))
    planner.learn(0, Round(0, 2, 0, 0, 2, 1.0))
    assert planner.scores() == pytest.approx([math.sqrt(2 * math.log(2)), 0.75 + math.sqrt(2 * math.log(2))])


def test_thompson_plays_every_depth_twice_first() -> None:
    """Then 3 while one outcome of it is not seen, and with no variance the best mean for ever."""
    best_is_two = {0: 5.0, 1: 20.0, 2: 40.0, 3: 10.0}
    played = depths_played(FlashSpecThompson(engine(3)), lambda depth, t: best_is_two[depth], 12)
    assert played == [1, 2, 3, 1, 2, 3, 3, 2, 2, 2, 2, 2]


def test_thompson_draws_wide_where_rewards_vary() -> None:
    """N(10, 8 / 2) against N(9, 0): mostly the first, the second in 31 of 100 (a standard deviation of 2 below)."""
    planner = FlashSpecThompson(engine(3), depths=[1, 2])
    for rate in (8.0, 12.0):
        planner.learn(0, Round(0, 1, 1, 0, 1, 1.0 / rate))
        planner.learn(1, Round(1, 1, 1, 0, 1, 1.0 / 9.0))
    planner._played = 4
    share = sum(planner.choose() for _ in range(2000)) / 2000
    assert share == pytest.approx(0.5 * math.erfc(0.5 / math.sqrt(2)), abs=0.04)


def test_thompson_by_acceptance_is_blind_to_cost() -> None:
    planner = FlashSpecThompson(engine(3), depths=[1, 2], posterior="beta")
    planner.learn(0, Round(0, 1, 1000, 990, 991, 1000.0))
    planner.learn(1, Round(1, 1, 1000, 500, 501, 1.0))
    assert [planner.choose() for _ in range(20)] == [0] * 20


def test_one_depth_for_the_batch_and_everything_verified() -> None:
    assert FlashSpecUCB1(engine(11)).plan(batch([4, 0, 2])) == Plan(1, 9)
    assert FlashSpecThompson(engine(11)).plan(batch([4, 0, 2])) == Plan(1, 9)
    assert FlashSpecUCB1(engine(4)).depths == FlashSpecThompson(engine(4)).depths == [1, 2, 3, 4]


def test_the_seed_decides() -> None:
    def drawn(seed: int) -> list[int]:
        planner = FlashSpecThompson(replace(engine(3), seed=seed), posterior="beta")
        return depths_played(planner, constant, 30)

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (FlashSpecUCB1, {"c": 0.0}, "flashspec-ucb1: c is 0.0, expected above 0"),
        (FlashSpecUCB1, {"window": 0}, "flashspec-ucb1: window is 0, expected at least 1"),
        (
            FlashSpecUCB1,
            {"reward": "x"},
            "flashspec-ucb1: reward is 'x', expected one of tokens-per-second, acceptance",
        ),
        (FlashSpecUCB1, {"depths": ["a"]}, "flashspec-ucb1: depths is ['a'], expected a list of whole numbers"),
        (FlashSpecThompson, {"window": 1}, "flashspec-thompson: window is 1, expected at least 2"),
        (FlashSpecThompson, {"posterior": "x"}, "flashspec-thompson: posterior is 'x', expected one of gaussian, beta"),
        (FlashSpecThompson, {"depths": [-1]}, "flashspec-thompson: depths is [-1], expected at least 0 each"),
    ],
)
def test_errors(cls: type[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        cls(engine(), **options)
    assert str(error.value) == message


@pytest.mark.parametrize("spec", ["flashspec-ucb1", "flashspec-thompson"])
def test_conformance(spec: str) -> None:
    assert check_planner(spec) == []
