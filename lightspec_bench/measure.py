"""The measured experiment: a suite's cells on real models, one after another, every finished one kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightspec_bench.core import BenchError, EngineConfig, LatencyModel, Planner, Run
from lightspec_bench.environment import environment
from lightspec_bench.errors import PluginError
from lightspec_bench.experiment import CELLS, Lacking, Outcome, Unsuitable, cell_load, finished, suite_cells
from lightspec_bench.latency_file import load_latency
from lightspec_bench.measured import Measured
from lightspec_bench.registry import make_planner, named, shown
from lightspec_bench.store import write_json, write_run
from lightspec_bench.suite import Cell, Suite

if TYPE_CHECKING:
    from lightspec_bench.runners.torch_drafter import TorchDrafter
    from lightspec_bench.runners.torch_model import TorchModel
    from lightspec_bench.runners.torch_requests import Request

OUTPUTS = "outputs"
SIGNALS = frozenset({"confidence", "entropy"})  # what every real drafter gives with its tokens
_NEEDED = {"torch", "transformers", "safetensors", "datasets"}


@dataclass(frozen=True, slots=True)
class Bench:
    """What is loaded once for all cells. `names` and `categories` are the requests'; `notes` on prompts left out."""

    what: Measured
    target: TorchModel
    drafter: TorchDrafter
    requests: Sequence[Request]
    names: Sequence[str]
    categories: Sequence[str]
    stop_tokens: tuple[int, ...]
    notes: Sequence[str]

    def config(self, concurrency: int, latency: LatencyModel, lag_steps: int = 1, seed: int = 0) -> EngineConfig:
        return EngineConfig(self.drafter.shape, latency, concurrency, lag_steps, seed)


