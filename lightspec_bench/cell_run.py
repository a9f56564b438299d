"""One cell: its planner built, run on a trace with a latency model, and what came of it."""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from lightspec_bench.check import check_requires
from lightspec_bench.conditions import fleet_of, simulator_options as simulator_options
from lightspec_bench.core import BenchError, Drafter, EngineConfig, LatencyModel, Planner, Run, Trace
from lightspec_bench.environment import environment
from lightspec_bench.errors import PluginError
from lightspec_bench.latency_file import load_latency
from lightspec_bench.registry import make_planner, named, reads_trace, shown
from lightspec_bench.runners.fleet import FleetRunner
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.store import run_files
from lightspec_bench.suite import Cell
from lightspec_bench.traces.library import load_trace


def cached_trace(spec: str) -> Trace:
    """A trace by its spec, read again where its file has changed; the last four are kept."""
    return _trace(spec, _stamp(spec))


def cached_latency(spec: str) -> LatencyModel:
    """A latency model by its spec, read again where its file has changed."""
    return _latency(spec, _stamp(spec))


@functools.lru_cache(maxsize=4)
def _trace(spec: str, stamp: object) -> Trace:
    return load_trace(spec)


@functools.lru_cache(maxsize=16)
def _latency(spec: str, stamp: object) -> LatencyModel:
    return load_latency(spec)


def _stamp(spec: str) -> tuple[int, int] | None:
    """When the file that a spec begins with was written, and its size; None for a name of ours."""
    for end in [len(spec), *(at for at, char in enumerate(spec) if char == ":")]:
        with suppress(OSError, ValueError):
            found = os.stat(spec[:end])
            return found.st_mtime_ns, found.st_size
    return None


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


def build(
    cell: Cell, trace: Trace | None = None, latency: LatencyModel | None = None
) -> tuple[Trace, EngineConfig, Planner]:
    """The cell's trace, engine and planner; trace and latency model are loaded where they are not given.

    Raises `Unsuitable` where the planner does not fit the trace, `PluginError` where it is broken.
    """
    trace = trace or cached_trace(cell.trace_spec or cell.trace)
    latency = latency or cached_latency(cell.latency_spec or cell.latency)
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


def run_cell(
    cell: Cell, keep_steps: bool = True, trace: Trace | None = None, latency: LatencyModel | None = None
) -> Run:
    """Run one cell here, on what it names or on what is given.

    Raises `Unsuitable` where the planner does not fit, `BenchError` for what went wrong.

    The time that a planner which reads the trace spends is left out: it is a bound, not something to deploy.
    """
    trace, config, planner = build(cell, trace, latency)
    options = simulator_options(cell.conditions, keep_steps)
    if reads_trace(type(planner)):
        options = replace(options, planner_time="off")
    try:
        run = _simulate(cell, trace, config, options, planner)
    except BenchError as error:
        raise named(cell.planner, error) from error
    prices = config.latency
    settings = cell.settings | {
        "trace_info": asdict(trace.info),
        "num_trace_requests": trace.num_requests,
        "latency_model": {"name": prices.name, "origin": prices.origin, "source": prices.source},
    }
    return replace(run, settings=settings, environment=environment())


def _simulate(cell: Cell, trace: Trace, config: EngineConfig, options: SimulatorOptions, planner: Planner) -> Run:
    """One engine, or a fleet whose replicas each have a planner and a seed of their own."""
    if not cell.conditions.is_fleet:
        return SimulatedRunner(trace, config, cell_load(cell), options).run(planner)
    others = [replace(config, seed=config.seed + number) for number in range(1, cell.conditions.replicas)]
    planners = [planner, *(make_planner(cell.planner, other, trace) for other in others)]
    return FleetRunner(trace, config, cell_load(cell), fleet_of(cell.conditions), options).run(planners)


def attempt(cell: Cell, trace: Trace, latency: LatencyModel) -> tuple[Outcome, dict[str, bytes]]:
    """Run a cell: how it ended, and the finished run's files (`store.run_files`). A planner's failure ends its cell."""
    try:
        run = run_cell(cell, trace=trace, latency=latency)
    except Unsuitable as error:
        return Outcome(cell.key, "skipped", str(error)), {}
    except BenchError as error:
        return Outcome(cell.key, "failed", str(error)), {}
    except Exception as error:  # a third party's planner may raise anything
        return Outcome(cell.key, "failed", f"{cell.planner}: {shown(error)}"), {}
    return Outcome(cell.key, "done"), run_files(cell.key, run)
