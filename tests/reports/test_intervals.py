"""Bootstrap intervals: deterministic, around the point estimate, and not fooled by repetitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightspec_bench.core import Run
from lightspec_bench.reports import intervals, metrics
from tests.reports import tiny


def random_run(seed: int = 0, count: int = 60) -> Run:
    rng = np.random.default_rng(seed)
    tokens = rng.integers(2, 200, count)
    accepted = rng.integers(0, tokens)
    columns: dict[str, Any] = {
        "request_id": np.arange(count), "start_s": np.zeros(count), "arrival_s": np.zeros(count),
        "first_token_s": np.full(count, 0.1), "finish_s": 0.1 + tokens * rng.uniform(0.005, 0.02, count),
        "num_output_tokens": tokens, "num_spec_steps": tokens - accepted, "num_accepted_tokens": accepted,
    }  # fmt: skip
    return tiny.run(requests=columns)


def test_intervals_are_the_same_under_the_same_seed_and_hold_the_point_estimate() -> None:
    run = random_run()
    found = intervals.bootstrap_intervals([run], seed=3)
    assert found == intervals.bootstrap_intervals([run], seed=3)
    assert found != intervals.bootstrap_intervals([run], seed=4)
    pooled = 1 + run.requests["num_accepted_tokens"].sum() / run.requests["num_spec_steps"].sum()
    points = {
        "throughput": metrics.throughput(run.totals),
        "tpot_mean_s": metrics.summarise(run)["tpot_mean_s"],
        "mean_acceptance_length": pooled,
    }
    assert list(found) == list(points)
    assert all(low < points[name] < high for name, (low, high) in found.items())


def test_requests_that_are_all_alike_leave_no_doubt() -> None:
    alike = {name: np.repeat(column[:1], 5) for name, column in tiny.requests().items()}
    run = tiny.run(requests=alike | {"request_id": np.arange(5)})
    low_high = intervals.bootstrap_intervals([run])
    assert low_high["throughput"] == pytest.approx((4.0, 4.0))
    assert low_high["tpot_mean_s"] == pytest.approx((0.2, 0.2))
    assert low_high["mean_acceptance_length"] == pytest.approx((2.5, 2.5))


def test_one_request_gives_no_interval() -> None:
    single = {name: column[:1] for name, column in tiny.requests().items()}
    assert np.isnan(intervals.bootstrap_intervals([tiny.run(requests=single)])["throughput"]).all()


def test_replaying_the_same_requests_again_does_not_narrow_an_interval() -> None:
    run = random_run()
    again = {name: np.tile(column, 4) for name, column in run.requests.items()}
    again["request_id"] = np.arange(240)  # row + R per repetition, as runners number them
    repeated = replace(run, requests=again)
    once = intervals.bootstrap_intervals([run])
    folded = intervals.bootstrap_intervals([repeated], num_trace_requests=60)
    assert all(folded[name] == pytest.approx(once[name]) for name in once)
    unfolded = intervals.bootstrap_intervals([repeated])
    assert all(np.subtract(*unfolded[name][::-1]) < 0.7 * np.subtract(*once[name][::-1]) for name in once)


def test_the_width_is_that_of_the_textbook() -> None:
    """The mean of TPOT: 1.96 standard errors on either side, within the noise of 4000 draws."""
    run = random_run(count=400)
    tpot = (run.requests["finish_s"] - 0.1) / (run.requests["num_output_tokens"] - 1)
    low, high = intervals.bootstrap_intervals([run], num_resamples=4000)["tpot_mean_s"]
    assert high - low == pytest.approx(2 * 1.96 * tpot.std() / np.sqrt(400), rel=0.08)
    assert (low + high) / 2 == pytest.approx(tpot.mean(), rel=0.02)


def test_draws_do_not_depend_on_how_they_are_chunked(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = np.random.default_rng(0).uniform(size=(7, 3, 2))
    whole = intervals.resample(sums, seed=1, num_resamples=50)
    monkeypatch.setattr(intervals, "_CHUNK_ELEMENTS", 40)
    np.testing.assert_allclose(intervals.resample(sums, seed=1, num_resamples=50), whole)
