"""Tune: which K for which load, ties, bounds, what is chosen, and the whole search on a tiny trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.reports.export import read_export
from lightspec_bench.reports.export_text import Deployment
from lightspec_bench.suite import Conditions
from lightspec_bench.traces.format import write_trace
from lightspec_bench.tune import Found, tune
from lightspec_bench.tune_depths import best_depth, between, ranges_of, static, words_of
from lightspec_bench.tune_evidence import Evidence, Ratio, first_level
from lightspec_bench.tune_report import bound_lines, change_lines, export_of, gain_lines, headline, losing_line
from lightspec_bench.tune_task import Bound, Task, loads_of, parse_bounds, parse_loads
from tests.reports import tiny
from tests.support import hand_trace, random_trace

LATENCY = "h200-qwen3-14b"


def evidence(speeds: dict[tuple[int, str], list[float]], **columns: float) -> Evidence:
    """(load, planner) -> tokens per second of three requests of the trace `chat`, which all have 10 tokens."""
    cells = {key: 3.0 / sum(1.0 / speed for speed in values) for key, values in speeds.items()}
    summary = tiny.summary(cells, **columns)
    rows: list[dict[str, Any]] = []
    for (load, planner), values in speeds.items():
        for row, speed in enumerate(values):
            request = {name: column[row] for name, column in tiny.requests().items()}
            times = {"start_s": 0.0, "finish_s": 10.0 / speed, "num_output_tokens": 10}
            names = {"trace": "chat", "latency": "h200", "concurrency": load, "planner": planner, "seed": 0}
            rows.append(names | request | times)
    return Evidence(summary, pd.DataFrame(rows), num_resamples=200)


CLEAR = evidence(
    {
        (1, "none"): [1.0, 1.0, 1.0], (1, "static:k=1"): [1.5, 1.5, 1.5], (1, "static:k=2"): [2.0, 2.0, 2.0],
        (8, "none"): [8.0, 8.0, 8.0], (8, "static:k=1"): [9.0, 9.0, 9.0], (8, "static:k=2"): [6.0, 6.0, 6.0],
    }
)  # fmt: skip


def test_a_ratio_is_the_geometric_mean_over_places_and_is_paired() -> None:
    places = [("chat", 1), ("chat", 8)]
    ratio = CLEAR.ratio("static:k=2", "none", places)
    assert ratio.value == pytest.approx((2.0 * 0.75) ** 0.5)
    assert (ratio.low, ratio.high) == pytest.approx((ratio.value, ratio.value))  # no request differs
    assert CLEAR.ratio({place: static(2) for place in places}, static(2), places).value == pytest.approx(1.0)
    assert CLEAR.fastest([static(1), static(2)], places) == static(1)
    assert CLEAR.origin == "Simulated from a recorded trace; latency: h200, modelled"


@pytest.mark.parametrize(
    ("ratio", "level"),
    [
        (Ratio(1.2, 1.1, 1.3), False),
        (Ratio(1.2, 0.9, 1.4), True),
        (Ratio(0.995, 0.99, 0.999), True),  # less than 1 %
        (Ratio(0.9, float("nan"), float("nan")), False),
    ],
)
def test_level_is_less_than_a_percent_or_an_interval_with_no_change_in_it(ratio: Ratio, level: bool) -> None:
    assert ratio.is_level is level


def test_the_best_k_of_a_load() -> None:
    assert [best_depth(CLEAR, ["chat"], load, range(3), ()) for load in (1, 8)] == [2, 1]


def test_a_tie_goes_to_the_smaller_k() -> None:
    """K=2 is 20 % ahead, but only one of the three requests is faster with it."""
    tied = evidence({(1, "static:k=1"): [2.0, 2.0, 2.0], (1, "static:k=2"): [1.9, 4.5, 1.9]})
    assert tied.ratio(static(2), static(1), [("chat", 1)]).value > 1.1
    assert best_depth(tied, ["chat"], 1, [1, 2], ()) == 1
    assert first_level(tied, [static(2), static(1)], [("chat", 1)]) == static(2)  # the order given is what counts


def test_bounds_rule_out_the_fastest_and_the_nearest_stands_in_where_none_keeps_them() -> None:
    bound = Bound("tpot_ms", "tpot_p99_s", 0.03)
    slow = CLEAR
    for key in slow.rows:
        slow.rows[key]["tpot_p99_s"] = {"none": 0.04, "static:k=1": 0.02, "static:k=2": 0.05}[key[1]]
    assert best_depth(slow, ["chat"], 1, range(3), [bound]) == 1
    assert best_depth(slow, ["chat"], 1, [2], [bound]) == 2


def test_where_the_best_k_changes_is_narrowed_down() -> None:
    assert between({1: 3, 4: 3, 16: 1}) == {8: [1, 2, 3]}
    assert between({8: 3, 9: 1}) == {}
    assert between({60: 2, 70: 1}) == {}


def test_ranges_cover_every_size_from_one_up() -> None:
    ranges = ranges_of({2: 3, 4: 3, 16: 1, 64: 0})
    assert ranges == [[1, 15, 3], [16, 63, 1], [64, 64, 0]]
    assert words_of(ranges) == "K=3 up to 15, K=1 up to 63, K=0 up to 64"


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ("1-256", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        ("3-9", (3, 4, 8, 9)),
        ("64, 1-2", (1, 2, 64)),
    ],
)
def test_loads(text: str, loads: tuple[int, ...]) -> None:
    assert parse_loads(text) == loads


def test_bounds_are_percentiles_and_seconds() -> None:
    assert parse_bounds(["tpot_ms=30,e2el_p50_ms=900"], "off") == (
        Bound("tpot_ms", "tpot_p99_s", 0.03),
        Bound("e2el_p50_ms", "e2el_p50_s", 0.9),
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: parse_loads("8-2"), "--concurrency has '8-2', expected a number, or first-last"),
        (lambda: loads_of("hf", "1-8"), "expected 1: transformers runs assisted generation with one sequence"),
        (lambda: parse_bounds(["tpt_ms=3"], "off"), "'tpt_ms=3' is no bound, did you mean 'tpot_ms'"),
        (lambda: parse_bounds(["tpot_ms"], "off"), "expected NAME=MILLISECONDS such as tpot_ms=30"),
        (lambda: parse_bounds(["tpot_ms=fast"], "off"), "tpot_ms is 'fast', expected milliseconds above 0"),
        (lambda: parse_bounds(["ttft_ms=90"], "off"), "ttft_ms needs prompts to cost something"),
    ],
)
def test_what_cannot_be_asked(ask: Any, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        ask()


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Two tiny traces of one drafter of three tokens: of the first every draft is accepted, of the second none."""
    folder = tmp_path_factory.mktemp("traces")
    for name, most in (("easy", 3), ("hard", 0)):
        trace = hand_trace([[min(most, 40 - p) for p in range(41)]] * 6, 3)
        confidence = np.full((trace.num_positions, 3), 0.9 if most else 0.1, dtype=np.float32)
        info = replace(trace.info, name=name)
        write_trace(replace(trace, info=info, confidence=confidence), folder / f"{name}.parquet")
    traces = tuple(str(folder / f"{name}.parquet") for name in ("easy", "hard"))
    conditions = Conditions(planner_time="off", num_requests=6)
    return Task(traces, LATENCY, "vllm", Deployment(), (1, 64), conditions=conditions, refine=1)


