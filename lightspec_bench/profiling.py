"""Profiling this machine: what a step costs by rows, requests and context, written as a latency table."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench import __version__
from lightspec_bench.core import BenchError, EngineConfig, LatencyModel, Planner
from lightspec_bench.latency_file import build_latency, write_latency_csv
from lightspec_bench.latency_format import FORMAT, Point, format_latency_text, parse_latency_text
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.planners.static import Static
from lightspec_bench.profiling_fit import host_terms, parallel_line, points
from lightspec_bench.profiling_graphs import captured_sizes, step_rows
from lightspec_bench.progress import Report
from lightspec_bench.runners.torch_device import device_name, engine_name
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_drafters import make_drafter
from lightspec_bench.runners.torch_dummy import dummy_drafter
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_profile import Shape, Timing, time_shapes
from lightspec_bench.runners.torch_served import Served, served_steps
from lightspec_bench.runners.torch_targets import dummy_target, load_target, title

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
REQUESTS = (1, 4, 8, 32)
CONTEXTS = (256, 1024)
MOST_CONTEXT = {"cpu": 32_768, "cuda": 262_144}  # tokens of a batch: what the cache of a shape may hold
SERVED_STEPS = 24


@dataclass(frozen=True, slots=True)
class ProfileJob:
    """What to time. A `target` or an `architecture` with random weights; `drafter` a spec, for an architecture also
    `eagle` or `parallel` alone. `rows` None: `ROWS`, or the captured sizes and some above them where there are any;
    `graph_sizes` as `make_graphs` takes them. `max_context`: tokens of a batch at most; shapes that hold more are left
    out."""

    out: Path
    target: str | None = None
    architecture: str | None = None
    drafter: str | None = None
    max_draft_tokens: int | None = None
    rows: tuple[int, ...] | None = None
    requests: tuple[int, ...] = REQUESTS
    contexts: tuple[int, ...] = CONTEXTS
    repeats: int = 5
    dtype: str = "float32"
    device: str = "cpu"
    max_context: int | None = None
    name: str | None = None
    graph_sizes: str | None = None

    def __post_init__(self) -> None:
        if (self.target is None) == (self.architecture is None):
            raise BenchError("a target and an architecture, or neither, are given: expected one of them")
        for name in ("rows", "requests", "contexts"):
            sizes = getattr(self, name)
            if sizes is not None and min(sizes, default=0) < 1:
                raise BenchError(f"{name} is {sizes}, expected numbers from 1 up")
        if self.repeats < 1:
            raise BenchError(f"repeats is {self.repeats}, expected at least 1")


@dataclass(frozen=True, slots=True)
class Profile:
    """A written table: its header and points, the timings behind it, host time of served steps, and how whole served
    steps compare with what the table says of them."""

    header: dict[str, str]
    points: list[Point]
    timings: list[Timing]
    served: list[Served] = field(default_factory=list)
    served_over_table: float = np.nan

    @property
    def spreads(self) -> list[float]:
        return [timing.spread for timing in self.timings]


def profile(job: ProfileJob, report: Report) -> Profile:
    """Time, fit, and write the table of a job to `job.out`. Raises `BenchError` for whatever is wrong."""
    target = _target(job)
    drafter = _drafter(job, target)
    width = drafter.shape.max_draft_tokens if drafter else job.max_draft_tokens or 8
    shapes = grid(job, width, target)
    timings = []
    for number, (shape, found) in enumerate(time_shapes(target, drafter, shapes, width, job.repeats), start=1):
        timings += found
        report("shapes", number, len(shapes), f"{shape.rows} rows of {shape.requests} requests")
    served = _served(target, drafter, job, width, report)
    header, table = _table(job, target, drafter, timings, served)
    header = with_context_costs(header, table)
    ratio = served_over_table(latency_of(header, table), served)
    header["note"] += f" Served steps verified in {ratio:.2f} times what the table says of their shapes (median)."
    write_latency_csv(job.out, header, table)
    return Profile(header, table, timings, served, ratio)


def grid(job: ProfileJob, width: int, target: TorchModel) -> list[Shape]:
    """Shapes of a step: rows that N requests can have with up to D verify tokens each, N itself among them, and no two
    that are padded to the same size."""
    sizes = target.graphs.sizes
    rows = job.rows or ((*sizes, *(sizes[-1] * part // 4 for part in (5, 6, 8))) if sizes else ROWS)
    most = job.max_context or MOST_CONTEXT[target.device.type]
    longest = (target.max_positions or 1 << 62) - width - 2
    found = [
        Shape(number, requests, context)
        for requests in sorted(set(job.requests))
        for context in sorted(set(job.contexts))
        for number in step_rows(rows, requests, width, target.graphs)
        if requests * context <= most and context <= longest
    ]
    if not found:
        raise BenchError(
            f"no shape is left of rows {rows}, requests {job.requests} and contexts {job.contexts}: expected a "
            f"batch of at most {most} context tokens, and contexts of at most {longest}"
        )
    return found


def with_context_costs(header: dict[str, str], table: Sequence[Point]) -> dict[str, str]:
    """The header with how context is priced: by a line per size, else one cost for all, where noise makes lines so
    steep that a step would cost nothing without its context; else at most half of any step."""
    drafts = any(point.part == "draft" for point in table)
    bounds = {part: _bound(table, part) for part in ("target", "draft")}
    for choice in ("per-size", "common", "bound"):
        for draft_choice in ("per-size", "common", "bound") if drafts else ("",):
            keys = {"context_cost": (choice, "target"), "draft_context_cost": (draft_choice, "draft")}
            costs = {key: bounds[part] if how == "bound" else how for key, (how, part) in keys.items() if how}
            with contextlib.suppress(BenchError):
                latency_of({**header, **costs}, table)
                return {**header, **costs}
    raise AssertionError("a table whose context costs half of a step at most is always a model")


def _bound(table: Sequence[Point], part: str) -> str:
    return f"{min((p.ms * 500 / p.context_tokens for p in table if p.part == part), default=0.0):.6g}"


def latency_of(header: dict[str, str], table: Sequence[Point]) -> LatencyModel:
    """The model a table would be once written."""
    return build_latency(parse_latency_text(format_latency_text({"format": FORMAT, **header}, table), "profile"))


def served_over_table(latency: LatencyModel, served: Sequence[Served]) -> float:
    """Median over served steps of the seconds verifying took over those the table says, NaN where there are none."""
    steps = [
        (step, float(latency.verify_s(step.rows, step.requests, step.context))) for run in served for step in run.steps
    ]
    return float(np.median([step.verify_s / priced for step, priced in steps])) if steps else float("nan")


def _target(job: ProfileJob) -> TorchModel:
    if job.architecture is not None:
        return dummy_target(job.architecture, job.dtype, job.device, graph_sizes=job.graph_sizes)
    assert job.target is not None
    return load_target(job.target, job.dtype, job.device, job.graph_sizes)


def _drafter(job: ProfileJob, target: TorchModel) -> TorchDrafter | None:
    if job.drafter is None:
        return None
    if job.architecture is not None and job.drafter == "eagle":
        return dummy_drafter("eagle", target, job.max_draft_tokens or 8)
    if job.architecture is not None and job.drafter == "parallel":
        return dummy_drafter("parallel", target, job.max_draft_tokens or 8)
    return make_drafter(job.drafter, target, job.max_draft_tokens)


def _served(
    target: TorchModel, drafter: TorchDrafter | None, job: ProfileJob, width: int, report: Report
) -> list[Served]:
    """Real runs, without a drafter and with one, at the smallest, middle and largest number of requests."""
    numbers = sorted(set(job.requests))
    numbers = sorted({numbers[0], numbers[len(numbers) // 2], numbers[-1]})
    kinds = [None] if drafter is None else [None, drafter]
    runs = [(number, kind) for kind in kinds for number in numbers]
    found = []
    for done, (number, kind) in enumerate(runs, start=1):
        found.append(served_steps(target, kind, number, min(job.contexts), width, SERVED_STEPS, _planner))
        report("served steps", done, len(runs), f"{number} requests")
    return found


def _planner(config: EngineConfig, drafts: bool) -> Planner:
    return Static(config, k=config.max_draft_tokens) if drafts else NoSpeculation(config)


def _table(
    job: ProfileJob,
    target: TorchModel,
    drafter: TorchDrafter | None,
    timings: Sequence[Timing],
    served: Sequence[Served],
) -> tuple[dict[str, str], list[Point]]:
    line: dict[str, float] = {}
    fitted = ""
    if drafter is not None and drafter.shape.kind == "parallel":
        line, error = parallel_line(timings, drafter.shape.max_draft_tokens)
        fitted = f" A proposal is two passes; their line prices the measured ones with a median error of {error:.1%}."
    numbers = {**line, **_host(served, drafter)}
    captured, padded = captured_sizes(target, drafter, timings)
    return {
        **_labels(job, target, drafter, timings, fitted),
        **captured,
        **{key: f"{value:.6g}" for key, value in numbers.items()},
    }, points(timings, **padded)


def _host(served: Sequence[Served], drafter: TorchDrafter | None) -> dict[str, float]:
    """Host terms; drafting by looking up is host time."""
    looks_up = drafter is not None and drafter.shape.kind == "ngram"
    plain = {run.requests: run.host_s for run in served if not run.drafts}
    drafting = {run.requests: run.host_s + (run.draft_s if looks_up else 0.0) for run in served if run.drafts}
    return host_terms(plain, drafting)


def _labels(
    job: ProfileJob, target: TorchModel, drafter: TorchDrafter | None, timings: Sequence[Timing], fitted: str
) -> dict[str, str]:
    spreads = [timing.spread for timing in timings]
    weights = "random weights" if job.architecture is not None else "its own weights"
    model = job.architecture or title(job.target or "")
    labels = {
        "kind": "table",
        "name": job.name or job.out.name.removesuffix(".csv"),
        "device": device_name(target.device),
        "model": f"{model}, {weights}",
        "dtype": job.dtype,
        "engine": engine_name() + (f", {target.graphs}" if target.graphs.sizes else ""),
        "date": date.today().isoformat(),
        "origin": "measured",
        "source": f"lightspec-bench {__version__} profile on {device_name(target.device)}, {date.today().isoformat()}: "
        f"medians of {job.repeats} steps of the engine per shape, host terms from served steps",
        "licence": "own measurement",
        "note": f"Half the distance between quartiles over the median: {np.median(spreads):.1%} for the typical shape, "
        f"{max(spreads):.1%} for the worst.{fitted}",
    }
    if drafter is not None:
        labels["drafter"] = f"{drafter.name}, D = {drafter.shape.max_draft_tokens}"
    return labels


def document(found: Profile, out: Path) -> dict[str, Any]:
    """JSON values of a profile: the header, every timing with its quartiles, and the served steps."""
    return {
        "table": str(out),
        "header": found.header,
        "served_over_table": found.served_over_table,
        "timings": [
            {
                "part": timing.part,
                "rows": timing.shape.rows,
                "requests": timing.shape.requests,
                "context_tokens": timing.shape.requests * timing.shape.context,
                "ms": [round(float(q) * 1e3, 6) for q in np.percentile(timing.seconds, (25, 50, 75))],
            }
            for timing in found.timings
        ],
        "served": [
            {"requests": run.requests, "drafts": run.drafts, "host_ms": run.host_s * 1e3, "draft_ms": run.draft_s * 1e3}
            for run in found.served
        ],
    }
