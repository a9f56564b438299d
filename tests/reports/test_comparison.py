"""Seeds pooled, best static K in hindsight, ratios, regret and ranks, from summary rows to a comparison."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lightspec_bench.core import BenchError, Run, Totals
from lightspec_bench.reports.cells import request_rows
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.metrics import summarise
from lightspec_bench.reports.pooling import pool_seeds
from tests.reports import tiny
from tests.reports.test_intervals import random_run

SGLANG = {
    # sglang#23336, tokens/s: the longest acceptance length (4.52, static 7) is not the fastest
    (1, "none"): 447.2,
    (1, "static:k=1"): 594.7,
    (1, "static:k=3"): 767.8,
    (1, "static:k=7"): 732.3,
    (1, "adaptive"): 791.2,
}
COLUMNS = ["planner", "stands_for", "throughput", "ratio_to_none", "ratio_to_best_static", "rank"]


def test_a_published_sweep() -> None:
    summary = tiny.summary(SGLANG).assign(mean_acceptance_length=[np.nan, 1.85, 3.04, 4.52, 4.43])
    shown = compare(summary)[COLUMNS].round(4)
    assert shown.to_dict("split")["data"] == [
        ["adaptive", "adaptive", 791.2, 1.7692, 1.0305, 1.0],
        ["static:k=3", "static:k=3", 767.8, 1.7169, 1.0, 2.0],
        ["best-static", "static:k=3", 767.8, 1.7169, 1.0, pytest.approx(np.nan, nan_ok=True)],
        ["static:k=7", "static:k=7", 732.3, 1.6375, 0.9538, 3.0],
        ["static:k=1", "static:k=1", 594.7, 1.3298, 0.7746, 4.0],
        ["none", "none", 447.2, 1.0, 0.5824, 5.0],
    ]


def test_no_speculation_and_depth_zero_stay_apart() -> None:
    summary = tiny.summary({(2, "none"): 100.0, (2, "static:k=0"): 93.8})  # the order of vllm#49548
    shown = compare(summary).set_index("planner")
    assert shown.loc["static:k=0", "ratio_to_none"] == 0.938
    assert shown.loc["best-static", "stands_for"] == "none"


@pytest.mark.parametrize(
    ("throughputs", "best"),
    [
        ({"none": 5.0, "static:k=0": 5.0, "static:k=11": 5.0, "static:k=2": 5.0}, "none"),
        ({"none": 1.0, "static:k=11": 5.0, "static:k=2": 5.0, "dspark": 9.0}, "static:k=2"),
        ({"static": 5.0, "static:k=3": 5.0}, "static:k=3"),
        ({"static:k=0": 5.0, "oracle": 9.0}, "static:k=0"),
    ],
)
def test_best_static_is_the_fastest_fixed_setting_and_ties_go_to_the_smaller(
    throughputs: dict[str, float], best: str
) -> None:
    shown = compare(tiny.summary({(1, planner): value for planner, value in throughputs.items()}))
    assert shown.loc[shown["planner"] == "best-static", "stands_for"].tolist() == [best]


def test_without_a_reference_the_ratios_are_unknown() -> None:
    shown = compare(tiny.summary({(1, "none"): 100.0, (1, "dspark"): 120.0})).set_index("planner")
    assert "best-static" not in shown.index
    assert shown["ratio_to_best_static"].isna().all()
    assert shown["regret"].isna().all()
    assert shown.loc["dspark", "ratio_to_none"] == 1.2


def test_regret_is_what_is_missing_to_the_oracle() -> None:
    shown = compare(tiny.summary({(1, "oracle"): 200.0, (1, "dspark"): 150.0})).set_index("planner")
    assert shown["regret"].to_dict() == {"oracle": 0.0, "dspark": 0.25}


def test_groups_keep_the_order_of_traces_and_rise_with_load() -> None:
    both = [tiny.summary({(64, "none"): 9.0, (1, "none"): 1.0}, trace=trace) for trace in ("maths", "chat")]
    shown = compare(pd.concat(both, ignore_index=True))
    assert list(zip(shown["trace"], shown["concurrency"], strict=True)) == [
        ("maths", 1), ("maths", 64), ("chat", 1), ("chat", 64),
    ]  # fmt: skip


def merged(runs: list[Run]) -> Run:
    sums = {f.name: sum(getattr(run.totals, f.name) for run in runs) for f in fields(Totals)}
    requests = {name: np.concatenate([run.requests[name] for run in runs]) for name in runs[0].requests}
    return replace(runs[0], totals=Totals(**sums), requests=requests)


def cell(seed: int, run: Run, planner: str = "dspark") -> dict[str, Any]:
    return {
        "trace": "chat", "latency": "h200", "latency_origin": "modelled", "concurrency": 4, "planner": planner,
        "seed": seed, "origin": run.origin, **summarise(run),
    }  # fmt: skip


def test_pooled_seeds_are_one_run_of_all_their_steps() -> None:
    other = tiny.totals([[0, 0, 0], [7, 0, 0], [0, 3, 9]], num_steps=19, elapsed_s=11.0, draft_s=4.0, planner_s=1.0)
    idle = tiny.totals([[5, 0, 0], [0, 0, 0], [0, 0, 0]], num_draft_tokens=0)  # a seed that never drafted
    runs = [tiny.run(), tiny.run(totals=other), tiny.run(totals=idle)]
    pooled = pool_seeds(pd.DataFrame([cell(seed, run) for seed, run in enumerate(runs)])).iloc[0]
    whole = summarise(merged(runs))
    percentiles = ("p50_s", "p90_s", "p99_s")
    of_steps = ("num_switches", "switches_per_1000_steps")  # seeds do not follow on one another
    exact = [name for name in whole if not name.endswith(percentiles) and name not in of_steps]
    assert pooled["num_seeds"] == 3
    assert {name: pooled[name] for name in exact} == pytest.approx({name: whole[name] for name in exact})
    assert pooled["num_switches"] == 6  # 2 in each
    assert pooled["switches_per_1000_steps"] == pytest.approx(1000 * 6 / (8 + 19 + 8))
    assert pooled["tpot_p50_s"] == pytest.approx(summarise(runs[0])["tpot_p50_s"])  # equal in every seed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: pd.concat([s, s], ignore_index=True),
            "summary: cell (chat, h200, 1, none, 0) appears twice, expected one row per cell and seed",
        ),
        (
            lambda s: s.drop(columns="latency_origin"),
            "summary: column 'latency_origin' is missing, expected one row per cell with its metrics",
        ),
        (
            lambda s: pd.concat([s, s.assign(seed=1, origin="measured")], ignore_index=True),
            "summary: cell (chat, h200, 1, none) has rows of different origins, expected one",
        ),
    ],
)
def test_a_summary_that_cannot_be_pooled_says_why(change: Any, message: str) -> None:
    with pytest.raises(BenchError) as error:
        compare(change(tiny.summary({(1, "none"): 1.0})))
    assert str(error.value) == message


def faster(run: Run, factor: float) -> Run:
    """The same requests, each in 1 / factor of the time."""
    times = {name: run.requests[name] / factor for name in ("arrival_s", "start_s", "first_token_s", "finish_s")}
    totals = replace(run.totals, elapsed_s=run.totals.elapsed_s / factor)
    return replace(run, requests=run.requests | times, totals=totals)


def test_ratios_are_paired_so_that_the_same_gain_on_every_request_has_no_interval() -> None:
    slow = random_run()
    cells = {"none": slow, "static:k=1": faster(slow, 1.1), "dspark": faster(slow, 1.25)}
    rows = [cell(0, run, planner) for planner, run in cells.items()]
    requests = pd.concat(
        pd.DataFrame(request_rows(row, run, num_trace_requests=60))
        for row, run in zip(rows, cells.values(), strict=True)
    )
    shown = compare(pd.DataFrame(rows), requests).set_index("planner")
    for planner, ratio in (("dspark", 1.25), ("best-static", 1.1), ("none", 1.0)):
        bounds = shown.loc[planner, ["ratio_to_none", "ratio_to_none_low", "ratio_to_none_high"]]
        assert bounds.tolist() == pytest.approx([ratio] * 3)
    assert "regret_low" not in shown  # no oracle
    low, point, high = shown.loc["dspark", ["throughput_low", "throughput", "throughput_high"]]
    assert low < point < high
    assert (high - low) / point > 0.05


def test_the_regret_is_paired_with_the_oracle() -> None:
    slow = random_run()
    cells = {"none": slow, "oracle": faster(slow, 1.25)}
    rows = [cell(0, run, planner) for planner, run in cells.items()]
    requests = pd.concat(
        pd.DataFrame(request_rows(row, run, num_trace_requests=60))
        for row, run in zip(rows, cells.values(), strict=True)
    )
    shown = compare(pd.DataFrame(rows), requests).set_index("planner")
    assert shown.loc["none", ["regret", "regret_low", "regret_high"]].tolist() == pytest.approx([0.2] * 3)


def test_a_group_without_request_rows_has_unknown_intervals() -> None:
    summary = tiny.summary({(1, "none"): 1.0, (8, "none"): 2.0})
    names = {"trace": "chat", "latency": "h200", "concurrency": 1, "planner": "none", "seed": 0}
    requests = pd.DataFrame(request_rows(names, random_run(), num_trace_requests=60))
    shown = compare(summary, requests).set_index("concurrency")
    assert shown["throughput_low"].notna().to_dict() == {1: True, 8: False}


def test_request_rows_fold_repetitions_onto_the_row_of_the_trace() -> None:
    names = {"trace": "chat", "latency": "h200", "concurrency": 1, "planner": "none", "seed": 7, "more": "left out"}
    rows = request_rows(names, tiny.run(), num_trace_requests=2)
    assert rows["request_id"].tolist() == [0, 1, 0]
    assert rows["seed"].tolist() == [7, 7, 7]
    assert list(rows)[:5] == ["trace", "latency", "concurrency", "planner", "seed"]
    assert "more" not in rows
