"""ik_llama.cpp's autotune: three greedy searches on one reward, and what makes it start anew."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, EarlyExit, Plan
from lightspec_bench.planners.greedy_search import GreedySearch, TaskChange
from lightspec_bench.planners.ik_llama_autotune import IkLlamaAutotune

from .driven import depths_played
from .support import batch, engine


def search(epsilon: float = 0.0, user: float = 3.0) -> GreedySearch:
    return GreedySearch([1, 2, 3, 4], user, epsilon, np.random.default_rng(0))


def test_the_first_value_is_the_best_until_one_is_known() -> None:
    greedy = search()
    assert (greedy.best, greedy.choose()) == (0, 0)
    greedy.learn(2, 5.0)
    assert greedy.best == 2
    greedy.learn(1, 5.0)
    assert greedy.best == 1  # equal means: the first
    greedy.learn(1, 3.0)
    assert greedy.best == 2  # 4 against 5
    greedy.forget()
    assert greedy.best == 2  # now the user's
    greedy.learn(0, 0.1)
    assert greedy.best == 0  # any known one beats none known


def test_the_users_value_joins_the_grid() -> None:
    assert search(user=2.5).values == [1.0, 2.0, 2.5, 3.0, 4.0]
    assert search(user=3.0).values == [1.0, 2.0, 3.0, 4.0]
    moved = search(user=2.5)
    moved.forget()
    assert moved.values[moved.best] == 2.5


def test_epsilon_draws_any_value() -> None:
    greedy = search(epsilon=0.4)
    greedy.learn(3, 1.0)
    drawn = Counter(greedy.choose() for _ in range(4000))
    assert [drawn[arm] / 4000 for arm in range(4)] == pytest.approx([0.1, 0.1, 0.1, 0.7], abs=0.03)


def test_a_change_of_task_is_a_low_reward_many_times_in_a_row() -> None:
    """Average 100: 69 is below 70, then 0.95 100 + 0.05 69 = 98.45 has its bound at 68.9: 69 is not below it."""
    change = TaskChange(drop=0.3, patience=2, cooldown=3)
    assert [change.happened(r) for r in (100.0, 69.0, 69.0, 60.0, 60.0)] == [False, False, False, False, True]
    rests = [change.happened(r) for r in (100.0, 1.0, 1.0)]  # the average starts anew at 100, nothing counts for three
    assert rests == [False, False, False]
    assert [change.happened(r) for r in (1.0, 1.0)] == [False, True]


def test_plans_by_hand() -> None:
    """Never exploring: n_max 1, p_min 0 and n_min 0, the first of each, are the only ones it ever sees."""
    planner = IkLlamaAutotune(engine(11), epsilon=0.0)
    first = Plan(1, 4, early_exit=EarlyExit("confidence", 0.0, keep_last=True))
    assert planner.plan(batch([1, 0, 0])) == first
    assert depths_played(planner, lambda depth, t: 10.0, 20) == [1] * 20
    assert planner.best() == {"n_max": 1.0, "p_min": 0.0, "n_min": 0.0}


def test_after_a_change_of_task_the_users_values_are_tried() -> None:
    """100 tokens per second, then 10: after 30 of those all is forgotten."""
    planner = IkLlamaAutotune(engine(11), epsilon=0.0, n_max=7, p_min=0.5, n_min=2)
    played = depths_played(planner, lambda depth, t: 100.0 if t <= 20 else 10.0, 52)
    assert played == [1] * 51 + [7]
    assert planner.plan(batch([0], 52)) == Plan(7, 1, early_exit=EarlyExit("confidence", 0.5, True, drop_below=2))


def test_a_short_n_max_cuts_n_min() -> None:
    planner = IkLlamaAutotune(engine(2), epsilon=0.0, n_min=5)
    for search_ in planner._search.values():
        search_.forget()
    assert planner.plan(batch([0])) == Plan(2, 1, early_exit=EarlyExit("confidence", 0.75, True, drop_below=2))


def test_mtp_tunes_the_depth_alone_and_finds_the_best() -> None:
    planner = IkLlamaAutotune(engine(4), coordinates="mtp")
    assert planner.plan(batch([3])) == Plan(1, 4)
    played = depths_played(planner, lambda depth, t: 10.0 - abs(depth - 3), 400)
    assert planner.best() == {"n_max": 3.0}
    assert Counter(played[200:]).most_common(1)[0][0] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 1.5}, "ik-llama-autotune: epsilon is 1.5, expected 0 to 1"),
        ({"n_max": 0}, "ik-llama-autotune: n_max is 0, expected at least 1"),
        ({"p_min": 0.99}, "ik-llama-autotune: p_min is 0.99, expected 0 to 0.95"),
        ({"n_min": 7}, "ik-llama-autotune: n_min is 7, expected 0 to 6"),
        ({"coordinates": "x"}, "ik-llama-autotune: coordinates is 'x', expected one of draft, mtp"),
        ({"drop": -0.1}, "ik-llama-autotune: drop is -0.1, expected 0 to 1"),
        ({"patience": 0}, "ik-llama-autotune: patience is 0, expected at least 1"),
        ({"cooldown": -1}, "ik-llama-autotune: cooldown is -1, expected at least 0"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        IkLlamaAutotune(engine(), **options)
    assert str(error.value) == message


def test_conformance() -> None:
    assert check_planner("ik-llama-autotune") == []
