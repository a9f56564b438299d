"""Inputs: what a suite's names stand for, and digests of everything that determines a cell.

A cell's key is a hash of its settings and of these digests, so a finished cell is taken for finished only as long as
its trace's content, its latency model's prices, its planner's code and the simulator are what they were.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.cell_run import cached_latency, cached_trace
from lightspec_bench.code_version import code_version, source_digest
from lightspec_bench.core import BenchError, LatencyModel, Trace
from lightspec_bench.registry import WRAPPED, parse_spec, target_of
from lightspec_bench.store import read_json
from lightspec_bench.suite import Cell, Suite
from lightspec_bench.traces.mapped import trace_digest

INPUTS = "inputs.json"


@dataclass(frozen=True, slots=True)
class Digests:
    """SHA-256 of the simulator's code, and by name of traces, latency models and planners (code and files they read).

    `max_draft_tokens` per trace goes with them: it says which static K there are.
    """

    simulator: str
    traces: Mapping[str, str]
    latencies: Mapping[str, str]
    planners: Mapping[str, str]
    max_draft_tokens: Mapping[str, int]

    def of(self, cell: Cell) -> str:
        """What determines a cell beside its settings."""
        parts = self.traces[cell.trace], self.latencies[cell.latency], self.planners[cell.planner]
        return _sha("\n".join([self.simulator, *parts]))


@dataclass(frozen=True, slots=True)
class Inputs:
    """A suite's names, loaded where they are asked for; the last few stay in memory."""

    suite: Suite
    digests: Digests

    def trace(self, name: str) -> Trace:
        return cached_trace(self.suite.spec(name))

    def latency(self, name: str) -> LatencyModel:
        return cached_latency(self.suite.spec(name))


def load_inputs(suite: Suite) -> Inputs:
    """Load every trace and latency model, so that a wrong name fails here, and take all digests."""
    latencies = {name: latency_digest(cached_latency(suite.spec(name))) for name in suite.latencies}
    traces, depths = {}, {}
    for name in suite.traces:
        trace = cached_trace(suite.spec(name))
        traces[name], depths[name] = trace_digest(trace), trace.max_draft_tokens
    planners = {cell.planner for cell in suite.cells(depths)}
    digests = {spec: planner_digest(spec) for spec in sorted(planners)}
    return Inputs(suite, Digests(simulator_digest(), traces, latencies, digests, depths))


def cells_of(suite: Suite, digests: Digests) -> list[Cell]:
    """The suite's cells, each with the digest of its inputs."""
    return [replace(cell, inputs=digests.of(cell)) for cell in suite.cells(digests.max_draft_tokens)]


def stored_digests(folder: Path) -> Digests | None:
    """The digests that a results folder was last run with, None where it was measured or is older than they are."""
    path = folder / INPUTS
    if not path.exists():
        return None
    try:
        return Digests(**read_json(path))
    except TypeError as error:
        raise BenchError(f"{path}: is not a run's inputs: {error}") from error


def simulator_digest() -> str:
    """Code that turns trace, prices and planner into a run: the simulated runner and the reader of latency files."""
    parts = code_version("lightspec_bench.runners.fleet"), code_version("lightspec_bench.latency_file")
    return _sha("\n".join([*parts, source_digest("lightspec_bench.cell_run")]))


def planner_digest(spec: str) -> str:
    """A planner's code, that of the planners it wraps, and the content of files that its options name."""
    name, options = parse_spec(spec)
    try:
        module = target_of("planner", name).partition(":")[0]
    except BenchError as error:  # its cells fail with it
        return _sha(str(error))
    inner = options.get(WRAPPED)
    wrapped = [planner_digest(inner)] if isinstance(inner, str) else []
    files = [value for _, value in sorted(options.items()) if isinstance(value, str) and os.path.isfile(value)]
    contents = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in files]
    return _sha("\n".join([code_version(module), *wrapped, *contents]))


def latency_digest(latency: LatencyModel) -> str:
    """Everything in a latency model: its fields to the last array, wherever they were read from."""
    return _sha(json.dumps(list(_flat(latency))))


def _flat(value: Any) -> Iterator[Any]:
    """A record as a flat list of types and plain values."""
    yield type(value).__name__
    if dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            yield each.name
            yield from _flat(getattr(value, each.name))
    elif isinstance(value, np.ndarray):
        yield from (value.dtype.str, value.shape, value.tolist())
    elif isinstance(value, (tuple, list)):
        yield len(value)
        for each in value:
            yield from _flat(each)
    else:
        yield repr(value)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
