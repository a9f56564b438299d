"""Rankings over cells, from hand-made comparisons: geometric means, worst cells, places, intervals, who loses where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from lightspec_bench.core import Run
from lightspec_bench.reports import intervals
from lightspec_bench.reports.cells import CELL, request_rows
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.metrics import summarise
from lightspec_bench.reports.ranking import OVERALL, losing, losing_sentences, rank, with_absent
from lightspec_bench.reports.ranking_columns import worst_label
from tests.reports import tiny
from tests.reports.test_comparison import cell, faster
from tests.reports.test_intervals import random_run

TWO_LOADS = {
    (1, "none"): 100.0, (1, "static:k=2"): 200.0, (1, "fast"): 400.0, (1, "slow"): 50.0, (1, "oracle"): 400.0,
    (8, "none"): 400.0, (8, "static:k=2"): 200.0, (8, "fast"): 200.0, (8, "slow"): 400.0, (8, "oracle"): 800.0,
}  # fmt: skip


def ranked(comparison: pd.DataFrame, scope: str = OVERALL) -> pd.DataFrame:
    found = rank(comparison)
    return found[found["scope"] == scope].set_index("planner")


def test_a_planner_is_ranked_by_the_geometric_mean_of_its_ratios_to_best_static_k() -> None:
    shown = ranked(compare(tiny.summary(TWO_LOADS)))
    # best static K: K=2 at 1 request, no speculation at 8
    expected = {
        "oracle": 4**0.5, "fast": 1.0, "best-static": 1.0, "none": 0.5**0.5, "static:k=2": 0.5**0.5, "slow": 0.5,
    }  # fmt: skip
    assert shown["ratio_to_best_static"].to_dict() == pytest.approx(expected)
    assert shown["ratio_to_none"].round(6).to_dict() == {
        "oracle": 2.828427, "fast": 1.414214, "best-static": 1.414214, "none": 1.0, "static:k=2": 1.0, "slow": 0.707107,
    }  # fmt: skip
    assert (shown.index[0], shown.index[-1]) == ("oracle", "slow")
    assert shown["place"].dropna().to_dict() == {"fast": 1, "none": 2, "static:k=2": 2, "slow": 4}


def test_the_regret_is_one_minus_the_geometric_mean_against_the_oracle() -> None:
    shown = ranked(compare(tiny.summary(TWO_LOADS)))
    assert shown.loc["oracle", "regret"] == 0.0
    assert shown.loc["fast", "regret"] == pytest.approx(1 - (1.0 * 0.25) ** 0.5)
    without = {key: value for key, value in TWO_LOADS.items() if key[1] != "oracle"}
    assert ranked(compare(tiny.summary(without)))["regret"].isna().all()


def test_the_worst_cell_is_named_and_cells_are_counted() -> None:
    shown = ranked(compare(tiny.summary(TWO_LOADS)))
    fast, slow = shown.loc["fast"], shown.loc["slow"]
    assert (fast["worst_ratio"], worst_label(dict(fast))) == (0.5, "chat · h200 · 8")
    assert (slow["worst_ratio"], worst_label(dict(slow))) == (0.25, "chat · h200 · 1")
    counts = ["num_cells", "num_ahead", "num_behind", "num_losing"]
    assert fast[counts].tolist() == [2, 1, 1, 1]  # loses to no speculation at 8
    assert slow[counts].tolist() == [2, 0, 1, 1]  # level with it at 8
    assert shown["switches_per_1000_steps"].tolist() == [250.0] * 6


def test_a_planner_without_a_result_in_some_cell_has_no_place() -> None:
    summary = tiny.summary({key: value for key, value in TWO_LOADS.items() if key != (8, "fast")})
    shown = ranked(compare(summary))
    assert shown.loc["fast", "num_cells"] == 1
    assert shown["place"].dropna().to_dict() == {"none": 1, "static:k=2": 1, "slow": 3}
    assert shown.index.get_loc("fast") == 0  # it still stands where its own cells put it: 2.0, as the oracle


def test_several_traces_are_ranked_together_and_each() -> None:
    code = tiny.summary({key: value for key, value in TWO_LOADS.items() if key[1] != "slow"}, trace="code")
    comparison = compare(pd.concat([tiny.summary(TWO_LOADS), code], ignore_index=True))
    assert list(rank(comparison)["scope"].unique()) == [OVERALL, "chat", "code"]
    assert np.isnan(ranked(comparison).loc["slow", "place"])
    assert ranked(comparison, "chat").loc["slow", "place"] == 4
    assert "slow" not in ranked(comparison, "code").index


def test_without_static_planners_places_still_follow_throughput() -> None:
    shown = ranked(compare(tiny.summary({(1, "none"): 1.0, (1, "a"): 2.0, (8, "none"): 2.0, (8, "a"): 8.0})))
    assert shown["ratio_to_best_static"].isna().all()
    assert shown["ratio_to_none"].to_dict() == pytest.approx({"a": 8**0.5, "none": 1.0})
    assert shown["place"].to_dict() == {"a": 1, "none": 2}


def with_requests(runs: dict[tuple[int, str], Run]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Comparison and request rows of runs by (concurrency, planner)."""
    rows: list[dict[str, Any]] = [cell(0, run, planner) | {"concurrency": n} for (n, planner), run in runs.items()]
    requests = pd.concat(
        pd.DataFrame(request_rows(row, run, num_trace_requests=60))
        for row, run in zip(rows, runs.values(), strict=True)
    )
    return compare(pd.DataFrame(rows), requests), requests


