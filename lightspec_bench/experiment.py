"""The experiment: runs a suite's cells on an executor, keeps every finished one, and reads them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeAlias

from lightspec_bench.cell_run import (
    Lacking as Lacking,
    Outcome as Outcome,
    Unsuitable as Unsuitable,
    build as build,
    cell_load as cell_load,
    run_cell as run_cell,
    simulator_options as simulator_options,
)
from lightspec_bench.core import BenchError, Run
from lightspec_bench.environment import environment
from lightspec_bench.errors import PluginError
from lightspec_bench.executor_process import ProcessExecutor
from lightspec_bench.inputs import INPUTS, Inputs, cells_of, load_inputs, stored_digests
from lightspec_bench.measured import Measured
from lightspec_bench.store import CELLS as CELLS, alone_in, read_json, read_run, whole_runs, write_json
from lightspec_bench.suite import Cell, Conditions, Suite, published_from

Progress: TypeAlias = Callable[[int, int], None]  # done, total


class Executor(Protocol):
    """Runs cells somewhere, as often as it is asked within its context; finished ones are in the folder when their
    outcome is given. Raises `BenchError` where the folder does not take them."""

    def __enter__(self) -> Executor: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...
    def run(self, cells: Sequence[Cell]) -> Iterator[Outcome]: ...


# (inputs, results folder, processes at once or None) -> executor
MakeExecutor: TypeAlias = Callable[[Inputs, Path, "int | None"], Executor]


def suite_cells(suite: Suite) -> list[Cell]:
    """The suite's cells as they would run now. Loads every trace and latency model, so that a wrong name fails here."""
    if suite.measured is not None:
        return list(suite.cells(dict.fromkeys(suite.traces, suite.measured.max_static or 0)))
    return cells_of(suite, load_inputs(suite).digests)


def stored_cells(suite: Suite, folder: Path) -> list[Cell]:
    """The suite's cells as they were when the folder was last run, whatever traces and code are today."""
    digests = stored_digests(folder)
    return suite_cells(suite) if digests is None else cells_of(suite, digests)


def check_fit(suite: Suite) -> None:
    """Raise the reason where a planner that the suite names can be built for none of its traces, or its load makes no
    sense. One that a trace lacks something for is no mistake: its cells are skipped, with the reason."""
    for latency in suite.latencies:
        simulator_options(suite.conditions_at.get(latency, suite.conditions))
    for planner in suite.planners:
        reasons = []
        for trace in suite.traces:
            cell = suite.cell(trace, suite.latencies[0], suite.concurrencies[0], planner, suite.seeds[0])
            cell_load(cell)
            try:
                build(cell)
                break
            except (PluginError, Lacking):  # found again by its cells, which fail or are skipped
                break
            except Unsuitable as error:
                reasons.append(error)
        if len(reasons) == len(suite.traces):
            raise reasons[0]


def finished(cells: Iterable[Cell], folder: Path) -> set[str]:
    """Keys of the cells that are whole in the folder."""
    whole = whole_runs(folder / CELLS)
    return {cell.key for cell in cells if cell.key in whole}


def run_suite(
    suite: Suite,
    folder: Path,
    *,
    jobs: int | None,
    resume: bool,
    progress: Progress | None = None,
    executor: MakeExecutor = ProcessExecutor,
) -> list[Outcome]:
    """Run what is not finished yet; `progress(done, total)` after each cell. Finished cells survive whatever happens.

    Raises `BenchError` for a mistake in the suite, before anything is written, and where the folder cannot be written.
    """
    inputs = load_inputs(suite)
    check_fit(suite)
    if folder.exists() and any(folder.iterdir()) and not resume:
        raise BenchError(f"{folder}: is not empty, expected a new folder, or --resume to go on with it")
    with alone_in(folder):
        write_json(folder / "suite.json", asdict(suite))
        write_json(folder / INPUTS, asdict(inputs.digests))
        write_json(folder / "environment.json", environment())
        with executor(inputs, folder, jobs) as workers:
            outcomes = run_cells(cells_of(suite, inputs.digests), folder, workers, progress)
        write_json(folder / "outcomes.json", [asdict(o) for o in outcomes if o.status != "done"])
    return outcomes


def run_cells(
    cells: Sequence[Cell], folder: Path, executor: Executor, progress: Progress | None = None
) -> list[Outcome]:
    """How each cell ended; those that are whole in the folder are not run again."""
    done = finished(cells, folder)
    outcomes = [Outcome(cell.key, "done") for cell in cells if cell.key in done]
    for outcome in executor.run([cell for cell in cells if cell.key not in done]):
        outcomes.append(outcome)
        if progress:
            progress(len(outcomes), len(cells))
    return outcomes


def stored_suite(folder: Path) -> Suite:
    """The suite that a results folder was made with."""
    path = folder / "suite.json"
    document = read_json(path)
    try:
        lists = {key: tuple(document[key]) for key in ("traces", "latencies", "concurrencies", "planners", "seeds")}
        return Suite(
            document["name"],
            **lists,
            every_static=document["every_static"],
            conditions=Conditions(**document["conditions"]),
            specs=document["specs"],
            conditions_at={name: Conditions(**own) for name, own in document["conditions_at"].items()},
            published=published_from(document["published"], str(path)) if document["published"] else None,
            measured=Measured(**document["measured"]) if document.get("measured") else None,
            slo=document.get("slo") or {},
        )
    except (KeyError, TypeError) as error:
        raise BenchError(f"{path}: is not a suite: {error!r}") from error


def stored_runs(cells: Iterable[Cell], folder: Path) -> Iterator[tuple[Cell, Run]]:
    """Every finished cell's run, in the suite's order."""
    whole = whole_runs(folder / CELLS)
    for cell in cells:
        if cell.key in whole:
            yield cell, read_run(folder / CELLS, cell.key)
