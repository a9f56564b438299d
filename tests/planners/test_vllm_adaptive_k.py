"""vLLM's Adaptive K*: the decisions of its tests, its averages, and what holds a decision back."""

from typing import Any

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.vllm_adaptive_k import VllmAdaptiveK

from .support import batch, engine, step

TESTS: dict[str, Any] = {"c_draft": 0.05, "bs_penalty": 0.0, "alpha_prior": 0.75, "cooldown": 4, "explore": 0.0}


def planner_of(alpha: list[float], k: int = 5, **options: Any) -> VllmAdaptiveK:
    """As the tests of the pull request set a scheduler up."""
    planner = VllmAdaptiveK(engine(len(alpha)), **{**TESTS, **options})
    planner.alpha[:], planner.k = alpha, k
    return planner


@pytest.mark.parametrize(
    ("alpha", "options", "k"),
    [
        ([1.0] * 10, {}, 10),
        ([0.01] * 10, {}, 0),
        ([0.2] * 10, {"c_draft": 0.3}, 0),
        ([0.8, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01], {}, 3),  # 2.64 / 1.15 is the best
    ],
)
def test_decisions_of_the_pull_request(alpha: list[float], options: dict[str, Any], k: int) -> None:
    assert planner_of(alpha, **options).adaptive_k(1) == k


def test_a_cool_down_keeps_k() -> None:
    planner = planner_of([0.9] * 10)
    planner.waiting = 3
    assert planner.adaptive_k(1) == 5


def test_before_any_outcome_the_prior_decides() -> None:
    """At .75: 3.05 / 1.4576 with the later document's cost of drafting, all 5 with the earlier one's."""
    assert int(VllmAdaptiveK(engine(5), **TESTS).utility(1).argmax()) == 5
    assert int(VllmAdaptiveK(engine(5), **{**TESTS, "c_draft": 0.1144}).utility(1).argmax()) == 4


def test_a_change_of_one_is_not_made_and_a_change_starts_the_cool_down() -> None:
    alpha = [0.8, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01]
    assert planner_of(alpha, k=4).adaptive_k(1) == 4
    planner = planner_of(alpha, k=5, cooldown=2)
    assert planner.adaptive_k(1) == 3
    planner.alpha[:] = 1.0
    assert [planner.adaptive_k(1) for _ in range(3)] == [3, 3, 10]


def test_zero_is_reached_from_one() -> None:
    assert planner_of([0.01] * 3, k=1).adaptive_k(1) == 0
    assert planner_of([0.01] * 3, k=3, min_k=1).adaptive_k(1) == 1


def test_a_larger_batch_costs_every_k_the_same() -> None:
    """1 + 0.5 N: with 1 request K = 1 has 1.5 / 1.55 < 1, so drafting is off though it is the best ratio."""
    planner = planner_of([0.5, 0.1], k=2, bs_penalty=0.5)
    assert planner.utility(1) == pytest.approx([1 / 1.5, 1.5 / 1.55, 1.55 / 1.6])
    assert planner.adaptive_k(1) == 0


def test_windows_set_then_average_conditional_acceptance() -> None:
    planner = planner_of([0.75] * 3, window_steps=2)
    outcomes = [([3, 3], [1, 0]), ([3, 3], [1, 0]), ([3, 3], [3, 3]), ([3, 3], [3, 3])]
    for index, (verify, accepted) in enumerate(outcomes):
        planner.observe(step(Plan(3, 8), [3, 3], verify, accepted))
        if index == 1:
            assert planner.alpha.tolist() == [0.5, 0.0, 0.75]  # the third position was never reached
    assert planner.alpha == pytest.approx([0.65, 0.3, 1.0])


def test_exploring_drafts_everything_and_changes_nothing() -> None:
    planner = VllmAdaptiveK(engine(10), **{**TESTS, "explore": 1.0})
    planner.alpha[:] = 0.01
    assert planner.plan(batch([0, 0])) == Plan(10, 2)
    assert planner.k == 0


def test_a_schedule_caps_the_result() -> None:
    planner = VllmAdaptiveK(engine(10), **TESTS, schedule=[[1, 2, 4], [3, 8, 0]])
    planner.alpha[:] = 1.0
    assert [planner.plan(batch([0] * n)).num_draft_tokens for n in (1, 2, 3)] == [4, 4, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ema": 0.0}, "ema is 0.0, expected above 0 and at most 1"),
        ({"c_draft": -0.1}, "c_draft is -0.1, expected at least 0"),
        ({"bs_penalty": -1.0}, "bs_penalty is -1.0, expected at least 0"),
        ({"alpha_prior": 1.5}, "alpha_prior is 1.5, expected 0 to 1"),
        ({"explore": 2.0}, "explore is 2.0, expected 0 to 1"),
        ({"min_k": 4}, "min_k is 4, expected 0 to 3"),
        ({"cooldown": -1}, "cooldown is -1, expected at least 0"),
        ({"window_steps": 0}, "window_steps is 0, expected at least 1"),
        ({"schedule": [[2, 4, 1]]}, ".*starts at 2"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"vllm-adaptive-k: {message}"):
        VllmAdaptiveK(engine(3), **options)


def test_it_is_a_sound_planner() -> None:
    assert check_planner("vllm-adaptive-k:explore=0.5,window_steps=2") == []
