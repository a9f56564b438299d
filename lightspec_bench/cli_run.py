"""What `run`, `replay` and `report` do: progress on stderr, tables or one JSON document on stdout."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightspec_bench.core import BenchError
from lightspec_bench.experiment import Outcome, run_suite
from lightspec_bench.results import Results, document, make_results
from lightspec_bench.suite import Conditions, Suite, check_suite, read_suite

if TYPE_CHECKING:
    from rich.console import Console


def run_command(
    suite_name: str,
    out: Path | None,
    seeds: list[int] | None,
    jobs: int | None,
    resume: bool,
    all_static: bool,
    json_output: bool,
) -> int:
    """Run a suite and report it; 1 when a planner failed in a cell, else 0."""
    suite = read_suite(suite_name)
    if seeds:
        suite = replace(suite, seeds=tuple(dict.fromkeys(seeds)))
        check_suite(suite, "--seed")
    if resume and out is None:
        raise BenchError("--resume needs --out, the folder to go on with")
    folder = out or Path("runs") / datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    outcomes = _run(suite, folder, jobs, resume)
    show_results(folder, make_results(folder), all_static, json_output)
    return int(any(outcome.status == "failed" for outcome in outcomes))


def replay_command(suite: Suite, out: Path | None, jobs: int | None, json_output: bool) -> None:
    """Run the few cells of `replay`; without `out` nothing is kept. A planner that cannot run is an error."""
    check_suite(suite, "replay")
    with tempfile.TemporaryDirectory() as temporary:
        folder = out or Path(temporary) / "replay"
        outcomes = _run(suite, folder, jobs, resume=False)
        for outcome in outcomes:
            if outcome.status != "done":
                raise BenchError(outcome.reason)
        show_results(folder, make_results(folder), False, json_output, kept=out is not None)


def report_command(folders: list[Path], all_static: bool, json_output: bool) -> None:
    """Report finished runs again."""
    results = [(folder, make_results(folder)) for folder in folders]
    if json_output:
        print(json.dumps([document(folder, made) for folder, made in results]))
        return
    for folder, made in results:
        show_results(folder, made, all_static, json_output)


def replay_suite(
    trace: str, planners: list[str], concurrency: int, latency: str, conditions: Conditions, seed: int, static: bool
) -> Suite:
    """The one-place suite that `replay` runs."""
    return Suite(
        name="replay",
        traces=(trace,),
        latencies=(latency,),
        concurrencies=(concurrency,),
        planners=tuple(dict.fromkeys(["none", *planners])),
        seeds=(seed,),
        every_static=static,
        conditions=conditions,
    )


def _run(suite: Suite, folder: Path, jobs: int | None, resume: bool) -> list[Outcome]:
    with progress_bar() as progress:
        try:
            return run_suite(suite, folder, jobs=jobs or os.cpu_count() or 1, resume=resume, progress=progress)
        except KeyboardInterrupt:
            print(f"interrupted; finished cells are kept, go on with --out {folder} --resume", file=sys.stderr)
            raise


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr, only where it is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("cells"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("cells", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def show_results(folder: Path, results: Results, all_static: bool, json_output: bool, kept: bool = True) -> None:
    if json_output:
        print(json.dumps(document(folder, results) if kept else _unkept(document(folder, results))))
        return
    from rich.console import Console

    from lightspec_bench.reports.table import published_table

    console = Console() if sys.stdout.isatty() else Console(width=160)
    published = results.suite.published
    if published:
        console.print(published_table(results.comparison, published))
        for note in published.notes:
            console.print(f"- {note}", highlight=False, markup=False)
    if all_static or not published:
        _show_comparison(console, results, all_static)
    for note in results.notes:
        console.print(note, style="yellow", highlight=False, markup=False)
    if kept:
        console.print(f"report: {folder / 'report.html'}", highlight=False, markup=False, soft_wrap=True)


def _show_comparison(console: Console, results: Results, all_static: bool) -> None:
    """Tables of single cells, unless there are many planners; the ranking; and the answers."""
    from lightspec_bench.reports.columns import origin_label
    from lightspec_bench.reports.ranking import losing_sentences
    from lightspec_bench.reports.selection import are_many
    from lightspec_bench.reports.table import ranking_table, tables
    from lightspec_bench.reports.verdict import verdicts

    comparison, many = results.comparison, are_many(results.comparison)
    if all_static or not many:
        for table in tables(comparison, console.width, all_static, results.suite.planners):
            console.print(table)
    if results.ranking["num_cells"].max() > 1:
        console.print(ranking_table(results.ranking, origin_label(comparison)))
    sentences = losing_sentences(comparison)
    if many and not all_static:
        where = f"at {len(sentences)} places some planner loses to no speculation"
        sentences = [f"The report has the tables of single cells, as has --all-static; {where}, named there."]
    for sentence in (*sentences, *(verdict.text for verdict in verdicts(comparison))):
        console.print(sentence, highlight=False, markup=False)


def _unkept(made: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in made.items() if key not in ("folder", "files")}
