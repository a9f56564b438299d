"""Nightjar: blocks and bins, the cost of taking up drafting again, one bandit per batch size."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.nightjar import BinSchedule, Context, Nightjar

from .driven import depths_played
from .support import TableModel, batch, engine


def test_blocks_double_and_bins_are_their_roots() -> None:
    """Blocks of 1, 2, 4, 8 steps; bins of 1, 2, 2, 3 steps, the last as long as is left."""
    schedule = BinSchedule(None)
    begins = [schedule.advance() for _ in range(15)]
    blocks = ([True], [True, False], [True, False] * 2, [True, False, False] * 2 + [True, False])
    assert begins == [begun for block in blocks for begun in block]
    assert (schedule.block, schedule.bin) == (4, 3)


def test_bins_of_a_given_length() -> None:
    schedule = BinSchedule(3)
    assert [schedule.advance() for _ in range(7)] == [True, True, False, True, False, False, True]


def context(goodput: list[float], plays: list[int]) -> Context:
    return Context(BinSchedule(None), np.array(plays), np.array(goodput))


def test_the_best_depth_by_hand() -> None:
    """Seconds per token 0.01, 0.00952, 0.00909: depth 5. From a stop at 10 ms: 0.01, 0.01952, 0.01109: stay stopped;
    at 2 ms: 0.01, 0.01152, 0.00949: depth 5 again."""
    known, plan_for = context([100.0, 105.0, 110.0], [1, 1, 1]), batch([0, 0])
    planner = Nightjar(engine(11), depths=[0, 1, 5], switch_ms=10.0)
    assert planner.best(known, plan_for) == 2
    planner._idle_steps = 3
    assert planner.best(known, plan_for) == 0
    planner.switch_ms = 2.0
    assert planner.best(known, plan_for) == 2
    assert planner.best(context([100.0, 105.0, 0.0], [1, 1, 0]), plan_for) == 0  # never played: not the best


@pytest.mark.parametrize(("kind", "best"), [("autoregressive", 0), ("parallel", 0), ("ngram", 1)])
def test_the_cost_of_a_switch_by_the_latency_model(kind: Any, best: int) -> None:
    """Two requests that slept for three steps: one pass over six rows, 0.5 s; nothing where no cache has to follow."""
    latency = TableModel(draft={2: 0.1, 6: 0.5, 100: 9.0})
    planner = Nightjar(engine(11, kind, latency), depths=[0, 4])
    known = context([10.0, 11.0], [1, 1])  # 0.1 and 0.0909 seconds per token; 0.5 / 4 more for depth 4
    planner._idle_steps = 3
    assert planner.best(known, batch([0, 0])) == best
    planner._idle_steps = 1  # 0.1 / 4: 0.116
    assert planner.best(known, batch([0, 0])) == best


def test_a_bin_holds_its_depth() -> None:
    """Bins begin at steps 0, 1, 3, 5, 7, 10, 13 (`test_blocks_double_and_bins_are_their_roots`)."""
    played = depths_played(Nightjar(engine(11)), lambda depth, t: 10.0, 15)
    bins = [played[a:b] for a, b in ((1, 3), (3, 5), (5, 7), (7, 10), (10, 13), (13, 15))]
    assert all(len(set(held)) == 1 for held in bins)
    assert len(set(played)) > 1


def test_it_finds_the_best_depth() -> None:
    rates = {0: 10.0, 1: 12.0, 2: 30.0, 3: 14.0, 4: 13.0, 5: 11.0}
    played = depths_played(Nightjar(engine(11)), lambda depth, t: rates[depth], 4000)
    assert Counter(played[2000:]).most_common(1)[0][0] == 2


def test_batch_sizes_learn_apart_or_in_groups() -> None:
    def sizes(group: Any) -> list[int]:
        planner = Nightjar(engine(11), group=group)
        for t, number in enumerate((1, 3, 4, 4, 5, 8)):
            planner.plan(batch([0] * number, t))
        return sorted(planner._contexts)

    assert sizes("exact") == [1, 3, 4, 5, 8]
    assert sizes("doubling") == [1, 4, 8]


def test_one_depth_for_the_batch_and_everything_verified() -> None:
    assert Nightjar(engine(11), depths=[3]).plan(batch([4, 0, 2])) == Plan(3, 9)
    assert Nightjar(engine(2)).depths == [0, 1, 2]


def test_the_seed_decides() -> None:
    def drawn(seed: int) -> list[int]:
        return depths_played(Nightjar(replace(engine(11), seed=seed)), lambda depth, t: 10.0 + depth, 60)

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"switch_ms": -1.0}, "nightjar: switch_ms is -1.0, expected at least 0"),
        ({"bin_steps": 0}, "nightjar: bin_steps is 0, expected at least 1"),
        ({"group": "x"}, "nightjar: group is 'x', expected one of exact, doubling"),
        ({"depths": 3}, "nightjar: depths is 3, expected a list of whole numbers"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        Nightjar(engine(), **options)
    assert str(error.value) == message


def test_conformance() -> None:
    assert check_planner("nightjar:group=doubling") == []