def silent(stage: str, done: int, total: int, said: str) -> None:
    pass


@pytest.fixture(scope="module")
def found(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return tune(replace(task, traces=task.traces[:1]), tmp_path_factory.mktemp("cells"), 1, silent)


def test_a_search_ends_with_a_setting_that_reads_back_as_what_was_found(found: Found) -> None:
    """Where everything is accepted, three tokens pay at any load."""
    made = export_of(found)
    assert made is not None
    assert (found.best, made.text) == ("static:k=3", '{"num_speculative_tokens": 3}')
    assert read_export("vllm", made.text, found.task.deployment) == found.best
    assert found.candidates[:4] == ("none", "static:k=1", "static:k=2", "static:k=3")
    assert found.feasible == found.kept_at == (1, 64)
    assert (headline(found), bound_lines(found), losing_line(found)) == ("vllm: K=3.", [], [])
    assert change_lines(found) == [
        "Best K by concurrency, the same at every load: K=3 up to 64 (K=0: drafter loaded, nothing drafted)."
    ]
    lines = gain_lines(found)
    assert lines[0] == "Expected gain (geometric mean over concurrency 1, 64, 95 % intervals over requests):"
    assert lines[1] == (
        "  0.0 % [0.0, 0.0] against the default, K=3 (vllm has no default number of draft tokens; "
        "3 is what its examples have)"
    )
    assert lines[3] == "  0.0 % [0.0, 0.0] against the best single static K, K=3, in hindsight"


def test_what_misses_the_bounds_is_not_chosen_and_is_said_to_miss_them(task: Task, tmp_path: Path) -> None:
    """Where everything is accepted a step of four tokens keeps a TPOT that one of one or two tokens does not."""
    bound = Bound("tpot_ms", "tpot_p99_s", 0.004)
    kept = tune(replace(task, traces=task.traces[:1], bounds=(bound,), loads=(1,)), tmp_path, 1, silent)
    values = {p: kept.evidence.value(p, (task.traces[0], 1), "tpot_p99_s") for p in kept.candidates[:4]}
    assert [value <= 0.004 for value in values.values()] == [False, False, True, True]
    assert (kept.best, kept.kept_at, kept.best_static) == ("static:k=3", (1,), "static:k=3")
    assert bound_lines(kept) == ["It keeps TPOT P99 ≤ 4 ms at concurrency 1, on every trace."]
    assert gain_lines(kept)[2].endswith("against no speculation, which misses the SLO")


def test_a_drafter_that_is_never_right_is_left_out(task: Task, tmp_path: Path) -> None:
    hopeless = tune(replace(task, traces=task.traces[1:], current="static:k=2"), tmp_path, 1, silent)
    assert hopeless.best == "none"
    assert set(hopeless.depth_at.values()) == {0}
    assert headline(hopeless) == "vllm: no speculation. No setting is faster by more than can be told."
    assert gain_lines(hopeless)[-1].endswith("against yours, K=2")


def test_bounds_nobody_keeps_leave_nothing_to_deploy(task: Task, tmp_path: Path) -> None:
    bound = Bound("tpot_ms", "tpot_p99_s", 1e-6)
    lost = tune(replace(task, traces=task.traces[:1], bounds=(bound,), refine=0), tmp_path, 1, silent)
    assert (lost.best, lost.feasible, export_of(lost)) == (None, (), None)
    assert headline(lost) == (
        "No setting keeps TPOT P99 ≤ 0.001 ms at any load, no speculation included: nothing to deploy."
    )
    assert gain_lines(lost) == losing_line(lost) == []


def test_a_mix_says_what_each_trace_would_have(task: Task, tmp_path: Path) -> None:
    mixed = tune(replace(task, refine=0), tmp_path, 1, silent)
    easy, hard = change_lines(mixed)[1:]
    assert mixed.own_depth_at == {task.traces[0]: {1: 3, 64: 3}, task.traces[1]: {1: 0, 64: 0}}
    assert mixed.depth_at == {1: 3, 64: 2}
    assert mixed.schedule == "schedule:ranges=[[1,63,3],[64,64,2]]"
    assert headline(mixed) == "vllm: a batch-size schedule (K=3 up to 63, K=2 up to 64)."
    assert easy.startswith(f"{task.traces[0]} alone: K=3 instead of 2 at 64; its own K at each load would give +")
    assert hard.startswith(f"{task.traces[1]} alone: K=0 instead of 3 at 1, K=0 instead of 2 at 64; its own K at each")
    assert hard.endswith("against the setting above.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine": "sglan"}, "unknown engine 'sglan', did you mean 'sglang'?"),
        ({"engine": "tensorrt-llm"}, "--engine-version is missing"),
        ({"latency": "h201"}, "unknown latency 'h201'"),
        ({"current": "static:k=9"}, "static: k is 9, expected 0 to 3"),
    ],
)
def test_mistakes(task: Task, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=message):
        tune(replace(task, **change), tmp_path, 1, silent)


