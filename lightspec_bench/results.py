"""Results: a folder of finished cells becomes a summary, a comparison, pictures and a report page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lightspec_bench.core import BenchError, Run
from lightspec_bench.experiment import stored_runs, stored_suite, suite_cells
from lightspec_bench.files import write_atomically
from lightspec_bench.reports.cells import CELL, is_dynamic, request_rows
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.metrics import summarise
from lightspec_bench.reports.published import beside
from lightspec_bench.reports.report import write_report
from lightspec_bench.reports.timeline import Timeline
from lightspec_bench.store import read_json
from lightspec_bench.suite import Cell, Suite


@dataclass(frozen=True, slots=True)
class Results:
    """What a folder holds: its suite, the comparison of all cells, the files made, and cells without a result."""

    suite: Suite
    comparison: pd.DataFrame
    files: list[Path]
    notes: list[str]


def make_results(folder: Path) -> Results:
    """Read the folder's finished cells; write `summary.csv`, `summary.parquet`, pictures and `report.html`."""
    suite = stored_suite(folder)
    runs = list(stored_runs(suite_cells(suite), folder))
    if not runs:
        raise BenchError(f"{folder}: has no finished cell, expected at least one")
    summary = pd.DataFrame([_names(cell) | _origins(run) | summarise(run) for cell, run in runs])
    requests = pd.concat([_requests(cell, run) for cell, run in runs], ignore_index=True)
    comparison = compare(summary, requests)
    files = [folder / "summary.csv", folder / "summary.parquet"]
    write_atomically(files[0], lambda path: summary.to_csv(path, index=False))
    write_atomically(files[1], lambda path: summary.to_parquet(path, index=False))
    notes = _notes(folder)
    environment = read_json(folder / "environment.json")
    timelines = _timelines(suite, runs)
    pages = write_report(folder, comparison, timelines, asdict(suite), environment, notes, suite.published)
    return Results(suite, comparison, [*files, *pages], notes)


def _names(cell: Cell) -> dict[str, Any]:
    """The columns that name a cell in a summary."""
    return {name: cell.settings[name] for name in (*CELL, "seed")}


def _origins(run: Run) -> dict[str, Any]:
    """Where a cell's numbers come from: the run's trace, and its latency model."""
    return {"origin": run.origin, "latency_origin": run.settings["latency_model"]["origin"]}


def _requests(cell: Cell, run: Run) -> pd.DataFrame:
    return pd.DataFrame(request_rows(_names(cell), run, run.settings["num_trace_requests"]))


def _notes(folder: Path) -> list[str]:
    """One sentence for each reason why cells have no result."""
    path = folder / "outcomes.json"
    outcomes = read_json(path) if path.exists() else []
    reasons = Counter((o["status"], o["reason"]) for o in outcomes)
    return [f"{count} cells {status}: {reason}" for (status, reason), count in reasons.items()]


def _timelines(suite: Suite, runs: Sequence[tuple[Cell, Run]]) -> list[Timeline]:
    """Per trace: the suite's dynamic planners at its first latency model and middle concurrency."""
    latency = suite.latencies[0]
    concurrency = sorted(suite.concurrencies)[len(suite.concurrencies) // 2]
    found = []
    for trace in suite.traces:
        place = (trace, latency, concurrency, suite.seeds[0])
        shown = [
            (cell, run)
            for cell, run in runs
            if (cell.trace, cell.latency, cell.concurrency, cell.seed) == place
            and cell.planner in suite.planners
            and is_dynamic(cell.planner)
            and run.steps is not None
        ]
        if shown:
            origin = _origins(shown[0][1])["latency_origin"]
            named = [(cell.planner, run) for cell, run in shown]
            found.append(Timeline(trace, latency, origin, concurrency, named))
    return found


def document(folder: Path, results: Results) -> dict[str, Any]:
    """The results as JSON values: one object per planner and place, NaN as null."""
    rows = results.comparison.astype(object).where(results.comparison.notna(), None)
    published = results.suite.published
    beside_published = {"published": [asdict(g) for g in beside(results.comparison, published)]} if published else {}
    return {
        "folder": str(folder),
        "files": [str(path) for path in results.files],
        "cells": rows.to_dict(orient="records"),
        **beside_published,
        "notes": results.notes,
    }
