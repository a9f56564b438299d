"""Validation: a measured run's own cells in the simulator, predicted beside measured.

The same requests in the same order, under the planners that ran and the tables they were told; what they accept comes
from a trace recorded by output position, what a step costs from a latency model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from lightspec_bench.core import BenchError, Drafter, EngineConfig, LatencyModel, Run, Trace
from lightspec_bench.experiment import cell_load, simulator_options, stored_runs, stored_suite, suite_cells
from lightspec_bench.files import write_atomically
from lightspec_bench.latency_file import build_latency, load_latency
from lightspec_bench.measure_latency import served_labels
from lightspec_bench.registry import make_planner
from lightspec_bench.reports.cells import CELL, NO_SPECULATION, is_static
from lightspec_bench.reports.html_validation import validation_page
from lightspec_bench.reports.metrics import summarise
from lightspec_bench.reports.pictures import save
from lightspec_bench.reports.validation import (
    Agreement,
    agreements,
    noise_of,
    validation_figure,
    validation_frame,
    verdict_lines,
)
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.served import fit_served, prefill_s_per_token
from lightspec_bench.suite import Cell, Suite
from lightspec_bench.traces.library import load_trace

Measurement = tuple[Cell, Run]
Place = tuple[int, int]  # concurrency, seed
RecordTrace = Callable[[Suite, Path], str]


@dataclass(frozen=True, slots=True)
class Validation:
    """`frame`: see `reports.validation`; `lines` are the answers in sentences, `notes` say what it rests on."""

    frame: pd.DataFrame
    agreements: list[Agreement]
    lines: list[str]
    notes: list[str]
    files: list[Path]


@dataclass(frozen=True, slots=True)
class Prices:
    """What steps cost at one concurrency. `prefill_s` per prompt token, without a drafter and with one; None: the
    latency model's own price of a pass over the prompt."""

    latency: LatencyModel
    prefill_s: tuple[float, float] | None = None


def validate_run(
    folder: Path, trace: str | None = None, latency: str | None = None, record: RecordTrace | None = None
) -> Validation:
    """Compare, and write `validation.csv`, `validation.png` and `validation.html` into the run's folder.

    Without `trace` the folder's `trace.parquet` is used, made by `record(suite, path)` where it is not there. Without
    `latency` prices are fitted, at each concurrency and repeat, to the steps of no speculation and every static K, and
    all other planners are predicted from them. Raises `BenchError` where the run is not measured or does not fit the
    trace.
    """
    suite = stored_suite(folder)
    if suite.measured is None:
        raise BenchError(f"{folder}: is a simulated run, expected one of `run --runner torch` or `vllm`")
    runs = list(stored_runs(suite_cells(suite), folder))
    if not runs:
        raise BenchError(f"{folder}: has no finished cell, expected at least one")
    recorded = aligned(_trace(suite, folder, trace, record), runs[0][1], str(trace or folder / "trace.parquet"))
    prices = prices_of(runs, latency, suite)
    num_finished = len(runs)
    runs = [(cell, run) for cell, run in runs if (cell.concurrency, cell.seed) in prices]
    told = _told(runs, folder, prices)
    predicted = [
        simulate(cell, run, recorded, prices[cell.concurrency, cell.seed], told[cell.concurrency]) for cell, run in runs
    ]
    measured_rows, predicted_rows = (_summary(runs, kind) for kind in ([run for _, run in runs], predicted))
    held_out = pd.Series([latency is not None or not _is_fixed(cell.planner) for cell, _ in runs])
    frame = validation_frame(measured_rows, predicted_rows, held_out)
    agreed = agreements(frame, noise_of(measured_rows))
    notes = _notes(suite, recorded, latency, num_finished - len(runs))
    return _written(folder, frame, agreed, notes, suite)


