"""Service-level objectives: how users write them, and the goodput that a run then shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.experiment import run_suite
from lightspec_bench.results import ReportOptions, make_results
from lightspec_bench.slo import request_slo, slo_from
from lightspec_bench.suite import suite_from

DOCUMENT: dict[str, Any] = {
    "traces": ["smollm2-135m-eagle:requests=6"],
    "latencies": ["h200-qwen3-14b"],
    "concurrencies": [4],
    "planners": ["none"],
    "every_static": False,
    "conditions": {"arrivals": "poisson", "rate": 40.0, "num_requests": 12, "replicas": 2},
}


def test_bounds_are_milliseconds_by_name() -> None:
    assert request_slo(["ttft_ms=500,tpot_ms=30", "e2el_ms=1500.5"]) == {
        "ttft_s": 0.5,
        "tpot_s": 0.03,
        "e2el_s": 1.5005,
    }
    assert slo_from({"tpot_ms": 30}, "a.yaml: slo") == {"tpot_s": 0.03}
    assert slo_from({"tpot_s": 0.03}, "suite.json: slo") == {"tpot_s": 0.03}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tpot=30", "--slo: 'tpot=30' is no bound, did you mean 'tpot_ms'?"),
        ("tpot_ms", "--slo: 'tpot_ms' is no bound, expected NAME=MILLISECONDS such as tpot_ms=30"),
        ("tpot_ms=-1", "--slo: tpot_ms is '-1', expected milliseconds above 0"),
    ],
)
def test_what_is_no_bound(text: str, sentence: str) -> None:
    with pytest.raises(BenchError, match=f"^{re.escape(sentence)}"):
        request_slo([text])


@pytest.mark.parametrize(
    ("slo", "sentence"),
    [
        ([30], "s: slo is [30], expected a mapping such as {tpot_ms: 30}"),
        ({"tpot_ms": 0}, "s: slo: tpot_ms is 0, expected a number above 0"),
        ({"tpt_ms": 1}, "s: slo: unknown bound 'tpt_ms', did you mean 'tpot_ms'?"),
    ],
)
def test_a_suite_s_bounds_are_checked(slo: Any, sentence: str) -> None:
    with pytest.raises(BenchError, match=f"^{re.escape(sentence)}"):
        suite_from({**DOCUMENT, "slo": slo}, "s", "s")


def test_a_fleet_of_a_suite_needs_requests_that_arrive() -> None:
    closed = {**DOCUMENT, "conditions": {"replicas": 2}}
    with pytest.raises(BenchError, match=r"^s: replicas is 2 and arrivals is closed, expected poisson, gamma or trace"):
        suite_from(closed, "s", "s")
    with pytest.raises(BenchError, match=r"^s: router is 'any', expected one of round-robin, least-requests"):
        suite_from({**DOCUMENT, "conditions": {"router": "any"}}, "s", "s")


def test_goodput_is_shown_under_the_suite_s_bounds_or_the_reader_s(tmp_path: Path) -> None:
    """Every request keeps bounds that are wide, none keeps bounds that are narrow."""
    suite = suite_from({**DOCUMENT, "slo": {"tpot_ms": 1e6}}, "s", "s")
    run_suite(suite, tmp_path, jobs=1, resume=False)
    make_results(tmp_path)
    row = pd.read_csv(tmp_path / "summary.csv").iloc[0]
    assert row["request_goodput"] == pytest.approx(row["request_throughput"])
    comparison = make_results(tmp_path, ReportOptions(slo={"tpot_s": 1e-9})).comparison
    assert comparison["request_goodput"].tolist() == [0.0] * len(comparison)
