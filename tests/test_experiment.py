"""The experiment on tiny traces: what it writes, resumes, skips and survives; and no planner beats the oracle."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lightspec_bench.core import BenchError, Run
from lightspec_bench.experiment import run_cell, run_suite, stored_runs, stored_suite, suite_cells
from lightspec_bench.results import document, make_results
from lightspec_bench.store import read_run, write_run
from lightspec_bench.suite import Cell, Conditions, Suite
from lightspec_bench.traces.format import write_trace
from tests.support import random_trace

LATENCY = "h100-llama-3.1-8b"
EXACT = Conditions(planner_time="off")


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Two small traces, one without confidences, and a planner that needs them."""
    for name, confidences in (("with", True), ("without", False)):
        write_trace(random_trace(5, confidences=confidences, longest=12), tmp_path / f"{name}.parquet")
    traces = (str(tmp_path / "with.parquet"), str(tmp_path / "without.parquet"))
    planners = ("lightspec-reference", "dspark", "oracle")
    return Suite("tiny", traces, (LATENCY,), (1, 4), planners, conditions=EXACT)


def test_a_suite_leaves_results_and_reasons(suite: Suite, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    outcomes = run_suite(suite, folder, jobs=1, resume=False)
    assert stored_suite(folder) == suite
    by_status = {status: [o for o in outcomes if o.status == status] for status in ("done", "skipped", "failed")}
    assert {status: len(found) for status, found in by_status.items()} == {"done": 30, "skipped": 2, "failed": 0}
    assert by_status["skipped"][0].reason == "dspark needs confidence, which trace hand does not have"
    results = make_results(folder)
    names = sorted(path.name for path in folder.iterdir())
    assert {"cells", "environment.json", "report.html", "suite.json", "summary.csv", "summary.parquet"} <= set(names)
    assert not [name for name in names if name.endswith(".tmp")]
    summary = pd.read_parquet(folder / "summary.parquet")
    assert len(summary) == 30
    assert set(summary["origin"]) == {"simulated from a recorded trace"}
    assert results.notes == ["2 cells skipped: dspark needs confidence, which trace hand does not have"]
    printed = json.loads(json.dumps(document(folder, results), allow_nan=False))
    assert {row["planner"] for row in printed["cells"]} >= {"none", "best-static", "oracle"}
    overall = {row["planner"]: row for row in printed["ranking"] if row["scope"] == "all traces"}
    assert (overall["lightspec-reference"]["num_cells"], overall["lightspec-reference"]["num_absent"]) == (4, 0)
    assert (overall["dspark"]["num_cells"], overall["dspark"]["num_absent"], overall["dspark"]["place"]) == (2, 2, None)
    assert overall["dspark"]["reason"] == "dspark needs confidence, which trace hand does not have"
    assert overall["oracle"]["regret"] == 0.0
    assert len(printed["losing_to_none"]) == 4
    assert [row["name"] for row in printed["planners"]] == ["none", "static", *suite.planners]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<details class=policy") == 5
    assert set(summary["num_switches"].notna()) == {True}


def test_a_planner_that_no_trace_has_enough_for_is_skipped_everywhere_with_the_reason(
    suite: Suite, tmp_path: Path
) -> None:
    needy = replace(suite, traces=suite.traces[1:], planners=("dspark", "dspark:graph_max_batch_size=4"))
    outcomes = run_suite(needy, tmp_path / "out", jobs=1, resume=False)
    assert [outcome.status for outcome in outcomes].count("skipped") == 4
    results = make_results(tmp_path / "out")
    last = results.ranking.tail(2)
    assert last["planner"].tolist() == list(needy.planners)
    assert last["num_cells"].tolist() == [0, 0]
    assert last["reason"].iloc[0] == "dspark needs confidence, which trace hand does not have"
    assert results.notes == [
        "4 cells skipped: dspark, dspark:graph_max_batch_size=4: each needs confidence, which trace hand does not have"
    ]


def test_resume_runs_only_what_is_missing(suite: Suite, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    run_suite(suite, folder, jobs=1, resume=False)
    cells = sorted((folder / "cells").glob("*.json"))
    before = {path: path.stat().st_mtime_ns for path in cells}
    cells[3].unlink()
    calls: list[tuple[int, int]] = []
    run_suite(suite, folder, jobs=1, resume=True, progress=lambda done, total: calls.append((done, total)))
    after = {path: path.stat().st_mtime_ns for path in cells}
    assert [path for path in cells if before[path] != after[path]] == [cells[3]]
    assert calls[-1] == (32, 32)
    assert len(calls) == 3  # the missing one and the two that do not fit


def test_an_interrupt_keeps_finished_cells(suite: Suite, tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def stop(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_suite(suite, folder, jobs=1, resume=False, progress=stop)
    assert len(list(stored_runs(suite_cells(suite), folder))) == 5
    assert {o.status for o in run_suite(suite, folder, jobs=2, resume=True)} == {"done", "skipped"}
    assert len(list(stored_runs(suite_cells(suite), folder))) == 30


def test_a_broken_planner_ends_its_cells_not_the_suite(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "from lightspec_bench.planners.static import Static\nfrom lightspec_bench.core import Plan\n"
        "class Broken(Static):\n    def plan(self, batch):\n        return Plan(99, batch.num_requests)\n"
        "class Raises(Static):\n    def plan(self, batch):\n        raise RuntimeError('no plan today')\n"
    )
    (tmp_path / "broken_planners.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    planners = ("broken_planners:Broken", "broken_planners:Raises")
    small = Suite("broken", suite.traces[:1], (LATENCY,), (1,), planners, conditions=EXACT)
    outcomes = run_suite(small, tmp_path / "out", jobs=1, resume=False)
    assert [o.reason for o in outcomes if o.status == "failed"] == [
        "planner broken_planners:Broken: num_draft_tokens is 99, expected 0 to 3",
        "broken_planners:Raises: RuntimeError: no plan today",
    ]
    assert sum(o.status == "done" for o in outcomes) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"traces": ("nowhere.parquet",)}, "nowhere.parquet"),
        ({"latencies": ("h201",)}, "unknown latency 'h201'"),
        ({"planners": ("schedule:ranges=[[1, 4, 2], [3, 9, 1]]",)}, "overlap"),
        ({"planners": ("static:k=99",)}, "k is 99, expected 0 to 3"),
        ({"conditions": Conditions(arrivals="poisson")}, "rate is None"),
        ({"conditions": Conditions(prefill="later")}, "prefill is 'later'"),
        ({"conditions": Conditions(lag_steps=2)}, "lag_steps is 2, expected 0 .* or 1"),
    ],
)
def test_mistakes_stop_before_anything_is_written(suite: Suite, tmp_path: Path, change, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BenchError, match=message):
        run_suite(replace(suite, **change), tmp_path / "out", jobs=1, resume=False)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_not_overwritten(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="is not empty, expected a new folder, or --resume"):
        run_suite(suite, tmp_path, jobs=1, resume=False)


def test_a_run_comes_back_as_it_was_saved(suite: Suite, tmp_path: Path) -> None:
    run = run_cell(Cell(suite.traces[0], LATENCY, 4, "static:k=2", 0, EXACT))
    write_run(tmp_path, "cell", run)
    again = read_run(tmp_path, "cell")
    assert isinstance(again, Run)
    assert (again.settings, again.environment, again.origin) == (run.settings, run.environment, run.origin)
    np.testing.assert_equal(asdict(again.totals), asdict(run.totals))
    np.testing.assert_equal(again.requests, run.requests)
    np.testing.assert_equal(again.steps, run.steps)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "cell.json").write_text("{"), "cell.json: cannot be read as JSON"),
        (lambda f: (f / "cell.json").write_text("{}"), "cell.json: is not a finished run: KeyError"),
        (
            lambda f: (f / "cell.requests.parquet").write_bytes(b"PAR1"),
            "cell.requests.parquet: cannot be read as Parquet",
        ),
        (lambda f: (f / "cell.json").unlink(), "cell.json: is not there"),
    ],
)
def test_a_damaged_run_is_named(suite: Suite, tmp_path: Path, damage, message: str) -> None:  # type: ignore[no-untyped-def]
    write_run(tmp_path, "cell", run_cell(Cell(suite.traces[0], LATENCY, 1, "none", 0, EXACT)))
    damage(tmp_path)
    with pytest.raises(BenchError, match=message):
        read_run(tmp_path, "cell")


def test_the_same_seed_gives_the_same_run(suite: Suite) -> None:
    cell = Cell(suite.traces[0], LATENCY, 4, "lightspec-reference", 3, EXACT)
    first, second = run_cell(cell), run_cell(cell)
    np.testing.assert_equal(first.requests, second.requests)
    assert first.totals.elapsed_s == second.totals.elapsed_s