def test_a_single_request_has_no_interval(task: Task, tmp_path: Path) -> None:
    one = replace(task, traces=(f"{task.traces[0]}:requests=1",), loads=(1,), conditions=Conditions(planner_time="off"))
    header, *lines = gain_lines(tune(one, tmp_path, 1, silent))
    assert header == "Expected gain (throughput, no intervals, since there is a single request):"
    assert not any("[" in line for line in lines)


def test_traces_of_two_drafters_are_no_mix(task: Task, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    write_trace(random_trace(3, kind="ngram"), other)
    with pytest.raises(BenchError, match=r"other.parquet: its drafter is ngram of 3 .* expected one drafter"):
        tune(replace(task, traces=(task.traces[0], str(other))), tmp_path / "cells", 1, silent)


def test_prices_without_a_drafter_are_named(task: Task, tmp_path: Path) -> None:
    prices = tmp_path / "target.csv"
    labels = {
        "format": "lightspec-bench-latency 1", "kind": "linear", "name": "bare", "device": "none", "model": "none",
        "dtype": "bf16", "engine": "none", "date": "2026-01-01", "origin": "measured", "source": "hand",
        "licence": "none",
    }  # fmt: skip
    header = [f"# {key}: {value}" for key, value in labels.items()]
    host = [f"# {key}: 0" for key in ("host_step_ms", "host_request_us", "drafter_step_ms", "drafter_request_us")]
    line = ["# fixed_ms: 5", "# us_per_row: 10", "# us_per_context_token: 0", "part,rows,requests,context_tokens,ms"]
    prices.write_text("\n".join([*header, *host, *line]) + "\n", encoding="utf-8")
    with pytest.raises(BenchError, match="prices no pass of a drafter, and easy was made with one"):
        tune(replace(task, latency=str(prices)), tmp_path / "cells", 1, silent)
