"""Results: a folder of finished cells becomes a summary, a comparison, pictures and a report page."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lightspec_bench.core import BenchError, Run
from lightspec_bench.describe import Description, describe
from lightspec_bench.experiment import stored_cells, stored_runs, stored_suite
from lightspec_bench.files import write_atomically
from lightspec_bench.latency_file import describe_latency
from lightspec_bench.measured_notes import measured_notes
from lightspec_bench.reports.cells import CELL, is_dynamic, request_rows
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.current import check_current
from lightspec_bench.reports.metrics import summarise
from lightspec_bench.reports.published import beside
from lightspec_bench.reports.ranking import losing, rank, with_absent
from lightspec_bench.reports.report import Look, write_report
from lightspec_bench.reports.request_metrics import request_goodput
from lightspec_bench.reports.themes import theme_of
from lightspec_bench.reports.timeline import Timeline
from lightspec_bench.store import read_json
from lightspec_bench.suite import Cell, Suite


@dataclass(frozen=True, slots=True)
class Results:
    """What a folder holds: its suite, the comparison of all cells, the ranking over them, the files made, and sentences
    on cells without a result."""

    suite: Suite
    comparison: pd.DataFrame
    ranking: pd.DataFrame
    files: list[Path]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What whoever reads the report may choose: the `current` setting (a K or a planner's name), the `theme` of picture
    files, the GPUs that one engine runs on (None: what the latency model says, else 1), and the bounds that a request
    has to keep in seconds (None: the suite's)."""

    current: str | None = None
    theme: str = "default"
    num_gpus: int | None = None
    slo: Mapping[str, float] | None = None


def make_results(folder: Path, options: ReportOptions | None = None) -> Results:
    """Read the folder's finished cells; write `summary.csv`, `summary.parquet`, pictures and `report.html`."""
    options = options or ReportOptions()
    theme = theme_of(options.theme)
    suite = stored_suite(folder)
    cells = stored_cells(suite, folder)
    slo = suite.slo if options.slo is None else options.slo
    summary, requests, runs = read_frames(suite, cells, folder, slo)
    current = check_current(options.current, summary) if options.current is not None else None
    comparison = compare(summary, requests, current=current)
    absent = _absent(cells, folder)
    ranking = with_absent(rank(comparison, requests), absent)
    files = [folder / "summary.csv", folder / "summary.parquet"]
    write_atomically(files[0], lambda path: summary.to_csv(path, index=False))
    write_atomically(files[1], lambda path: summary.to_parquet(path, index=False))
    notes = absent_notes(absent)
    if suite.measured is not None:
        notes += measured_notes(folder, suite, runs, summary)
    pages = write_report(
        folder,
        comparison,
        _timelines(suite, runs),
        asdict(suite),
        read_json(folder / "environment.json"),
        notes,
        suite.published,
        ranking,
        _descriptions(suite),
        Look(theme, current, _num_gpus(suite, options.num_gpus), _device(suite)),
    )
    return Results(suite, comparison, ranking, [*files, *pages], notes)


def read_frames(
    suite: Suite, cells: Sequence[Cell], folder: Path, slo: Mapping[str, float] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame, list[tuple[Cell, Run]]]:
    """The finished cells' summary, their request rows, and the runs that are shown step by step: of a simulated suite
    those on its timelines, since all of them need not fit into memory."""
    summary, requests, kept = [], [], []
    for cell, run in stored_runs(cells, folder):
        kept_slo = {"request_goodput": request_goodput(run.requests, slo, run.totals.elapsed_s)} if slo else {}
        summary.append(_names(cell) | _origins(run) | summarise(run) | kept_slo)
        requests.append(_requests(cell, run))
        if suite.measured is not None or _on_timeline(suite, cell):
            kept.append((cell, run))
    if not summary:
        raise BenchError(f"{folder}: has no finished cell, expected at least one")
    return pd.DataFrame(summary), pd.concat(requests, ignore_index=True), kept


def _names(cell: Cell) -> dict[str, Any]:
    """The columns that name a cell in a summary."""
    return {name: getattr(cell, name) for name in (*CELL, "seed")}


def _origins(run: Run) -> dict[str, Any]:
    """Where a cell's numbers come from: the run's trace, and its latency model."""
    return {"origin": run.origin, "latency_origin": run.settings["latency_model"]["origin"]}


def _device(suite: Suite) -> str:
    return "CPU" if suite.measured is not None and suite.measured.device == "cpu" else "GPU"


