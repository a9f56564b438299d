"""The table that planners are told in a measured run: fitted to short runs of the same engine at the same load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightspec_bench.bench import Bench
from lightspec_bench.core import Columns, LatencyModel
from lightspec_bench.latency import AffineCurve, LinearLatency
from lightspec_bench.latency_file import build_latency, load_latency, write_latency_csv
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.requests import Sending
from lightspec_bench.served import fit_served

SHORT_TOKENS = 16  # per request: enough steps for a median, short enough to be done with in seconds
_UNKNOWN = LinearLatency(name="unknown", origin="modelled", source="not known yet", target=AffineCurve(1.0))


def depths(max_draft_tokens: int) -> list[int]:
    """Static K of the short runs: powers of two, and the deepest."""
    return sorted({k for k in (1, 2, 4, 8, 16) if k < max_draft_tokens} | {max_draft_tokens})


def served_latencies(bench: Bench, concurrencies: Sequence[int], folder: Path | None = None) -> dict[int, LatencyModel]:
    """Fitted to short runs at each concurrency; kept in `folder` as `latency-N.csv`, and taken from there.

    All runs without a drafter come last: for some engines they are another start, on which the first cells go on.
    """
    paths = {number: folder / f"latency-{number}.csv" for number in concurrencies} if folder else {}
    found = {number: load_latency(str(path)) for number, path in paths.items() if path.exists()}
    missing = [number for number in concurrencies if number not in found]
    static = [f"static:k={k}" for k in depths(bench.drafter.max_draft_tokens)]
    speculating = {number: [_steps(bench, number, planner) for planner in static] for number in missing}
    for number in missing:
        plain = [_steps(bench, number, "none")]
        file = fit_served(plain, speculating[number], bench.drafter, labels(bench, number), "median")
        if folder is not None:
            write_latency_csv(paths[number], file.header, file.points)
        found[number] = build_latency(file)
    return found


def labels(bench: Bench, concurrency: int) -> dict[str, str]:
    """Header lines of a table from this engine."""
    engine, what = bench.engine, bench.what
    names = Path(what.target).name, engine.drafter_name, engine.name
    return served_labels(what.dtype, engine.machine(), *names, concurrency)


def served_labels(
    dtype: str, environment: Mapping[str, Any], target: str, drafter: str, engine: str, concurrency: int
) -> dict[str, str]:
    """Header lines of a table fitted to served steps."""
    threads = environment.get("torch_threads")
    return {
        "name": f"served-{concurrency}",
        "device": str(environment.get("device", "unknown")) + (f", {threads} threads" if threads else ""),
        "model": target,
        "drafter": drafter,
        "dtype": dtype,
        "engine": engine,
        "source": f"fitted to served steps at {concurrency} requests",
        "licence": "as the figures of your own machine",
    }


def _steps(bench: Bench, concurrency: int, planner: str) -> Columns:
    """Step columns of a short run; every place is taken, by the same prompts again where they are few."""
    config = bench.config(concurrency, _UNKNOWN)
    number = len(bench.requests)
    requests = [replace(bench.requests[i % number], max_tokens=_short(bench, i)) for i in range(concurrency)]
    run, _ = bench.engine.run(make_planner(planner, config), requests, config, Sending(), 0)
    assert run.steps is not None
    return run.steps


def _short(bench: Bench, number: int) -> int:
    return min(SHORT_TOKENS, bench.requests[number % len(bench.requests)].max_tokens)


def warm_up(bench: Bench, concurrencies: Sequence[int]) -> None:
    """A short run at the largest load, so that the first cell does not pay for first times."""
    _steps(bench, max(concurrencies), f"static:k={bench.drafter.max_draft_tokens}")
