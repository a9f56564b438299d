"""vLLM's counters: Prometheus dumps of several engines, results of its benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightspec_bench.acceptance import rates
from tests.traces.engine_logs import Steps, bench, imported, prometheus

STEPS: Steps = [(3, 3), (3, 1), (3, 0)]


# Prometheus


@pytest.mark.parametrize("suffix", ["_total", ""])
def test_prometheus_counters_of_several_engines(suffix: str, tmp_path: Path) -> None:
    """`_created` series are times, not counts."""
    summary = imported(tmp_path, prometheus([STEPS, [(3, 2)]], suffix=suffix))
    assert summary.engines.keys() == {"engine 0, model_name m", "engine 1, model_name m"}
    assert (summary.counts.num_spec_steps, summary.counts.num_survived_per_pos) == (4, (3, 2, 1))


def test_of_several_dumps_in_one_file_the_last_counts(tmp_path: Path) -> None:
    summary = imported(tmp_path, prometheus([STEPS]) + prometheus([STEPS * 2]))
    assert (summary.counts.num_spec_steps, summary.notes[-1]) == (
        6, "several dumps follow one another: the last value of each series counts",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('accepted_tokens_total{engine="1",model_name="m"} 2.0', 'accepted_tokens_total{engine="1",model_name="m"} 9.0',
         "accepts more than was drafted"),
        ('drafts_total{engine="1",model_name="m"} 1.0', 'drafts_total{engine="1",model_name="m"} 7.0',
         "contradicts itself"),
        ('drafts_total{engine="1",model_name="m"} 1.0', 'drafts_total{engine="1",model_name="m"} NaN', "is no count"),
        ('drafts_total{engine="1",model_name="m"} 1.0', 'drafts_total{engine="1",model_name="m"} 1.5', "is no count"),
        ('drafts_total{engine="1",model_name="m"} 1.0', 'drafts_total{engine="1",mod',
         "is cut off or no Prometheus sample"),
        ('per_pos_total{engine="1",model_name="m",position="0"} 1.0',
         'per_pos_total{engine="1",model_name="m",position="0"} 5.0', "has a rate above 1"),
        ('model_name="m",position="0"} 1.0', 'model_name="m"} 1.0', "has no position"),
    ],
)  # fmt: skip
def test_bad_prometheus_samples(old: str, new: str, reason: str, tmp_path: Path) -> None:
    text = prometheus([STEPS, [(3, 2)]])
    assert old in text
    summary = imported(tmp_path, text.replace(old, new))
    assert [part.reason for part in summary.skipped] == [reason]
    assert summary.engines["engine 0, model_name m"].num_spec_steps == 3


# Benchmark results


def test_benchmark_results(tmp_path: Path) -> None:
    summary = imported(tmp_path, bench([(5, 5)] * 42 + [(5, 4)] * 10 + [(5, 0)] * 7, depth=5))
    assert summary.samples[0].label == "row 1, m, concurrency 8"
    assert summary.counts.num_survived_per_pos == (52, 52, 52, 52, 42)
    assert rates(summary.counts)["draft_acceptance_rate"] == pytest.approx(250 / 295)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('accepted_tokens": 4', 'accepted_tokens": 44', "accepts more than was drafted"),
        ('num_drafts": 3', 'num_drafts": 30', "contradicts itself"),
        ('acceptance_rate": 44', 'acceptance_rate": 144', "has a rate above 1"),
        ('acceptance_rate": 44', 'acceptance_rate": 14', "contradicts itself"),
        ('rates": [0', 'rates": [1', "has a rate above 1"),
        ("spec_decode_", "other_", "has no speculative counters"),
        ('"spec_decode_num_drafts": 3, ', "", "is of an unknown version"),
    ],
)
def test_bad_benchmark_results(old: str, new: str, reason: str, tmp_path: Path) -> None:
    bad = bench(STEPS).replace(old, new)
    assert bad != bench(STEPS)
    summary = imported(tmp_path, f"{bench(STEPS)}\n{bad}\n")
    assert [part.reason for part in summary.skipped] == [reason]
    assert summary.counts.num_spec_steps == 3