def _trace(suite: Suite, folder: Path, spec: str | None, record: RecordTrace | None) -> Trace:
    if spec is not None:
        return load_trace(spec)
    path = folder / "trace.parquet"
    if path.exists():
        return load_trace(str(path))
    if record is None:
        raise BenchError(f"{path}: is not there, expected --trace with a trace of the same prompts")
    return load_trace(record(suite, path))


def aligned(trace: Trace, run: Run, where: str) -> Trace:
    """The trace's requests in the order of the run's. Raises `BenchError` where it is a trace of something else."""
    names, drafter = run.settings["request_names"], run.settings["drafter"]
    if trace.max_draft_tokens != drafter["max_draft_tokens"]:
        raise BenchError(
            f"{where}: max_draft_tokens is {trace.max_draft_tokens}, expected {drafter['max_draft_tokens']}, "
            "as in the run"
        )
    rows = {str(name): row for row, name in enumerate(trace.request_id)}
    missing = [name for name in names if name not in rows]
    if missing:
        raise BenchError(f"{where}: has no request {missing[0]!r} ({len(missing)} of {len(names)} are missing)")
    order = np.array([rows[name] for name in names], dtype=np.int64)
    found = _taken(trace, order)
    lengths = dict(zip(run.requests["request_id"] % len(names), run.requests["num_output_tokens"], strict=True))
    if np.mean([found.num_output_tokens[row] != length for row, length in lengths.items()]) > 0.5:
        raise BenchError(f"{where}: most outputs have another length than in the run, expected the same max_tokens")
    return found


