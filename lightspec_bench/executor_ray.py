"""Cells on a Ray cluster: traces go to each node once, finished runs come back here, where they are written.

Ray runs a cell again whose worker or node is lost. This process alone writes results, each cell's once, so the nodes
need no common file system.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lightspec_bench.cell_run import Outcome, attempt
from lightspec_bench.core import BenchError, LatencyModel, Trace
from lightspec_bench.inputs import Inputs, planner_digest, simulator_digest
from lightspec_bench.registry import shown
from lightspec_bench.store import CELLS, write_files
from lightspec_bench.suite import Cell

RETRIES = 3
AHEAD = 4  # cells handed to Ray per core: more keep every core busy, fewer keep what is waiting to be written small


class RayExecutor:
    """Runs cells on the cluster at `address`, or on one started here with `jobs` cores where there is none.

    `jobs` is how many cells run at once, None for as many as the cluster has cores. Used as a context. Raises
    `BenchError` where Ray is missing, the cluster cannot be reached, or its nodes have other code than this process.
    """

    def __init__(self, inputs: Inputs, folder: Path, jobs: int | None, address: str | None = None) -> None:
        self.inputs, self.folder, self.jobs, self.address = inputs, folder, jobs, address
        self._put: dict[tuple[str, str], Any] = {}
        self._ray: Any = None

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        if self._ray is not None:
            self._put.clear()
            self._ray.shutdown()

    def _connect(self) -> None:
        self._ray = _ray()
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no reports to others unless asked for
        found = self.address or os.environ.get("RAY_ADDRESS")
        start: dict[str, Any] = {"address": found}
        if not found:
            start = {"address": "local", "num_cpus": self.jobs, "include_dashboard": False}
        try:
            self._ray.init(**start, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # Ray's own kinds of errors have no base in common
            raise BenchError(f"--ray-address {found or 'of a new cluster'}: {shown(error)}") from error
        self._limit = self.jobs if found else None
        self._call = self._ray.remote(max_retries=RETRIES)(_remote_cell)

    def run(self, cells: Sequence[Cell]) -> Iterator[Outcome]:
        """How each cell ended, as they end; finished ones are in the folder by then."""
        if cells and self._ray is None:
            self._connect()
        waiting, running = deque(cells), dict[Any, Cell]()
        while waiting or running:
            while waiting and len(running) < self._most():
                cell = waiting.popleft()
                running[self._submit(cell)] = cell
            ended, _ = self._ray.wait(list(running), num_returns=1)
            for ref in ended:
                yield self._written(running.pop(ref), ref)

    def _most(self) -> int:
        """How many cells Ray is given at once: a cluster that grows shows more cores, and gets more."""
        return self._limit or max(64, AHEAD * int(self._ray.cluster_resources().get("CPU", 1)))

    def _submit(self, cell: Cell) -> Any:
        trace, latency = self._shared("trace", cell.trace), self._shared("latency", cell.latency)
        return self._call.remote(cell, trace, latency, _code(cell.planner), sys.argv)

    def _shared(self, kind: str, name: str) -> Any:
        """A trace or latency model in Ray's object store; nodes fetch it once, and their workers map it."""
        if (kind, name) not in self._put:
            value = self.inputs.trace(name) if kind == "trace" else self.inputs.latency(name)
            self._put[kind, name] = self._ray.put(value)
        return self._put[kind, name]

    def _written(self, cell: Cell, ref: Any) -> Outcome:
        outcome: Outcome | BenchError
        try:
            outcome, files = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            raise BenchError(f"a Ray worker cannot run {cell.planner}: {shown(error.cause)}") from error
        except self._ray.exceptions.RayError as error:
            how = f"its worker or node was lost {RETRIES + 1} times, at last with {shown(error)[:200]}"
            return Outcome(cell.key, "failed", f"{cell.planner}: {how}")
        if isinstance(outcome, BenchError):
            raise outcome
        write_files(self.folder / CELLS, files)
        return outcome


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise BenchError("--executor ray needs the package ray: pip install 'lightspec-bench[ray]'") from None
    return ray


def _remote_cell(
    cell: Cell, trace: Trace, latency: LatencyModel, expected: tuple[str, str], command: list[str]
) -> tuple[Outcome | BenchError, dict[str, bytes]]:
    """One cell on a worker: how it ended and its files, or what keeps every cell from running there."""
    found = _code(cell.planner)
    if found != expected:
        what = "lightspec-bench" if found[0] != expected[0] else f"planner {cell.planner}"
        where = platform.node()
        return BenchError(f"Ray node {where} has other code of {what} than this process, expected the same"), {}
    sys.argv = command  # what a run's environment shows: Ray's own names addresses and passwords
    return attempt(cell, trace, latency)


@functools.cache
def _code(planner: str) -> tuple[str, str]:
    return simulator_digest(), planner_digest(planner)
