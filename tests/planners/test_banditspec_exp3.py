"""BanditSpec EXP3: chances by hand, losses divided by the chance of what was drawn, seeds."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.banditspec_exp3 import BanditSpecEXP3

from .driven import depths_played
from .support import batch, engine

RATES = {0: 1.0, 1: 10.0, 2: 20.0, 3: 5.0, 4: 15.0}


def constant(depth: int, t: int) -> float:
    return RATES[depth]


def test_chances_by_hand() -> None:
    """exp(-1) = 0.3679: 1 / 1.3679 and 0.3679 / 1.3679. Without an eta: sqrt(ln 2 / (2 * 4)) = 0.2944 at step 4."""
    planner = BanditSpecEXP3(engine(), depths=[1, 2], eta=1.0)
    assert planner.probabilities().tolist() == [0.5, 0.5]
    planner.losses[:] = [3.0, 4.0]
    assert planner.probabilities() == pytest.approx([0.731059, 0.268941], abs=1e-6)
    anytime = BanditSpecEXP3(engine(), depths=[1, 2])
    for t in range(4):
        anytime.plan(batch([0], t))
    anytime.losses[:] = [0.0, 1.0]
    assert anytime.probabilities()[0] == pytest.approx(1 / (1 + math.exp(-math.sqrt(math.log(2) / 8))))


def test_losses_by_plain_loops() -> None:
    """Loss 1 - rate / largest so far, over the chance at the time of the draw, which knew the step before the last."""
    planner = BanditSpecEXP3(engine(11), depths=[1, 2, 4], eta=0.3)
    played = depths_played(planner, constant, 40)
    losses, largest, chances = dict.fromkeys([1, 2, 4], 0.0), 0.0, []
    for t, depth in enumerate(played):
        if t >= 2:  # the plan of step t knows the outcome of the round that step t - 1 ended
            before = played[t - 2]
            largest = max(largest, RATES[before])
            losses[before] += (1.0 - RATES[before] / largest) / chances[t - 2]
        weights = {d: math.exp(-0.3 * loss) for d, loss in losses.items()}
        chances.append(weights[depth] / sum(weights.values()))
    before = played[-2]
    losses[before] += (1.0 - RATES[before] / largest) / chances[-2]
    assert planner.losses.tolist() == pytest.approx(list(losses.values()))


def test_the_best_depth_is_drawn_most() -> None:
    played = depths_played(BanditSpecEXP3(engine(11)), constant, 2000)
    assert Counter(played[1000:]).most_common(1)[0][0] == 2
    assert set(played) == {1, 2, 3, 4}


def test_the_seed_decides() -> None:
    def drawn(seed: int) -> list[int]:
        return depths_played(BanditSpecEXP3(replace(engine(11), seed=seed)), constant, 30)

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_one_depth_for_the_batch_and_everything_verified() -> None:
    assert BanditSpecEXP3(engine(1)).plan(batch([1, 0, 1])) == Plan(1, 5)
    assert np.isclose(BanditSpecEXP3(engine(11)).probabilities().sum(), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": 0.0}, "banditspec-exp3: eta is 0.0, expected above 0"),
        ({"depths": [0.5]}, "banditspec-exp3: depths is [0.5], expected a list of whole numbers"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        BanditSpecEXP3(engine(), **options)
    assert str(error.value) == message


def test_conformance() -> None:
    assert check_planner("banditspec-exp3") == []
