"""The measured experiment: a suite's cells on real models, one after another, every finished one kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeAlias

from lightspec_bench.bench import Bench, Outputs
from lightspec_bench.core import BenchError, EngineConfig, LatencyModel, Planner, Run
from lightspec_bench.environment import environment
from lightspec_bench.errors import PluginError
from lightspec_bench.experiment import CELLS, Lacking, Outcome, Unsuitable, cell_load, finished, suite_cells
from lightspec_bench.latency_file import load_latency
from lightspec_bench.registry import make_planner, named, shown
from lightspec_bench.runners.requests import Sending
from lightspec_bench.store import write_json, write_run
from lightspec_bench.suite import Cell, Suite
from lightspec_bench.ties import OUTPUTS, look_at_ties

# The table that planners are told at each concurrency.
MakeLatencies: TypeAlias = Callable[[Bench, Sequence[int]], Mapping[int, LatencyModel]]


def fitted_to(suite: Suite, bench: Bench) -> Suite:
    """The suite with the deepest static K filled in from the drafter. Raises `BenchError` where it goes deeper."""
    what, most = bench.what, bench.drafter.max_draft_tokens
    if what.max_static is not None and what.max_static > most:
        raise BenchError(f"max_static is {what.max_static}, expected 0 to {most}, as deep as {what.drafter} drafts")
    return replace(suite, measured=replace(what, max_static=most if what.max_static is None else what.max_static))


def build_planner(bench: Bench, cell: Cell, latency: LatencyModel) -> tuple[Planner, EngineConfig]:
    """Raises `Lacking` where the drafter has not what the planner requires, `Unsuitable` where it cannot be built."""
    config = bench.config(cell.concurrency, latency, cell.seed)
    try:
        planner = make_planner(cell.planner, config)
    except PluginError:
        raise
    except BenchError as error:
        raise Unsuitable(str(error)) from error
    if reason := bench.engine.lacks(planner):
        raise Lacking(f"{cell.planner}: {reason}")
    for needed in sorted(planner.requires - bench.engine.signals):
        raise Lacking(f"{cell.planner} needs {needed}, which drafter {bench.engine.drafter_name} does not give")
    return planner, config


def measure_cell(bench: Bench, cell: Cell, latency: LatencyModel) -> tuple[Run, Outputs]:
    """Run one cell here: the run, and the tokens that came out by request.

    Raises `Unsuitable` where the planner does not fit, `KeyboardInterrupt` where it was interrupted.
    """
    planner, config = build_planner(bench, cell, latency)
    wanted = max(cell_load(cell).num_requests or len(bench.requests), 4 * cell.concurrency)  # as the simulator sends
    sending = Sending(num_requests=wanted, shuffle_seed=cell.seed, keep_full=True)
    try:
        run, outputs = bench.engine.run(planner, bench.requests, config, sending, cell.conditions.warmup_steps)
    except BenchError as error:
        raise named(cell.planner, error) from error
    if run.settings.get("interrupted"):
        raise KeyboardInterrupt
    settings = cell.settings | {
        "measured": asdict(bench.what),
        "num_trace_requests": len(bench.requests),
        "request_names": list(bench.names),
        "target": Path(bench.what.target).name,
        "drafter": {"name": bench.engine.drafter_name, **asdict(bench.drafter)},
        "latency_model": {"name": cell.latency, "origin": "measured", "source": "the wall clock of this run"},
        "planners_were_told": {"name": latency.name, "origin": latency.origin, "source": latency.source},
    }
    return replace(run, settings=settings, environment=environment() | bench.engine.machine()), outputs


def in_turn(cells: Sequence[Cell], start_of: Callable[[str], int]) -> list[Cell]:
    """Repeat by repeat, start by start and load by load, planners back and forth, so that a drifting machine favours
    none and an engine that must be started anew for some planners is so once or twice in a repeat."""
    found: list[Cell] = []
    seeds = list(dict.fromkeys(cell.seed for cell in cells))
    concurrencies = list(dict.fromkeys(cell.concurrency for cell in cells))
    starts = sorted({start_of(cell.planner) for cell in cells})
    for number, seed in enumerate(seeds):
        back = -1 if number % 2 else 1
        for start, concurrency in itertools.product(starts[::back], concurrencies):
            place = (seed, concurrency, start)
            found += [cell for cell in cells if (cell.seed, cell.concurrency, start_of(cell.planner)) == place][::back]
    return found


def run_measured(
    suite: Suite,
    bench: Bench,
    folder: Path,
    *,
    resume: bool,
    progress: Callable[[int, int], None] | None = None,
    warm_up: Callable[[Bench, Sequence[int]], None] | None = None,
    make_latencies: MakeLatencies,
) -> list[Outcome]:
    """Run what is not finished yet, after `warm_up(bench, concurrencies)`.

    `make_latencies(bench, concurrencies)` gives the tables that planners are told where the suite names none.
    """
    cells = suite_cells(suite)
    given = load_latency(bench.what.latency) if bench.what.latency else None
    _check_fit(suite, bench)
    if folder.exists() and any(folder.iterdir()) and not resume:
        raise BenchError(f"{folder}: is not empty, expected a new folder, or --resume to go on with it")
    write_json(folder / "suite.json", asdict(suite))
    write_json(folder / "environment.json", environment() | bench.engine.machine())
    done = finished(cells, folder) if resume else set()
    outcomes = [Outcome(cell.key, "done") for cell in cells if cell.key in done]
    left = in_turn([cell for cell in cells if cell.key not in done], bench.engine.start_of)
    concurrencies = list(dict.fromkeys(cell.concurrency for cell in left))
    if left and warm_up:
        warm_up(bench, suite.concurrencies)
    tables = dict.fromkeys(concurrencies, given) if given else make_latencies(bench, concurrencies)
    for cell in left:
        outcomes.append(_measure_and_keep(bench, cell, tables[cell.concurrency], folder))
        if progress:
            progress(len(outcomes), len(cells))
    write_json(folder / "outcomes.json", [asdict(o) for o in outcomes if o.status != "done"])
    return outcomes


def check_outputs(suite: Suite, bench: Bench, folder: Path) -> None:
    """Look at the logits where outputs differ from those of no speculation: the results then say which are ties."""
    look_at_ties(folder, suite_cells(suite), bench)


def _check_fit(suite: Suite, bench: Bench) -> None:
    """Raise the reason where a planner that the suite names cannot be built for this drafter."""
    from lightspec_bench.latency import AffineCurve, LinearLatency

    line = AffineCurve(1e-3, 1e-5)
    latency = LinearLatency(name="placeholder", origin="modelled", source="none", target=line, draft=line)
    for planner in suite.planners:
        cell = suite.cell(suite.traces[0], suite.latencies[0], suite.concurrencies[0], planner, suite.seeds[0])
        with suppress(Lacking, PluginError):  # found again by its cells, which are skipped or fail
            build_planner(bench, cell, latency)


def _measure_and_keep(bench: Bench, cell: Cell, latency: LatencyModel, folder: Path) -> Outcome:
    """A planner's failure ends its cell, not the suite."""
    try:
        run, outputs = measure_cell(bench, cell, latency)
        write_json(folder / OUTPUTS / f"{cell.key}.json", {str(name): tokens for name, tokens in outputs.items()})
        write_run(folder / CELLS, cell.key, run)
    except Unsuitable as error:
        return Outcome(cell.key, "skipped", str(error))
    except BenchError as error:
        return Outcome(cell.key, "failed", str(error))
    except Exception as error:  # a third party's planner may raise anything
        return Outcome(cell.key, "failed", f"{cell.planner}: {shown(error)}")
    return Outcome(cell.key, "done")