def _num_gpus(suite: Suite, given: int | None) -> dict[str, int]:
    """GPUs of one engine by latency model: as given, else what the model's table says of its device."""
    found = {}
    for latency in suite.latencies:
        device = ""
        if given is None and suite.measured is None:
            with contextlib.suppress(BenchError):  # the table may be gone since
                device = describe_latency(suite.spec(latency)).get("device", "")
        number = re.search(r"\b(\d+) GPUs", device)
        found[latency] = given or (int(number[1]) if number else 1)
    return found


def _requests(cell: Cell, run: Run) -> pd.DataFrame:
    return pd.DataFrame(request_rows(_names(cell), run, run.settings["num_trace_requests"]))


def _absent(cells: Sequence[Cell], folder: Path) -> pd.DataFrame:
    """A row per cell without a result: the columns that name it, `status` and `reason`."""
    path = folder / "outcomes.json"
    by_key = {cell.key: cell for cell in cells}
    found = [outcome for outcome in (read_json(path) if path.exists() else []) if outcome["key"] in by_key]
    columns = [*CELL, "seed", "status", "reason"]
    rows = [_names(by_key[o["key"]]) | {"status": o["status"], "reason": o["reason"]} for o in found]
    return pd.DataFrame(rows, columns=columns)


def absent_notes(absent: pd.DataFrame) -> list[str]:
    """A sentence for each reason why cells have no result; planners that share one are named together."""
    shared = [
        _without(str(reason), str(name)) for reason, name in zip(absent["reason"], absent["planner"], strict=True)
    ]
    notes = []
    for (status, reason), rows in absent.groupby(["status", pd.Series(shared, index=absent.index)], sort=False):
        planners = list(rows["planner"].unique())
        alone = f"{len(rows)} cells {status}: {rows['reason'].iloc[0]}"
        together = f"{len(rows)} cells {status}: {', '.join(planners)}: each {reason}"
        notes.append(alone if len(planners) == 1 else together)
    return notes


def _without(reason: str, planner: str) -> str:
    """A reason without the planner that begins it."""
    return reason.removeprefix(planner).lstrip(": ")


def _descriptions(suite: Suite) -> list[Description]:
    """Of every planner the suite names that can still be imported."""
    found = []
    for planner in dict.fromkeys(("none", "static", *suite.planners) if suite.every_static else suite.planners):
        with contextlib.suppress(BenchError):
            found.append(describe(planner))
    return found


def _timelines(suite: Suite, runs: Sequence[tuple[Cell, Run]]) -> list[Timeline]:
    """Per trace: the suite's dynamic planners at its first latency model and middle concurrency."""
    found = []
    for trace in suite.traces:
        shown = [
            (cell, run)
            for cell, run in runs
            if cell.trace == trace and _on_timeline(suite, cell) and run.steps is not None
        ]
        if shown:
            origin = _origins(shown[0][1])["latency_origin"]
            named = [(cell.planner, run) for cell, run in shown]
            found.append(Timeline(trace, suite.latencies[0], origin, _middle(suite), named))
    return found


def _on_timeline(suite: Suite, cell: Cell) -> bool:
    place = (cell.latency, cell.concurrency, cell.seed)
    shown = cell.planner in suite.planners and is_dynamic(cell.planner)
    return shown and place == (suite.latencies[0], _middle(suite), suite.seeds[0])


def _middle(suite: Suite) -> int:
    return sorted(suite.concurrencies)[len(suite.concurrencies) // 2]


def document(folder: Path, results: Results) -> dict[str, Any]:
    """The results as JSON values: `cells` per planner and place, the `ranking`, who is `losing_to_none` in which cell,
    and the `planners` as declared; NaN as null."""
    published = results.suite.published
    beside_published = {"published": [asdict(g) for g in beside(results.comparison, published)]} if published else {}
    return {
        "folder": str(folder),
        "files": [str(path) for path in results.files],
        "cells": _values(results.comparison),
        "ranking": _values(results.ranking),
        "losing_to_none": _values(losing(results.comparison)),
        "planners": [_json(description.document) for description in _descriptions(results.suite)],
        **beside_published,
        "notes": results.notes,
    }


def _values(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON values, NaN as None."""
    return [{str(key): value for key, value in row.items()} for row in _nulls(frame).to_dict(orient="records")]


def _nulls(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(object).where(frame.notna(), None)


def _json(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what JSON cannot say as text."""
    return dict(json.loads(json.dumps(document, default=str)))
