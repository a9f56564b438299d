"""TensorRT-LLM's DSpark planner: its parity vector, its granted tokens, and the gain that trimming must promise."""

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.additive_cost import AdditiveCost
from lightspec_bench.planners.dspark_tensorrt_llm import DSparkTensorRTLLM

from .support import TableModel, batch, engine
from .test_dspark_sglang import CERTIFIED


def planner_of(table: AdditiveCost, depth: int = 2, **options: Any) -> DSparkTensorRTLLM:
    planner = DSparkTensorRTLLM(engine(depth, latency=TableModel(), max_num_seqs=64), **options)
    planner.table = table
    return planner


def by_rows(points: dict[int, float]) -> AdditiveCost:
    return AdditiveCost(0.0, np.array([1]), np.zeros(1), np.array(list(points)), np.array(list(points.values())))


def test_the_optimum_parks_on_a_breakpoint() -> None:
    """252 requests, one token granted to each: 264 more, so 768 rows, the same as SGLang's."""
    survival = np.tile([0.771, 0.693, 0.502, 0.360, 0.315], (252, 1))
    assert planner_of(CERTIFIED, 5).num_verify_tokens(survival, np.full(252, 5)) == 252 + 264


RISING = by_rows({4: 1.0, 6: 1.2})
HALVES = np.array([[0.5, 0.25]] * 2)


@pytest.mark.parametrize(("gain", "tokens"), [(0.0, 2), (0.01, 2), (0.028, 2), (0.029, 4), (0.05, 4)])
def test_trimming_must_promise_a_gain(gain: float, tokens: int) -> None:
    """Both granted tokens alone, 3 / 1, are 2.86 % better than everything, 3.5 / 1.2."""
    assert planner_of(RISING, minimum_predicted_gain=gain).num_verify_tokens(HALVES, np.array([2, 2])) == tokens


def test_a_flat_cost_never_trims() -> None:
    for survival in (HALVES, HALVES * 1e-9):
        assert planner_of(by_rows({1: 1.0})).num_verify_tokens(survival, np.array([2, 2])) == 4


def test_granted_tokens_are_verified_however_hopeless() -> None:
    steep = by_rows({2: 1.0, 4: 9.0, 6: 99.0})
    assert planner_of(steep).num_verify_tokens(HALVES * 1e-9, np.array([2, 2])) == 2
    assert planner_of(steep).num_verify_tokens(HALVES * 1e-9, np.array([2, 0])) == 1
    assert planner_of(steep, min_verify_len=9).num_verify_tokens(HALVES * 1e-9, np.array([2, 2])) == 4


@pytest.mark.parametrize("seed", range(8))
def test_the_search_on_a_staircase_is_global(seed: int) -> None:
    """TensorRT-LLM's own check and table; the guard is off."""
    points = {0: 4.0, 64: 4.05, 128: 6.5, 192: 6.55, 256: 9.0, 320: 9.05}
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 40))
    survival = np.cumprod(rng.uniform(0.55, 0.99, (number, 7)), axis=1)
    deeper = np.sort(survival[:, 1:].ravel())[::-1]
    base = number + survival[:, 0].sum()
    cost = [np.interp(2 * number + n, list(points), list(points.values())) for n in range(len(deeper) + 1)]
    scores = [(base + deeper[:n].sum()) / cost[n] for n in range(len(deeper) + 1)]
    planner = planner_of(by_rows(points), 7, minimum_predicted_gain=0.0)
    assert planner.num_verify_tokens(survival, np.full(number, 7)) == number + int(np.argmax(scores))


def test_a_budget_follows_the_proposal_before() -> None:
    """Nothing is known of the first one, so it is verified whole."""
    planner = planner_of(RISING)
    doubtful = batch([2, 2], 0, [[0.5, 0.5]] * 2)
    assert [planner.plan(doubtful) for _ in range(2)] == [Plan(2, 6), Plan(2, 4)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minimum_predicted_gain": -0.1}, "minimum_predicted_gain is -0.1, expected at least 0"),
        ({"min_verify_len": 0}, "min_verify_len is 0, expected at least 1"),
        ({"profile_context_tokens": -1}, "profile_context_tokens is -1, expected at least 0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"dspark-tensorrt-llm: {message}"):
        DSparkTensorRTLLM(engine(), **options)


@pytest.mark.parametrize("options", ["", ":min_verify_len=3,minimum_predicted_gain=0.2"])
def test_it_is_a_sound_planner(options: str) -> None:
    assert check_planner(f"dspark-tensorrt-llm{options}") == []