def test_intervals_are_paired_over_requests_and_cells() -> None:
    slow = random_run()
    runs = {}
    for concurrency, gain in ((1, 1.2), (8, 1.3)):
        runs |= {(concurrency, "none"): slow, (concurrency, "static:k=1"): faster(slow, 1.1)}
        runs[concurrency, "same-for-all"] = faster(slow, gain)
    found = rank(*with_requests(runs)).set_index("planner")
    mean = (1.2 * 1.3) ** 0.5
    shown = found.loc["same-for-all", ["ratio_to_none", "ratio_to_none_low", "ratio_to_none_high"]]
    assert shown.tolist() == pytest.approx([mean] * 3)
    shown = found.loc["same-for-all", [f"ratio_to_best_static{side}" for side in ("", "_low", "_high")]]
    assert shown.tolist() == pytest.approx([mean / 1.1] * 3)


def uneven(run: Run, seed: int) -> Run:
    """The same requests, each faster or slower by chance."""
    factor = np.random.default_rng(seed).uniform(0.5, 1.5, len(run.requests["request_id"]))
    finish = run.requests["start_s"] + (run.requests["finish_s"] - run.requests["start_s"]) * factor
    return Run(run.settings, run.environment, run.origin, run.totals, run.requests | {"finish_s": finish}, run.steps)


def test_two_cells_of_the_same_requests_are_not_twice_the_evidence() -> None:
    base = random_run()
    other = uneven(base, 1)
    once = {(1, "none"): base, (1, "static:k=1"): base, (1, "a"): other}
    twice = once | {(8, planner): run for (_, planner), run in once.items()}
    widths = []
    for runs in (once, twice):
        row = rank(*with_requests(runs)).set_index("planner").loc["a"]
        widths.append(row["ratio_to_none_high"] - row["ratio_to_none_low"])
    assert widths[0] > 0.02
    assert widths[1] == pytest.approx(widths[0])


def test_random_weights_are_one_on_average_and_the_same_for_a_seed() -> None:
    drawn = intervals.weights(50, seed=3, num_resamples=2000)
    assert drawn.shape == (2000, 50)
    assert (drawn > 0).all()
    assert drawn.mean() == pytest.approx(1.0, abs=0.02)
    np.testing.assert_array_equal(drawn, intervals.weights(50, seed=3, num_resamples=2000))


def test_who_loses_to_no_speculation_is_named_per_cell_worst_first() -> None:
    summary = tiny.summary(TWO_LOADS | {(8, "level"): 397.0, (8, "worse"): 100.0})
    found = losing(compare(summary))
    assert found.to_dict("records") == [
        {"trace": "chat", "latency": "h200", "concurrency": 1, "num_planners": 2, "planners": ["slow"]},
        {"trace": "chat", "latency": "h200", "concurrency": 8, "num_planners": 4, "planners": ["worse", "fast"]},
    ]
    assert losing_sentences(compare(summary)) == [
        "chat · h200 · 1: 1 of 2 dynamic planners loses to no speculation: slow (-50.0 %).",
        "chat · h200 · 8: 2 of 4 dynamic planners lose to no speculation: worse (-75.0 %), fast (-50.0 %).",
    ]


def test_a_loss_within_its_interval_is_not_a_loss() -> None:
    comparison = compare(tiny.summary({(1, "none"): 100.0, (1, "static:k=1"): 90.0, (1, "a"): 95.0}))
    for bounds, names in (((0.90, 1.01), []), ((0.90, 0.98), ["a"])):
        bounded = comparison.assign(ratio_to_none_low=bounds[0], ratio_to_none_high=bounds[1])
        assert losing(bounded)["planners"].tolist() == [names]


def test_cells_without_a_result_stand_in_the_ranking_with_the_reason() -> None:
    rows = [
        ("chat", "h200", 1, "slow", "skipped", "slow needs entropy"),
        ("chat", "h200", 1, "needs-kl", "skipped", "needs-kl needs kl_divergence"),
        ("chat", "h200", 8, "needs-kl", "failed", "needs-kl: KeyError: 3"),
    ]
    absent = pd.DataFrame(rows, columns=[*CELL, "status", "reason"])
    summary = tiny.summary({key: value for key, value in TWO_LOADS.items() if key != (1, "slow")})
    found = with_absent(rank(compare(summary)), absent).set_index("planner")
    assert found.index[-1] == "needs-kl"
    assert found.loc["needs-kl", ["num_cells", "num_absent", "reason"]].tolist() == [
        0, 2, "needs-kl needs kl_divergence; needs-kl: KeyError: 3",
    ]  # fmt: skip
    assert found.loc["slow", ["num_cells", "num_absent", "reason"]].tolist() == [1, 1, "slow needs entropy"]
    assert found.loc["fast", ["num_cells", "num_absent", "reason"]].tolist() == [2, 0, ""]


def test_nothing_absent_leaves_the_ranking_as_it_was() -> None:
    before = rank(compare(tiny.summary(TWO_LOADS)))
    after = with_absent(before, pd.DataFrame(columns=[*CELL, "status", "reason"]))
    pd.testing.assert_frame_equal(after[before.columns], before)


def test_summaries_hold_what_a_ranking_needs() -> None:
    assert {"num_switches", "num_steps"} <= set(summarise(tiny.run()))
