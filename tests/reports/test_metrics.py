"""Every formula on tiny records, the definition traps people fell into, and what always holds."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from lightspec_bench.core import Run, Totals
from lightspec_bench.reports import metrics
from tests.reports import tiny


def test_summarise_gives_every_metric_in_a_fixed_order() -> None:
    expected = {
        "num_requests": 3, "num_steps": 8, "num_request_steps": 8, "num_spec_steps": 6, "num_output_tokens": 20,
        "num_prefill_tokens": 100, "num_decode_tokens": 14, "num_target_tokens": 18, "num_draft_tokens": 12,
        "num_verify_tokens": 10, "num_accepted_tokens": 6,
        "elapsed_s": 5.0, "busy_s": 4.0, "decode_s": 2.5, "planner_s": 0.2, "num_switches": 2,
        "throughput": 4.0, "decode_throughput": 5.6, "mean_acceptance_length": 2.0, "mean_tokens_per_step": 1.75,
        "target_efficiency": 14 / 18, "verify_acceptance_rate": 0.6, "draft_acceptance_rate": 0.5,
        "verify_volume": 18 / 14, "verify_volume_per_step": 2.25, "draft_tokens_per_token": 12 / 14,
        "step_time_s": 0.5, "planner_time_s": 0.025, "exposed_planner_share": 0.5,
        "switches_per_1000_steps": 250,
        "verify_share": 0.5, "draft_share": 0.125, "host_share": 0.1, "prefill_share": 0.25, "planner_share": 0.025,
        "request_throughput": 0.6,
        "ttft_mean_s": 1.0, "ttft_p50_s": 1.0, "ttft_p90_s": 1.4, "ttft_p99_s": 1.49,
        "tpot_mean_s": 0.35, "tpot_p50_s": 0.35, "tpot_p90_s": 0.47, "tpot_p99_s": 0.497,
        "e2el_mean_s": 3.0, "e2el_p50_s": 2.5, "e2el_p90_s": 4.9, "e2el_p99_s": 5.44,
        "itl_mean_s": 0.225, "itl_p50_s": 0.2, "itl_p90_s": 0.34, "itl_p99_s": 0.394,
        "mean_acceptance_length_per_request": 1.75,
        "request_speed_mean_of_ratios": (11 / 2.5 + 9 / 4.5 + 1 / 1) / 3, "request_speed_ratio_of_sums": 21 / 8,
        "acceptance_rate_pos_1": 4 / 6, "acceptance_rate_pos_2": 2 / 6,
        "conditional_acceptance_rate_pos_1": 4 / 6, "conditional_acceptance_rate_pos_2": 2 / 3,
        "num_at_risk_pos_1": 6, "num_at_risk_pos_2": 3,
    }  # fmt: skip
    actual = metrics.summarise(tiny.run())
    assert list(actual) == list(expected)
    assert actual == pytest.approx(expected)
    assert all(type(value) is float for value in actual.values())


def switching(depths: list[int], num_steps: int | None = None, **columns: object) -> Run:
    """A run that planned these depths, the last `num_steps` of them in the measured window."""
    steps = tiny.steps([0.1] * len(depths), [1] * len(depths)) | {"planned_depth": np.array(depths), **columns}
    return tiny.run(steps=steps, totals=tiny.totals(tiny.OUTCOMES, num_steps=num_steps or len(depths)))


@pytest.mark.parametrize(
    ("depths", "switches", "per_1000"),
    [
        ([3, 3, 3, 3], 0, 0.0),
        ([3, 5, 3, 5], 3, 750.0),  # a tracker that flaps between two candidates
        ([3, 3, 0, 0], 1, 250.0),
        ([4], 0, 0.0),
    ],
)
def test_a_switch_is_a_step_that_plans_another_depth(depths: list[int], switches: int, per_1000: float) -> None:
    run = switching(depths)
    assert (metrics.num_switches(run), metrics.switches_per_1000_steps(run)) == (switches, per_1000)


def test_an_early_exit_or_the_warm_up_is_no_switch() -> None:
    assert metrics.num_switches(switching([7, 7, 7], draft_depth=np.array([2, 7, 1]))) == 0
    assert metrics.switches_per_1000_steps(switching([0, 1, 2, 2], num_steps=2)) == 0.0


def test_without_planned_depths_switches_are_unknown() -> None:
    without = {name: column for name, column in tiny.steps([0.1], [1]).items() if name != "planned_depth"}
    for steps in (None, without):
        assert np.isnan(metrics.switches_per_1000_steps(tiny.run(steps=steps)))


def test_a_run_that_verified_nothing_has_unknown_rates_not_zero_or_one() -> None:
    skipped = tiny.totals([[8, 0], [0, 0]], num_draft_tokens=0)  # vllm#34751 reported 0 % here
    unknown = (
        metrics.mean_acceptance_length, metrics.verify_acceptance_rate, metrics.draft_acceptance_rate,
    )  # fmt: skip
    assert all(np.isnan(formula(skipped)) for formula in unknown)
    assert np.isnan(metrics.acceptance_rate_per_pos(skipped)).all()
    assert np.isnan(metrics.conditional_acceptance_rate_per_pos(skipped)).all()
    assert (metrics.mean_tokens_per_step(skipped), metrics.verify_volume(skipped)) == (1.0, 1.0)


def test_a_request_step_without_a_draft_is_not_a_draft() -> None:
    drafts = [[0, 0, 0], [0, 0, 0], [1, 1, 2]]
    with_skipped = [[50, 0, 0], *drafts[1:]]
    assert metrics.mean_acceptance_length(tiny.totals(with_skipped)) == 2.25
    assert metrics.mean_acceptance_length(tiny.totals(drafts)) == 2.25


def test_drafts_that_were_all_rejected_have_acceptance_length_one() -> None:
    rejected = tiny.totals([[0, 0], [99, 0]], num_draft_tokens=99)  # vllm-ascend#13665
    assert (metrics.mean_acceptance_length(rejected), metrics.draft_acceptance_rate(rejected)) == (1.0, 0.0)


def test_a_vllm_log_line() -> None:
    at_least = [59, 58, 56, 54, 52, 42, 0]  # vllm#24127: 59 drafts of 5, 262 accepted
    outcomes = np.zeros((6, 6), dtype=np.int64)
    outcomes[5] = -np.diff(at_least)
    line = tiny.totals(outcomes.tolist(), num_draft_tokens=295)
    assert metrics.num_accepted_tokens(line) == 262
    assert metrics.mean_acceptance_length(line) == pytest.approx(5.4407, abs=5e-5)
    assert metrics.draft_acceptance_rate(line) == pytest.approx(0.8881, abs=5e-5)
    assert np.round(metrics.acceptance_rate_per_pos(line), 3).tolist() == [0.983, 0.949, 0.915, 0.881, 0.712]


def test_a_llama_cpp_log_line_with_two_short_drafts() -> None:
    # llama.cpp#24536: 87 drafts, 259 drafted (two of them were 2 long), 70 / 55 / 42 accepted at 1 / 2 / 3
    line = tiny.totals([[0] * 4, [0] * 4, [0, 0, 2, 0], [17, 15, 11, 42]], num_draft_tokens=259)
    assert (metrics.num_verify_tokens(line), metrics.num_accepted_tokens(line)) == (259, 167)
    assert metrics.draft_acceptance_rate(line) == pytest.approx(0.64479, abs=5e-6)
    assert metrics.mean_acceptance_length(line) == pytest.approx(2.9195, abs=5e-5)
    assert np.round(metrics.acceptance_rate_per_pos(line), 3).tolist() == [0.805, 0.632, 0.483]
    assert metrics.num_at_risk_per_pos(line).tolist() == [87, 70, 53]  # the short drafts are not at risk at 3


def test_emitted_tokens_are_accepted_and_one_bonus_per_request_step() -> None:
    higgs = tiny.totals([[0, 0], [6, 29]], num_draft_tokens=35)  # panbanda/higgs#161
    assert metrics.num_decode_tokens(higgs) == 64
    assert metrics.draft_acceptance_rate(higgs) == pytest.approx(0.8286, abs=5e-5)


def test_the_three_acceptance_figures_differ_on_one_run() -> None:
    outcomes = np.zeros((8, 8), dtype=np.int64)
    outcomes[7, [0, 7]] = 5  # ten drafts of 7: half of them rejected, half accepted whole
    trap = tiny.totals(outcomes.tolist(), num_draft_tokens=140)
    assert metrics.target_efficiency(trap) == 45 / 80
    assert metrics.verify_acceptance_rate(trap) == 35 / 70
    assert metrics.draft_acceptance_rate(trap) == 35 / 140


outcome_matrices = st.integers(1, 6).flatmap(
    lambda depth: hnp.arrays(np.int64, (depth + 1, depth + 1), elements=st.integers(0, 50)).map(np.tril)
)


def totals_of(outcomes: np.ndarray) -> Totals:
    return replace(tiny.totals([[1]]), outcomes=outcomes, num_draft_tokens=int(outcomes.sum() * len(outcomes)))


@given(outcome_matrices)
def test_counts_fit_together(outcomes: np.ndarray) -> None:
    totals = totals_of(outcomes)
    accepted, steps = metrics.num_accepted_tokens(totals), metrics.num_request_steps(totals)
    assert metrics.num_decode_tokens(totals) == accepted + steps
    assert accepted <= metrics.num_verify_tokens(totals) <= totals.num_draft_tokens
    survived = metrics.acceptance_rate_per_pos(totals) * metrics.num_spec_steps(totals)
    if metrics.num_spec_steps(totals):
        assert survived.sum() == pytest.approx(accepted)
        assert 1.0 <= metrics.mean_acceptance_length(totals) <= len(outcomes)


@given(outcome_matrices)
def test_rates_are_fractions_or_unknown(outcomes: np.ndarray) -> None:
    totals = totals_of(outcomes)
    rates = [
        metrics.target_efficiency(totals), metrics.verify_acceptance_rate(totals),
        metrics.draft_acceptance_rate(totals), *metrics.acceptance_rate_per_pos(totals),
        *metrics.conditional_acceptance_rate_per_pos(totals),
    ]  # fmt: skip
    assert all(np.isnan(rate) or 0.0 <= rate <= 1.0 for rate in rates)
    survival = metrics.acceptance_rate_per_pos(totals)
    assert np.isnan(survival).all() or (np.diff(survival) <= 0).all()


@given(hnp.arrays(np.int64, 5, elements=st.integers(1, 50)), st.integers(0, 50))
def test_survival_is_the_product_of_conditionals_when_everything_is_verified(accepted: np.ndarray, idle: int) -> None:
    outcomes = np.zeros((5, 5), dtype=np.int64)
    outcomes[4], outcomes[0, 0] = accepted, idle
    totals = totals_of(outcomes)
    product = metrics.conditional_acceptance_rate_per_pos(totals).cumprod()
    np.testing.assert_allclose(metrics.acceptance_rate_per_pos(totals), product)


@given(outcome_matrices)
def test_trimming_lowers_survival_but_never_the_conditional_rate_of_what_was_verified(outcomes: np.ndarray) -> None:
    totals = totals_of(outcomes)
    survival = metrics.acceptance_rate_per_pos(totals)
    product = metrics.conditional_acceptance_rate_per_pos(totals).cumprod()
    known = ~(np.isnan(survival) | np.isnan(product))
    assert (survival[known] <= product[known] + 1e-12).all()


def test_metrics_load_without_pandas_or_matplotlib() -> None:
    code = "import sys, lightspec_bench.reports.metrics; sys.exit(bool({'pandas', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
