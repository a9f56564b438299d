"""BanditSpec UCB: turns, bounds by hand, and that the released code's bonus explores nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.banditspec_ucb import BanditSpecUCB
from lightspec_bench.planners.rounds import Round

from .driven import depths_played
from .support import batch, engine

RATES = {0: 5.0, 1: 10.0, 2: 20.0, 3: 40.0, 4: 30.0}


def constant(depth: int, t: int) -> float:
    return RATES[depth]


def test_turns_then_the_highest_bound() -> None:
    """Seven turns. Plan 8 has seen 1, 2 twice, 3, 4 once: means 1/4, 1/2, 1, 3/4 + sqrt(6 ln 8 / plays) favours 3.

    Plan 9 has seen 3 a second time: 1 + sqrt(6 ln 9 / 2) = 3.57 against 4's 3/4 + sqrt(6 ln 9) = 4.38.
    """
    planner = BanditSpecUCB(engine(11))
    assert depths_played(planner, constant, 9) == [1, 2, 3, 4, 1, 2, 3, 3, 4]


def test_bounds_by_hand() -> None:
    planner = BanditSpecUCB(engine(11))
    depths_played(planner, constant, 8)
    bonus = [math.sqrt(6 * math.log(8) / plays) for plays in (2, 2, 2, 1)]
    assert planner.scores() == pytest.approx([0.25 + bonus[0], 0.5 + bonus[1], 1.0 + bonus[2], 0.75 + bonus[3]])
    shared = BanditSpecUCB(engine(11), bonus="shared")
    depths_played(shared, constant, 8)
    assert shared.scores() == pytest.approx([m + math.sqrt(6 * math.log(8) / 7) for m in (0.25, 0.5, 1.0, 0.75)])


def unlucky(depth: int, t: int) -> float:
    """Depth 3 is the best, but not in the turns."""
    return 1.0 if depth == 3 and t <= 8 else RATES[depth]


def test_the_shared_bonus_never_explores() -> None:
    """It stays with the best of the turns for ever, while a bonus per arm finds the better depth."""
    shared = depths_played(BanditSpecUCB(engine(11), bonus="shared"), unlucky, 400)
    assert shared == [1, 2, 3, 4, 1, 2, 3] + [4] * 393
    counted = depths_played(BanditSpecUCB(engine(11), exploration=1.0), unlucky, 400)
    assert all(counted[7:].count(depth) > 4 for depth in (1, 2, 3, 4))
    assert max((1, 2, 3, 4), key=counted[200:].count) == 3


def test_under_lag_an_arm_without_outcome_comes_first() -> None:
    """Under lag 3 the plan after the five turns has seen depth 1 alone, the next one depth 2 as well."""
    planner = BanditSpecUCB(engine(11), depths=[1, 2, 3])
    assert depths_played(planner, constant, 7, lag_steps=3) == [1, 2, 3, 1, 2, 2, 3]


def test_accepted_tokens_as_the_reward() -> None:
    """2 and 8 accepted of 4 requests are 0.5 and 2 per request, of 4 at most: 1/8 and 1/2."""
    planner = BanditSpecUCB(engine(11), depths=[2, 4], reward="accepted", exploration=0.0)
    planner.learn(0, Round(0, 4, 8, 2, 6, 1.0))
    planner.learn(1, Round(1, 4, 16, 8, 12, 100.0))
    planner._time = 4
    assert planner.scores().tolist() == [0.125, 0.5]
    assert planner.choose() == 1


def test_one_depth_for_the_batch_and_everything_verified() -> None:
    assert BanditSpecUCB(engine(11)).plan(batch([4, 0, 2])) == Plan(1, 9)
    assert BanditSpecUCB(engine(2)).depths == [1, 2]
    assert BanditSpecUCB(engine(9), depths=[6, 0, 12]).depths == [0, 6, 9]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exploration": -1.0}, "banditspec-ucb: exploration is -1.0, expected at least 0"),
        ({"bonus": "none"}, "banditspec-ucb: bonus is 'none', expected one of per-arm, shared"),
        ({"reward": "tps"}, "banditspec-ucb: reward is 'tps', expected one of tokens-per-second, accepted"),
        ({"depths": []}, "banditspec-ucb: depths is [], expected a list of whole numbers"),
        ({"depths": [1, -2]}, "banditspec-ucb: depths is [1, -2], expected at least 0 each"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        BanditSpecUCB(engine(), **options)
    assert str(error.value) == message


def test_conformance() -> None:
    assert check_planner("banditspec-ucb") == []
