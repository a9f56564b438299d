"""What `run` and `replay` do: progress on stderr, tables or one JSON document on stdout."""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightspec_bench.core import BenchError
from lightspec_bench.executor_process import ProcessExecutor
from lightspec_bench.experiment import MakeExecutor, Outcome, run_suite
from lightspec_bench.results import Results, document, make_results
from lightspec_bench.search_space import read_search
from lightspec_bench.suite import Conditions, Suite, check_suite

if TYPE_CHECKING:
    from rich.console import Console


def run_command(
    suite_name: str,
    out: Path | None,
    seeds: list[int] | None,
    place: Place,
    resume: bool,
    all_static: bool,
    json_output: bool,
) -> int:
    """Run a suite and report it; 1 when a planner failed in a cell, else 0."""
    suite, spaces = read_search(suite_name)
    if spaces:
        raise BenchError(f"{suite_name}: {next(iter(spaces))} has ranges, expected --search bayes, grid or random")
    suite, folder = with_seeds(suite, seeds), results_folder(out, resume)
    outcomes = _run(suite, folder, place, resume)
    show_results(folder, make_results(folder), all_static, json_output)
    return int(any(outcome.status == "failed" for outcome in outcomes))


@dataclass(frozen=True, slots=True)
class Place:
    """Where cells run: the executor by name, the address of a Ray cluster, and how many at once (None: all cores)."""

    executor: str = "process"
    ray_address: str | None = None
    jobs: int | None = None

    @property
    def make_executor(self) -> MakeExecutor:
        if self.executor == "ray":
            from lightspec_bench.executor_ray import RayExecutor

            return functools.partial(RayExecutor, address=self.ray_address)
        if self.executor != "process":
            raise BenchError(f"--executor is {self.executor!r}, expected process or ray")
        if self.ray_address is not None:
            raise BenchError("--ray-address is for a Ray cluster, expected --executor ray with it")
        return ProcessExecutor


def with_seeds(suite: Suite, seeds: list[int] | None) -> Suite:
    """The suite with other seeds than its own, where any are given."""
    if seeds:
        suite = replace(suite, seeds=tuple(dict.fromkeys(seeds)))
        check_suite(suite, "--seed")
    return suite


def results_folder(out: Path | None, resume: bool) -> Path:
    """The folder that is asked for, or a new one named after the time."""
    if resume and out is None:
        raise BenchError("--resume needs --out, the folder to go on with")
    return out or Path("runs") / datetime.now().strftime("%Y-%m-%dT%H-%M-%S")


@contextmanager
def says_how_to_go_on(folder: Path) -> Iterator[None]:
    """A line on stderr where the user interrupts."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"interrupted; finished cells are kept, go on with --out {folder} --resume", file=sys.stderr)
        raise


def replay_command(suite: Suite, out: Path | None, jobs: int | None, json_output: bool) -> None:
    """Run the few cells of `replay`; without `out` nothing is kept. A planner that cannot run is an error."""
    check_suite(suite, "replay")
    with tempfile.TemporaryDirectory() as temporary:
        folder = out or Path(temporary) / "replay"
        outcomes = _run(suite, folder, Place(jobs=jobs), resume=False)
        for outcome in outcomes:
            if outcome.status != "done":
                raise BenchError(outcome.reason)
        show_results(folder, make_results(folder), False, json_output, kept=out is not None)


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


def _run(suite: Suite, folder: Path, place: Place, resume: bool) -> list[Outcome]:
    with says_how_to_go_on(folder), progress_bar() as progress:
        return run_suite(suite, folder, jobs=place.jobs, resume=resume, progress=progress, executor=place.make_executor)


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
