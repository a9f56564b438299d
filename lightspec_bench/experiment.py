"""The experiment: runs a suite's cells in parallel processes, keeps every finished one, and sums them up."""

from __future__ import annotations

import functools
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from lightspec_bench.check import check_requires
from lightspec_bench.core import BenchError, Drafter, EngineConfig, LatencyModel, Planner, Run, Trace
from lightspec_bench.environment import environment
from lightspec_bench.errors import PluginError
from lightspec_bench.latency_file import load_latency
from lightspec_bench.measured import Measured
from lightspec_bench.registry import make_planner, named, reads_trace, shown
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.store import read_json, read_run, write_json, write_run
from lightspec_bench.suite import Cell, Conditions, Suite, published_from
from lightspec_bench.traces.library import load_trace

CELLS = "cells"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a cell ended: "done", "skipped" (the planner does not fit the trace) or "failed", with the reason."""

    key: str
    status: str
    reason: str = ""


class Unsuitable(BenchError):
    """A planner cannot be built for a cell: it lacks something, or an option does not fit."""


class Lacking(Unsuitable):
    """The trace has not what a planner requires, however it is set up."""


@functools.lru_cache(maxsize=4)
def _trace(spec: str) -> Trace:
    return load_trace(spec)


@functools.cache
def _max_draft_tokens(spec: str) -> int:
    return _trace(spec).max_draft_tokens


@functools.lru_cache(maxsize=16)
def _latency(spec: str) -> LatencyModel:
    return load_latency(spec)


def simulator_options(conditions: Conditions, keep_steps: bool = True) -> SimulatorOptions:
    """The conditions' part that is about the simulated engine."""
    return SimulatorOptions(
        prefill=cast("Any", conditions.prefill),
        chunk_tokens=conditions.chunk_tokens,
        catch_up=cast("Any", conditions.catch_up),
        planner_time=cast("Any", conditions.planner_time),
        warmup_steps=conditions.warmup_steps,
        keep_steps=keep_steps,
    )


def cell_load(cell: Cell) -> Load:
    conditions = cell.conditions
    return Load(
        concurrency=cell.concurrency,
        arrivals=cast("Any", conditions.arrivals),
        rate=conditions.rate,
        cv=conditions.cv,
        num_requests=conditions.num_requests,
        seed=cell.seed,
    )


def build(cell: Cell) -> tuple[Trace, EngineConfig, Planner]:
    """The cell's trace, engine and planner.

    Raises `Unsuitable` where the planner does not fit the trace, `PluginError` where it is broken.
    """
    trace, latency = _trace(cell.trace_spec or cell.trace), _latency(cell.latency_spec or cell.latency)
    drafter = Drafter(trace.info.drafter_kind, trace.max_draft_tokens)
    config = EngineConfig(drafter, latency, cell.concurrency, cell.conditions.lag_steps, cell.seed)
    try:
        planner = make_planner(cell.planner, config, trace)
    except PluginError:
        raise
    except BenchError as error:
        raise Unsuitable(str(error)) from error
    try:
        check_requires(planner.requires, trace, cell.planner)
    except BenchError as error:
        raise Lacking(str(error)) from error
    return trace, config, planner


def run_cell(cell: Cell, keep_steps: bool = True) -> Run:
    """Run one cell here. Raises `Unsuitable` where the planner does not fit, `BenchError` for what went wrong.

    The time that a planner which reads the trace spends is left out: it is a bound, not something to deploy.
    """
    trace, config, planner = build(cell)
    options = simulator_options(cell.conditions, keep_steps)
    if reads_trace(type(planner)):
        options = replace(options, planner_time="off")
    try:
        run = SimulatedRunner(trace, config, cell_load(cell), options).run(planner)
    except BenchError as error:
        raise named(cell.planner, error) from error
    latency = config.latency
    settings = cell.settings | {
        "trace_info": asdict(trace.info),
        "num_trace_requests": trace.num_requests,
        "latency_model": {"name": latency.name, "origin": latency.origin, "source": latency.source},
    }
    return replace(run, settings=settings, environment=environment())


def _run_and_keep(cell: Cell, folder: Path) -> Outcome:
    """Run a cell in a worker and save it; a planner's failure ends its cell, not the suite."""
    try:
        write_run(folder / CELLS, cell.key, run_cell(cell))
    except Unsuitable as error:
        return Outcome(cell.key, "skipped", str(error))
    except BenchError as error:
        return Outcome(cell.key, "failed", str(error))
    except Exception as error:  # a third party's planner may raise anything
        return Outcome(cell.key, "failed", f"{cell.planner}: {shown(error)}")
    return Outcome(cell.key, "done")


def suite_cells(suite: Suite) -> list[Cell]:
    """The suite's cells. Loads every trace and latency model, so that a wrong name fails here."""
    if suite.measured is not None:
        return list(suite.cells(dict.fromkeys(suite.traces, suite.measured.max_static or 0)))
    for latency in suite.latencies:
        _latency(suite.spec(latency))
    return list(suite.cells({trace: _max_draft_tokens(suite.spec(trace)) for trace in suite.traces}))


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
    return {cell.key for cell in cells if (folder / CELLS / f"{cell.key}.json").exists()}


def run_suite(
    suite: Suite, folder: Path, *, jobs: int, resume: bool, progress: Callable[[int, int], None] | None = None
) -> list[Outcome]:
    """Run what is not finished yet; `progress(done, total)` after each cell. Finished cells survive an interrupt."""
    cells = suite_cells(suite)
    check_fit(suite)
    if folder.exists() and any(folder.iterdir()) and not resume:
        raise BenchError(f"{folder}: is not empty, expected a new folder, or --resume to go on with it")
    write_json(folder / "suite.json", asdict(suite))
    write_json(folder / "environment.json", environment())
    done = finished(cells, folder) if resume else set()
    outcomes = [Outcome(cell.key, "done") for cell in cells if cell.key in done]
    for outcome in _in_parallel([cell for cell in cells if cell.key not in done], folder, jobs):
        outcomes.append(outcome)
        if progress:
            progress(len(outcomes), len(cells))
    write_json(folder / "outcomes.json", [asdict(o) for o in outcomes if o.status != "done"])
    return outcomes


def _in_parallel(cells: list[Cell], folder: Path, jobs: int) -> Iterator[Outcome]:
    if jobs == 1 or len(cells) < 2:
        for cell in cells:
            yield _run_and_keep(cell, folder)
        return
    # Spawned, not forked: pyarrow's threads do not survive a fork. Workers leave Ctrl-C to us, so that the cells they
    # are in are still kept. No `with`: it would shut down a second time and forget that waiting cells are cancelled.
    pool = ProcessPoolExecutor(
        min(jobs, len(cells)), multiprocessing.get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
    )
    try:
        futures: list[Future[Outcome]] = [pool.submit(_run_and_keep, cell, folder) for cell in cells]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


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
        )
    except (KeyError, TypeError) as error:
        raise BenchError(f"{path}: is not a suite: {error!r}") from error


def stored_runs(cells: Iterable[Cell], folder: Path) -> Iterator[tuple[Cell, Run]]:
    """Every finished cell's run, in the suite's order."""
    for cell in cells:
        if (folder / CELLS / f"{cell.key}.json").exists():
            yield cell, read_run(folder / CELLS, cell.key)