@contextmanager
def needs_torch(what: str) -> Iterator[None]:
    """One sentence where a package that real models need is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        raise BenchError(f"{what} needs the package {error.name}: pip install 'lightspec-bench[torch]'") from None


def open_bench(what: Measured) -> Bench:
    """Load target, drafter and prompts. Raises `BenchError` for each that cannot be had."""
    with needs_torch("a measured run"):
        from lightspec_bench.recording_prompts import PromptChoice, read_prompts
        from lightspec_bench.runners.torch_drafters import make_drafter
        from lightspec_bench.runners.torch_model import load_tokenizer, stop_tokens
        from lightspec_bench.runners.torch_requests import Request
        from lightspec_bench.runners.torch_targets import load_target, target_place

        target = load_target(what.target, what.dtype, what.device)
        drafter = make_drafter(what.drafter, target, what.max_draft_tokens)
        choice = PromptChoice(
            (what.prompts,), what.num_prompts, 0, what.chat_template, max_prompt_tokens=what.max_prompt_tokens
        )
        found = read_prompts(choice, load_tokenizer(target_place(what.target)), target.max_positions)
    left_out = [f"{found.num_skipped} rows of {what.prompts} could not be used"] if found.num_skipped else []
    if found.num_too_long:
        left_out.append(f"{found.num_too_long} prompts longer than {what.max_prompt_tokens} tokens are left out")
    return Bench(
        what,
        target,
        drafter,
        [Request(request.token_ids.tolist(), what.max_tokens) for request in found.requests],
        [request.id for request in found.requests],
        [request.category for request in found.requests],
        stop_tokens(target),
        [*left_out, *found.notes],
    )


def fitted_to(suite: Suite, bench: Bench) -> Suite:
    """The suite with the deepest static K filled in from the drafter. Raises `BenchError` where it goes deeper."""
    what, most = bench.what, bench.drafter.shape.max_draft_tokens
    if what.max_static is not None and what.max_static > most:
        raise BenchError(f"max_static is {what.max_static}, expected 0 to {most}, as deep as {what.drafter} drafts")
    return replace(suite, measured=replace(what, max_static=most if what.max_static is None else what.max_static))


def build_planner(bench: Bench, cell: Cell, latency: LatencyModel) -> tuple[Planner, EngineConfig]:
    """Raises `Lacking` where the drafter has not what the planner requires, `Unsuitable` where it cannot be built."""
    config = bench.config(cell.concurrency, latency, cell.conditions.lag_steps, cell.seed)
    try:
        planner = make_planner(cell.planner, config)
    except PluginError:
        raise
    except BenchError as error:
        raise Unsuitable(str(error)) from error
    for needed in sorted(planner.requires - SIGNALS):
        raise Lacking(f"{cell.planner} needs {needed}, which drafter {bench.drafter.name} does not give")
    return planner, config


def measure_cell(bench: Bench, cell: Cell, latency: LatencyModel) -> tuple[Run, dict[int, list[int]]]:
    """Run one cell here: the run, and the tokens that came out by request.

    Raises `Unsuitable` where the planner does not fit, `KeyboardInterrupt` where it was interrupted.
    """
    from lightspec_bench.runners.torch_runner import TorchOptions, TorchRunner

    planner, config = build_planner(bench, cell, latency)
    load = cell_load(cell)
    options = TorchOptions(
        stop_tokens=bench.stop_tokens,
        num_requests=max(load.num_requests or len(bench.requests), 4 * cell.concurrency),  # as the simulator sends
        shuffle_seed=cell.seed,
        keep_full=True,
        warmup_steps=cell.conditions.warmup_steps,
    )
    runner = TorchRunner(bench.target, bench.drafter, bench.requests, config, options)
    try:
        run = runner.run(planner)
    except BenchError as error:
        raise named(cell.planner, error) from error
    if run.settings.get("interrupted"):
        raise KeyboardInterrupt
    settings = cell.settings | {
        "measured": asdict(bench.what),
        "num_trace_requests": len(bench.requests),
        "request_names": list(bench.names),
        "target": Path(bench.what.target).name,
        "drafter": {"name": bench.drafter.name, **asdict(bench.drafter.shape)},
        "latency_model": {"name": cell.latency, "origin": "measured", "source": "the wall clock of this run"},
        "planners_were_told": {"name": latency.name, "origin": latency.origin, "source": latency.source},
    }
    return replace(run, settings=settings, environment=environment() | device_environment(bench)), runner.outputs


def device_environment(bench: Bench) -> dict[str, Any]:
    """What the clock depends on and `environment` does not know."""
    from lightspec_bench.runners.torch_machine import describe_machine

    return describe_machine(bench.target.device)


def in_turn(cells: Sequence[Cell]) -> list[Cell]:
    """Repeat by repeat and load by load, planners back and forth, so that a drifting machine favours none."""
    found: list[Cell] = []
    seeds = list(dict.fromkeys(cell.seed for cell in cells))
    concurrencies = list(dict.fromkeys(cell.concurrency for cell in cells))
    for number, concurrency in itertools.product(range(len(seeds)), concurrencies):
        row = [cell for cell in cells if (cell.seed, cell.concurrency) == (seeds[number], concurrency)]
        found += row[::-1] if number % 2 else row
    return found


def run_measured(
    suite: Suite,
    bench: Bench,
    folder: Path,
    *,
    resume: bool,
    progress: Callable[[int, int], None] | None = None,
    warm_up: Callable[[Bench, Sequence[int]], None] | None = None,
    make_latency: Callable[[Bench, int], LatencyModel],
) -> list[Outcome]:
    """Run what is not finished yet, after `warm_up(bench, concurrencies)`.

    `make_latency(bench, concurrency)` gives the table that planners are told where the suite names none.
    """
    cells = suite_cells(suite)
    given = load_latency(bench.what.latency) if bench.what.latency else None
    _check_fit(suite, bench)
    if folder.exists() and any(folder.iterdir()) and not resume:
        raise BenchError(f"{folder}: is not empty, expected a new folder, or --resume to go on with it")
    write_json(folder / "suite.json", asdict(suite))
    write_json(folder / "environment.json", environment() | device_environment(bench))
    done = finished(cells, folder) if resume else set()
    outcomes = [Outcome(cell.key, "done") for cell in cells if cell.key in done]
    left = in_turn([cell for cell in cells if cell.key not in done])
    tables: dict[int, LatencyModel] = {}
    if left and warm_up:
        warm_up(bench, suite.concurrencies)
    for cell in left:
        if cell.concurrency not in tables:
            tables[cell.concurrency] = given or make_latency(bench, cell.concurrency)
        outcomes.append(_measure_and_keep(bench, cell, tables[cell.concurrency], folder))
        if progress:
            progress(len(outcomes), len(cells))
    write_json(folder / "outcomes.json", [asdict(o) for o in outcomes if o.status != "done"])
    return outcomes


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
