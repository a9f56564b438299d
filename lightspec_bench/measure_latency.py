"""The table that planners are told in a measured run: fitted to short runs of the same engine at the same load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lightspec_bench.core import Columns, LatencyModel
from lightspec_bench.latency import AffineCurve, LinearLatency
from lightspec_bench.latency_file import build_latency, load_latency, write_latency_csv
from lightspec_bench.measure import Bench
from lightspec_bench.registry import make_planner
from lightspec_bench.served import fit_served

SHORT_TOKENS = 16  # per request: enough steps for a median, short enough to be done with in seconds
_UNKNOWN = LinearLatency(name="unknown", origin="modelled", source="not known yet", target=AffineCurve(1.0))


def depths(max_draft_tokens: int) -> list[int]:
    """Static K of the short runs: powers of two, and the deepest."""
    return sorted({k for k in (1, 2, 4, 8, 16) if k < max_draft_tokens} | {max_draft_tokens})


def served_latency(bench: Bench, concurrency: int, folder: Path | None = None) -> LatencyModel:
    """Fitted to short runs at `concurrency`; kept in `folder` as `latency-N.csv`, and taken from there."""
    path = None if folder is None else folder / f"latency-{concurrency}.csv"
    if path is not None and path.exists():
        return load_latency(str(path))
    plain = [_steps(bench, concurrency, "none")]
    speculating = [_steps(bench, concurrency, f"static:k={k}") for k in depths(bench.drafter.shape.max_draft_tokens)]
    file = fit_served(plain, speculating, bench.drafter.shape, labels(bench, concurrency), "median")
    if path is not None:
        write_latency_csv(path, file.header, file.points)
        return load_latency(str(path))
    return build_latency(file)


def labels(bench: Bench, concurrency: int) -> dict[str, str]:
    """Header lines of a table from this engine."""
    from lightspec_bench.measure import device_environment

    return served_labels(
        bench.what.machine, device_environment(bench), Path(bench.what.target).name, bench.drafter.name, concurrency
    )


def served_labels(
    machine: str, environment: dict[str, object], target: str, drafter: str, concurrency: int
) -> dict[str, str]:
    """Header lines of a table fitted to served steps."""
    threads = environment.get("torch_threads")
    device = str(environment.get("device", machine)) + (f", {threads} threads" if threads else "")
    return {
        "name": f"served-{concurrency}",
        "device": device,
        "model": target,
        "drafter": drafter,
        "dtype": machine.rpartition(" ")[2],
        "engine": "lightspec-bench torch runner",
        "source": f"fitted to served steps at {concurrency} requests",
        "licence": "as the figures of your own machine",
    }


def _steps(bench: Bench, concurrency: int, planner: str) -> Columns:
    """Step columns of a short run; every place is taken, by the same prompts again where they are few."""
    from lightspec_bench.runners.torch_runner import TorchOptions, TorchRunner

    config = bench.config(concurrency, _UNKNOWN)
    number = len(bench.requests)
    requests = [replace(bench.requests[i % number], max_tokens=_short(bench, i)) for i in range(concurrency)]
    options = TorchOptions(stop_tokens=bench.stop_tokens)
    run = TorchRunner(bench.target, bench.drafter, requests, config, options).run(make_planner(planner, config))
    assert run.steps is not None
    return run.steps


def _short(bench: Bench, number: int) -> int:
    return min(SHORT_TOKENS, bench.requests[number % len(bench.requests)].max_tokens)


def warm_up(bench: Bench, concurrencies: Sequence[int]) -> None:
    """A short run at the largest load, so that the first cell does not pay for first times."""
    _steps(bench, max(concurrencies), f"static:k={bench.drafter.shape.max_draft_tokens}")
