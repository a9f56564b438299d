"""vLLM's adaptive verification: its own budget vectors, the age of what it reads, and its profile."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.vllm_adaptive_verification import VllmAdaptiveVerification, profile

from .support import TableModel, batch, engine, step


def with_costs(verify: list[float], depth: int = 2, **options: Any) -> VllmAdaptiveVerification:
    """A planner for two requests whose rows cost these, from 0 rows up, and whose drafting is free."""
    planner = VllmAdaptiveVerification(engine(depth, max_num_seqs=2), **options)
    planner.verify_s, planner.draft_s = np.array(verify), np.zeros(3)
    return planner


def test_the_budget_stops_where_drafts_stop_paying() -> None:
    """vLLM's test: verification is cheap for 3 rows, then jumps a hundredfold; only the surest draft fits."""
    planner = with_costs([1.0, 1.0, 1.0, 1.0, 100.0, 100.0, 100.0])
    assert planner.budget(np.array([0.1, 0.01, 0.9, 0.81]), 2) == 1


def test_free_rows_are_all_taken() -> None:
    """vLLM's test: one of four slots is a placeholder, the other three are verified."""
    assert with_costs([1.0] * 7).budget(np.array([0.9, 0.9, 0.81]), 2) == 3


def test_the_search_goes_past_a_riser() -> None:
    """2 / 1, 2.9 / 1.6, 3.8 / 1.7: the middle is worse than both."""
    assert with_costs([0, 0, 1.0, 1.6, 1.7]).budget(np.array([0.9, 0.9]), 2) == 2


def test_drafting_makes_verifying_cheaper_by_comparison() -> None:
    planner = with_costs([0, 0, 1.0, 1.5, 1.5])
    assert planner.budget(np.array([0.4]), 2) == 0  # 2 / 1 against 2.4 / 1.5
    planner.draft_s = np.full(3, 10.0)
    assert planner.budget(np.array([0.4]), 2) == 1  # 2 / 11 against 2.4 / 11.5


def test_prefill_tokens_are_rows_that_are_there_anyway() -> None:
    planner = with_costs([0, 0, 1.0, 1.0, 9.0, 9.0, 9.0])
    shown = batch([1, 1], 0, [[0.9, 0.9]] * 2)
    assert planner.plan(shown).num_target_tokens == 3
    assert planner.plan(replace(shown, num_prefill_tokens=2)).num_target_tokens == 4


def drive(lag_steps: int, values: list[float]) -> list[int]:
    """Budgets of two requests, D = 1, when the proposal verified at step t has confidence `values[t - 1]`."""
    latency = TableModel({2: 1.0, 3: 1.3, 4: 1.6}, {1: 0.0})
    planner = VllmAdaptiveVerification(engine(1, "ngram", latency, 2, lag_steps))
    shown, budgets = [np.nan, *values], []
    for t in range(len(shown)):
        seen = shown[t - lag_steps] if t >= lag_steps else np.nan
        made = planner.plan(batch([int(t > 0)] * 2, t, [[seen]] * 2))
        assert made == Plan(1, made.num_target_tokens)
        budgets.append(made.num_target_tokens)
    return budgets


def test_age_of_a_budget_in_an_engine() -> None:
    """A proposal verified at step t decides step t + 1, whether the engine shows pending or older confidences.

    4 rows cost 1.6: worth it at .9 (3.8 / 1.6 against 2 / 1), not at .1. Without history a request counts as sure.
    """
    values = [0.1, 0.9, 0.1, 0.1, 0.9]
    assert drive(0, values) == [2, 4, 2, 4, 2, 2]
    assert drive(1, values) == [2, 4, 2, 4, 2, 2]


def test_the_profile_asks_at_captured_sizes_and_beyond() -> None:
    latency = TableModel({4: 1.0, 8: 2.0}, {1: 0.1})
    draft, verify = profile(engine(3, latency=latency, max_num_seqs=8), 100)
    assert verify.sizes.tolist() == [4, 8, 12, 16, 32]
    assert verify.costs.tolist() == [1.0, 2.0, 2.0, 2.0, 2.0]
    assert (verify.limit, draft.sizes.tolist()) == (8, [1, 2])
    assert draft.costs == pytest.approx([0.3, 0.3])


def test_the_estimator_verifies_everything_while_it_warms_up() -> None:
    planner = with_costs([0, 0, 1.0, 9.0, 9.0, 9.0, 9.0], scores="estimator", refit_interval=1, warmup_refits=2)
    shown = batch([2, 2], 0, [[0.5, 0.5]] * 2)
    budgets = []
    for _ in range(3):
        budgets.append(planner.plan(shown).num_target_tokens)
        made = step(Plan(2, 6), [2, 2], [2, 2], [0, 0])
        planner.observe(replace(made, confidence=shown.confidence))
    assert budgets == [6, 6, 2]


def test_it_cannot_do_without_confidences() -> None:
    with pytest.raises(BenchError, match="vllm-adaptive-verification: the batch has no confidences"):
        VllmAdaptiveVerification(engine()).plan(batch([3, 3]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile_context_tokens": -1}, "profile_context_tokens is -1, expected at least 0"),
        ({"warmup_refits": -1}, "warmup_refits is -1, expected at least 0"),
        ({"refit_interval": 0}, "refit_interval is 0, expected at least 1"),
        ({"damping": -1.0}, "damping is -1.0, expected at least 0"),
        ({"l2": 0.0}, "l2 is 0.0, expected above 0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"vllm-adaptive-verification: {message}"):
        VllmAdaptiveVerification(engine(), **options)


@pytest.mark.parametrize("options", ["", ":scores=estimator,refit_interval=3,warmup_refits=1"])
def test_it_is_a_sound_planner(options: str) -> None:
    assert check_planner(f"vllm-adaptive-verification{options}") == []
