"""AdaServe for chains: needs, the two phases, and the depth that the load allows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import Batch, BenchError
from lightspec_bench.planners.adaserve import AdaServe, first_phase, knee

from .support import TableModel, batch, engine

SURVIVAL = np.array([[0.9, 0.8, 0.7], [0.5, 0.2, 0.1], [0.9, 0.9, 0.9]])
PENDING = np.array([3, 3, 3])


@pytest.mark.parametrize(
    ("spare", "n_max", "taken"),
    [
        (9, 3, [3, 1, 0]),  # 1, 1.9, 2.7 are below 3; 1 is below 1.2 and 1.5 is not; 1 is not below 0.5
        (3, 3, [3, 0, 0]),
        (2, 3, [2, 0, 0]),
        (9, 2, [2, 1, 0]),
        (0, 3, [0, 0, 0]),
    ],
)
def test_needs_are_served_in_falling_order(spare: int, n_max: int, taken: list[int]) -> None:
    needed = np.array([3.0, 1.2, 0.5])
    assert first_phase(needed, SURVIVAL, PENDING, spare, n_max).tolist() == taken


def test_a_need_is_at_most_what_the_draft_could_give() -> None:
    """A of 99 with 2 pending tokens takes both, and a newcomer has nothing to take."""
    assert first_phase(np.array([99.0, 99.0]), SURVIVAL[:2], np.array([2, 0]), 9, 3).tolist() == [2, 0]


def planner_of(**options: Any) -> AdaServe:
    """Steps cost 1 s, whatever is in them."""
    return AdaServe(engine(3, "ngram", TableModel({1: 1.0}), max_num_seqs=8), **{"budget": 5, **options})


CONFIDENCE = [[0.5, 0.5, 0.5], [0.9, 0.9, 0.9], [0.8, 0.8, 0.8]]


def counts(planner: AdaServe, shown: Batch) -> list[int]:
    plan = planner.plan(shown)
    assert plan.num_verify_tokens is not None
    return plan.num_verify_tokens.tolist()


def test_without_need_the_likeliest_tokens_are_verified() -> None:
    """5 rows for 3 requests: .9 and .81."""
    assert counts(planner_of(tpot_ms=1e6), batch([3, 3, 3], 0, CONFIDENCE)) == [0, 2, 0]


def test_a_late_request_comes_first() -> None:
    """At 1 s a token and a step each needs 1, its own row. Two seconds on, without a token, request 0 needs 3."""
    planner = planner_of(tpot_ms=1000.0)
    shown = batch([3, 3, 3], 0, CONFIDENCE, [5, 5, 5])
    assert counts(planner, shown) == [0, 2, 0]
    late = replace(shown, now_s=2.0, num_output_tokens=np.array([5, 7, 7]))
    assert planner.needed_tokens(late, 5).tolist() == [3.0, 1.0, 1.0]
    assert counts(planner, late) == [2, 0, 0]


def test_a_request_that_left_starts_anew() -> None:
    planner = planner_of(tpot_ms=1000.0)
    both = batch([3, 3], 0, CONFIDENCE[:2], [5, 5])
    planner.plan(both)
    alone = Batch(1, 1.0, both.request_id[1:], both.num_draft_tokens[1:], both.num_output_tokens[1:],
                  both.num_context_tokens[1:], np.array(CONFIDENCE[1:2], dtype=np.float32), None)  # fmt: skip
    assert planner.needed_tokens(alone, 2).tolist() == [2.0]
    assert planner.needed_tokens(replace(both, now_s=5.0), 2).tolist() == [1.0, 6.0]


def test_a_budget_below_the_batch_verifies_nothing() -> None:
    assert counts(planner_of(budget=2), batch([3, 3, 3], 0, CONFIDENCE)) == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "number", "depth"),
    [
        ({"draft_budget": 12}, 3, 3),
        ({"draft_budget": 12, "c1": 1}, 3, 2),
        ({"draft_budget": 12}, 8, 1),
        ({"draft_budget": 12, "d_min": 0}, 8, 0),
        ({"draft_budget": 100, "d_max": 2}, 3, 2),
    ],
)
def test_depth_falls_with_the_load(options: dict[str, Any], number: int, depth: int) -> None:
    assert planner_of(**options).plan(batch([0] * number, 0, [[np.nan] * 3] * number)).num_draft_tokens == depth


def test_a_budget_from_the_latency_model() -> None:
    config = engine(3, latency=TableModel({1: 1.0, 4: 1.2, 8: 2.0}), max_num_seqs=2)
    assert knee(config, 1.5) == 4
    assert knee(config, 1.0) == 1
    assert knee(config, 9.0) == 8
    assert AdaServe(config).budget == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tpot_ms": 0.0}, "tpot_ms is 0.0, expected above 0"),
        ({"slack": 0.5}, "slack is 0.5, expected at least 1"),
        ({"budget": 0}, "budget is 0, expected at least 1"),
        ({"draft_budget": 0}, "draft_budget is 0, expected at least 1"),
        ({"n_max": 0}, "n_max is 0, expected at least 1"),
        ({"c1": -1}, "c1 is -1, expected at least 0"),
        ({"d_min": -1}, "d_min is -1, expected at least 0"),
        ({"d_min": 2, "d_max": 1}, r"d_max is 1, expected at least d_min \(2\)"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"adaserve: {message}"):
        planner_of(**options)


@pytest.mark.parametrize("options", ["", ":budget=10,n_max=2,tpot_ms=20"])
def test_it_is_a_sound_planner(options: str) -> None:
    assert check_planner(f"adaserve{options}") == []
