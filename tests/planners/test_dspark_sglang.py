"""SGLang's DSpark planner: vectors of its tests and of TensorRT-LLM's parity test, its tables and orders."""

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.additive_cost import AdditiveCost
from lightspec_bench.planners.dspark_sglang import DSparkSGLang

from .support import TableModel, batch, engine

# The certified table of TensorRT-LLM's test of parity with SGLang, in milliseconds.
CERTIFIED = AdditiveCost(
    25.244443,
    np.array([32, 64, 128, 256]),
    np.array([0.0, 2.177477, 11.462212, 19.342661]),
    np.array([64, 96, 128, 192, 384, 512, 768, 1536]),
    np.array([9.68, 11.08, 11.95, 13.95, 22.09, 23.85, 35.61, 105.64]),
)
CLIFF = {1: 1.0, 2: 1.0, 3: 1.0, 4: 2.0, 5: 1 / 0.45, 6: 1 / 0.44, 7: 1 / 0.43, 8: 1 / 0.42}


def planner_of(depth: int = 3, verify: dict[int, float] | None = None, **options: Any) -> DSparkSGLang:
    return DSparkSGLang(engine(depth, "ngram", TableModel(verify or {2: 1.0, 8: 2.0}), 8), **options)


def test_the_optimum_parks_on_a_breakpoint() -> None:
    """252 requests with pooled survival: 768 rows, where a row's price doubles."""
    planner = planner_of(5)
    planner.table = CERTIFIED
    survival = np.tile([0.771, 0.693, 0.502, 0.360, 0.315], 252)
    assert planner.budget(survival, 252) == 768 - 252


def test_free_rows_are_all_taken_except_hopeless_ones() -> None:
    planner = planner_of(4, cost="flat")
    assert planner.budget(np.array([0.9, 0.8, 0.7, 0.6]), 1) == 4
    assert planner.budget(np.array([0.9, 1e-9, 1e-12]), 1) == 1
    assert planner_of(cost="flat", survival_eps=0.0).budget(np.array([0.9, 1e-9, 1e-12]), 1) == 3


@pytest.mark.parametrize("seed", range(8))
def test_the_search_over_a_cliff_is_global(seed: int) -> None:
    """SGLang's own check: every budget tried one by one, on the table of its test."""
    survival = np.cumprod(np.random.default_rng(seed).uniform(0.45, 0.95, (1, 7)), axis=1).ravel()
    planner = planner_of(7, CLIFF, cost="floor")
    scores = [(1 + survival[:n].sum()) / CLIFF[min(1 + n, 8)] for n in range(8)]
    assert planner.budget(survival, 1) == int(np.argmax(scores))


def test_a_floor_table_prices_a_step_by_the_point_below() -> None:
    points = {2: 1.0, 8: 2.0}
    assert planner_of(verify=points, cost="floor").seconds(2).tolist() == [1, 1, 1, 1, 1, 1, 2]
    assert planner_of(verify=points).seconds(2) == pytest.approx([1 + i / 6 for i in range(7)])


def shown(confidence: list[list[float]], pending: list[int] | None = None):
    return batch(pending or [3] * len(confidence), 0, confidence)


def test_requests_without_history_count_as_sure() -> None:
    """First all 6 tokens, since nothing is known; then (2 + n best) / (1 + n / 6) with .1 and less: none."""
    planner = planner_of()
    doubtful = shown([[0.1] * 3] * 2)
    assert planner.plan(doubtful) == Plan(3, 8)
    assert planner.plan(doubtful) == Plan(3, 2)


def test_a_least_and_a_longest_verify_length() -> None:
    planner = planner_of(min_verify_len=2)
    doubtful = shown([[0.1] * 3, [np.nan] * 3], [3, 0])
    planner.plan(doubtful)
    assert planner.plan(doubtful) == Plan(3, 3)  # one draft token, for the one request that has any
    assert planner_of(max_verify_len=2).plan(shown([[0.9] * 3] * 2)) == Plan(3, 4)


def test_a_budget_may_fill_its_captured_size() -> None:
    """5 rows are the best by the table; the next captured size has 8."""
    survival = [[0.99, 0.9, 0.6], [0.9, 0.1, 0.1]]
    plain, filled = (
        DSparkSGLang(engine(3, "ngram", TableModel({2: 1.0, 4: 1.0, 8: 2.0}), 2), fill_tier=fill)
        for fill in (False, True)
    )
    for planner in (plain, filled):
        planner.table = AdditiveCost(0.0, np.array([1]), np.zeros(1), np.array([2, 5, 6]), np.array([1.0, 1.0, 9.0]))
        planner.plan(shown(survival))
    assert plain.plan(shown(survival)) == Plan(3, 5)
    assert filled.plan(shown(survival)) == Plan(3, 8)


def test_uncertainty_first_fills_the_least_certain_request() -> None:
    """Below the threshold first, then by falling uncertainty, whole runs: the opposite of what pays."""
    planner = planner_of(order="uncertainty")
    survival = np.array([[0.9, 0.9, 0.9], [0.3, 0.3, 0.3], [0.6, 0.6, 0.6]])
    pending, floor = np.array([3, 2, 3]), np.zeros(3, dtype=np.int64)
    taken = [planner.least_certain_first(survival, pending, floor, budget).tolist() for budget in (1, 4, 6, 99)]
    assert taken == [[0, 1, 0], [0, 2, 2], [1, 2, 3], [3, 2, 3]]


def test_uncertainty_first_spends_the_same_budget() -> None:
    both = shown([[0.9] * 3, [0.3] * 3])
    plans = {}
    for order in ("survival", "uncertainty"):
        planner = planner_of(order=order)
        planner.plan(both)
        plans[order] = planner.plan(both)
    assert plans["survival"] == Plan(3, 5)
    assert plans["uncertainty"].num_verify_tokens.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_verify_len": -1}, "max_verify_len is -1, expected at least 0"),
        ({"min_verify_len": 5}, r"min_verify_len is 5, expected 0 to 4 \(max_verify_len\)"),
        ({"survival_eps": -1.0}, "survival_eps is -1.0, expected at least 0"),
        ({"confidence_threshold": 1.5}, "confidence_threshold is 1.5, expected 0 to 1"),
        ({"profile_context_tokens": -1}, "profile_context_tokens is -1, expected at least 0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"dspark-sglang: {message}"):
        planner_of(**options)


@pytest.mark.parametrize("options", ["", ":cost=floor,fill_tier=true,min_verify_len=2", ":order=uncertainty,cost=flat"])
def test_it_is_a_sound_planner(options: str) -> None:
    assert check_planner(f"dspark-sglang{options}") == []