def _taken(trace: Trace, order: np.ndarray) -> Trace:
    """Some requests of a trace, in this order."""
    sizes = np.diff(trace.offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    positions = np.repeat(trace.offsets[order] - offsets[:-1], sizes) + np.arange(offsets[-1])
    by_request = ("request_id", "category", "arrival_s", "num_prompt_tokens", "num_output_tokens", "repeats_from")
    by_position = ("num_accepted", "num_draft_tokens", "confidence", "entropy")
    taken = {name: getattr(trace, name)[order] for name in by_request}
    taken |= {name: getattr(trace, name)[positions] for name in by_position if getattr(trace, name) is not None}
    return replace(trace, offsets=offsets.astype(np.int64), **taken)


def prices_of(runs: Sequence[Measurement], latency: str | None, suite: Suite) -> dict[Place, Prices]:
    """Prices by concurrency and repeat: the given latency model, or fitted to the steps of the fixed planners there."""
    places = dict.fromkeys((cell.concurrency, cell.seed) for cell, _ in runs)
    if latency is not None:
        return dict.fromkeys(places, Prices(load_latency(latency)))
    fitted = {
        place: _fitted([each for each in runs if (each[0].concurrency, each[0].seed) == place], suite)
        for place in places
    }
    found = {place: prices for place, prices in fitted.items() if prices is not None}
    if not found:
        raise BenchError("no speculation and static K did not both run, expected both to fit prices to, or --latency")
    return found


def _fitted(runs: Sequence[Measurement], suite: Suite) -> Prices | None:
    """None where no speculation or every static K is missing."""
    cell, run = runs[0]
    fixed = [(each.planner, found.steps) for each, found in runs if _is_fixed(each.planner) and found.steps is not None]
    plain = [steps for planner, steps in fixed if planner == NO_SPECULATION]
    speculating = [steps for planner, steps in fixed if planner != NO_SPECULATION]
    if not plain or not speculating:
        return None
    assert suite.measured is not None
    names = run.settings["target"], run.settings["drafter"]["name"]
    labels = served_labels(suite.measured.dtype, run.environment, *names, suite.measured.runner, cell.concurrency)
    file = fit_served(plain, speculating, _drafter(run), labels)
    prefill = prefill_s_per_token(plain), prefill_s_per_token(speculating)
    return Prices(build_latency(file), prefill)


def _is_fixed(planner: str) -> bool:
    return planner == NO_SPECULATION or is_static(planner)


def _drafter(run: Run) -> Drafter:
    shape = run.settings["drafter"]
    return Drafter(shape["kind"], shape["max_draft_tokens"])


def _told(runs: Sequence[Measurement], folder: Path, prices: dict[Place, Prices]) -> dict[int, LatencyModel]:
    """The table that planners were told, by concurrency; the prices where the folder has none."""
    found = {}
    for cell, run in runs:
        path, given = folder / f"latency-{cell.concurrency}.csv", run.settings["measured"]["latency"]
        if cell.concurrency not in found:
            spec = given or (str(path) if path.exists() else None)
            found[cell.concurrency] = load_latency(spec) if spec else prices[cell.concurrency, cell.seed].latency
    return found


def simulate(cell: Cell, run: Run, trace: Trace, prices: Prices, told: LatencyModel) -> Run:
    """The cell's run as the simulator predicts it."""
    drafter = _drafter(run)
    lag = cell.conditions.lag_steps
    planner = make_planner(cell.planner, EngineConfig(drafter, told, cell.concurrency, lag, cell.seed), trace)
    config = EngineConfig(drafter, prices.latency, cell.concurrency, lag, cell.seed)
    options = simulator_options(cell.conditions)
    if run.settings["measured"].get("runner") == "vllm":  # its drafter follows a prompt at once, its own rule the first
        own = getattr(planner, "depths", None) if getattr(planner, "stock", False) else None
        first_depth = 0 if own is None else int(own[cell.concurrency])
        options = replace(options, first_draft="prompt", first_depth=first_depth)
    found = SimulatedRunner(trace, config, cell_load(cell), options).run(planner)
    return found if prices.prefill_s is None else _with_prefill(found, prices.prefill_s[planner.uses_drafter])


def _with_prefill(run: Run, s_per_token: float) -> Run:
    """Prompts read at another price: prefill stops decoding, so it only adds to the clock."""
    totals = run.totals
    prefill_s = totals.num_prefill_tokens * s_per_token
    elapsed_s = totals.elapsed_s - totals.prefill_s + prefill_s
    return replace(run, totals=replace(totals, elapsed_s=elapsed_s, prefill_s=prefill_s))


def _summary(runs: Sequence[Measurement], results: Sequence[Run]) -> pd.DataFrame:
    labels = {"origin": "", "latency_origin": ""}
    rows = []
    for (cell, _), run in zip(runs, results, strict=True):
        names = {name: cell.settings[name] for name in (*CELL, "seed")}
        rows.append(names | labels | summarise(run))
    return pd.DataFrame(rows)


def _notes(suite: Suite, trace: Trace, latency: str | None, num_left_out: int) -> list[str]:
    prices = f"step costs: latency model {latency}"
    if latency is None:
        prices = (
            "step costs: fitted at each concurrency and repeat to the served steps of no speculation and every static K"
        )
    notes = [f"acceptance: trace {trace.info.name}, {trace.info.made_by}", prices]
    if num_left_out:
        notes.append(
            f"{num_left_out} cells are left out: where they ran, no speculation and a static K did not both finish"
        )
    assert suite.measured is not None
    if suite.measured.dtype != "float32":
        notes.append(
            f"in {suite.measured.dtype} outputs depend on how many rows are computed together: "
            "the trace is of one such output, the run of others"
        )
    return notes


def _written(folder: Path, frame: pd.DataFrame, agreed: list[Agreement], notes: list[str], suite: Suite) -> Validation:
    origin = f"{suite.traces[0]}, {suite.latencies[0]}: measured, and simulated from a recorded trace"
    figure = validation_figure(frame, origin)
    lines = verdict_lines(frame, agreed)
    files = [folder / "validation.csv", folder / "validation.html"]
    write_atomically(files[0], lambda path: frame.to_csv(path, index=False))
    page = validation_page(frame, figure, origin, lines, notes, {"suite": asdict(suite)})
    write_atomically(files[1], lambda path: path.write_text(page, encoding="utf-8"))
    return Validation(frame, agreed, lines, notes, [*files, save(figure, folder / "validation.png")])
