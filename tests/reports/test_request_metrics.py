"""TTFT, TPOT, ITL, E2EL and goodput as `vllm bench serve` counts them; pooled figures beside means of requests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lightspec_bench.core import BenchError
from lightspec_bench.reports import metrics, request_metrics
from tests.reports import tiny


def test_request_times_run_from_arrival_and_tpot_leaves_out_requests_of_one_token() -> None:
    requests = tiny.requests()
    assert request_metrics.ttft_s(requests).tolist() == [0.5, 1.5, 1.0]
    assert request_metrics.e2el_s(requests).tolist() == [2.5, 5.5, 1.0]
    np.testing.assert_array_equal(request_metrics.tpot_s(requests), [0.2, 0.5, np.nan])


def test_no_finished_request_and_no_step_records_leave_latencies_unknown() -> None:
    empty = {name: column[:0] for name, column in tiny.requests().items()}
    shown = request_metrics.summarise_requests(tiny.run(requests=empty, steps=None))
    assert shown.pop("request_throughput") == 0.0
    assert all(np.isnan(value) for value in shown.values())


def test_pooled_and_mean_of_requests_can_order_two_runs_differently() -> None:
    """vllm#42508: the first run is better pooled, the second by the mean of its requests."""
    first = tiny.requests(num_spec_steps=[10, 10, 0], num_accepted_tokens=[10, 10, 0])
    second = tiny.requests(num_spec_steps=[2, 18, 0], num_accepted_tokens=[6, 9, 0])
    pooled = [r["num_accepted_tokens"].sum() / r["num_spec_steps"].sum() + 1 for r in (first, second)]
    means = [request_metrics.mean_acceptance_length_per_request(r) for r in (first, second)]
    assert (pooled, means) == ([2.0, 1.75], [2.0, 2.75])
    as_outcomes = tiny.totals([[0, 0, 0, 0], [9, 9, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2]])
    assert metrics.mean_acceptance_length(as_outcomes) == pooled[1]


def test_mean_of_ratios_and_ratio_of_sums_are_two_speeds() -> None:
    requests = tiny.requests(start_s=[0.0, 0.0, 0.0], finish_s=[1.0, 10.0, 1.0], num_output_tokens=[10, 10, 10])
    assert request_metrics.request_speed_mean_of_ratios(requests) == 7.0
    assert request_metrics.request_speed_ratio_of_sums(requests) == 2.5


def test_goodput_counts_requests_within_every_bound_per_second() -> None:
    requests = tiny.requests()
    assert request_metrics.request_goodput(requests, {"ttft_s": 1.0}, elapsed_s=4.0) == 0.5
    assert request_metrics.request_goodput(requests, {"ttft_s": 1.0, "e2el_s": 2.0}, elapsed_s=4.0) == 0.25
    assert request_metrics.request_goodput(requests, {"tpot_s": 0.1}, elapsed_s=4.0) == 0.25  # 1 token: TPOT 0
    assert request_metrics.request_goodput(requests, {}, elapsed_s=4.0) == 0.75


@pytest.mark.parametrize(
    ("slo", "message"),
    [
        ({"tpot": 1.0}, "slo: unknown bound 'tpot', did you mean 'tpot_s'?"),
        ({"ttft_s": 0.0}, "slo: ttft_s is 0.0, expected seconds above 0"),
        ({"ttft_s": float("nan")}, "slo: ttft_s is nan, expected seconds above 0"),
    ],
)
def test_goodput_names_a_wrong_bound(slo: dict[str, float], message: str) -> None:
    with pytest.raises(BenchError) as error:
        request_metrics.request_goodput(tiny.requests(), slo, 1.0)
    assert str(error.value) == message


@given(st.lists(st.tuples(st.floats(0.0, 10.0), st.integers(0, 5)), max_size=20))
def test_itl_percentiles_are_those_of_every_request_in_every_step(steps: list[tuple[float, int]]) -> None:
    durations = np.array([duration for duration, _ in steps], dtype=np.float64)
    counts = np.array([count for _, count in steps], dtype=np.int64)
    actual = request_metrics.weighted_percentiles(durations, counts, (0, 50, 90, 99, 100))
    if counts.sum() == 0:
        assert np.isnan(actual).all()
    else:
        expected = np.percentile(np.repeat(durations, counts), (0, 50, 90, 99, 100))
        np.testing.assert_allclose(actual, expected, atol=1e-12)
