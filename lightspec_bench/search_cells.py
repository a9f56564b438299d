"""Cells of a search: planners on fractions of the requests, each cell run once, and their throughput."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lightspec_bench.core import BenchError
from lightspec_bench.experiment import Executor
from lightspec_bench.inputs import Digests, planner_digest
from lightspec_bench.store import CELLS, read_json, whole_runs
from lightspec_bench.suite import Cell, Suite


class Cells:
    """Throughput of planners on the suite's places, each cell run once; those of an earlier run are found again."""

    def __init__(
        self, suite: Suite, digests: Digests, lengths: Mapping[str, int], folder: Path, executor: Executor
    ) -> None:
        self.suite, self.digests, self.lengths, self.folder, self.executor = suite, digests, lengths, folder, executor
        self._whole = whole_runs(folder / CELLS)
        self._reasons: dict[str, str] = {}
        self._read = functools.lru_cache(maxsize=None)(self._totals)

    def run(self, specs: Sequence[str], fraction: float) -> None:
        cells = {cell.key: cell for spec in specs for place in self._places(spec, fraction) for cell in place}
        new = [cell for key, cell in cells.items() if key not in self._whole and key not in self._reasons]
        for outcome in self.executor.run(new):
            if outcome.status == "done":
                self._whole.add(outcome.key)
            else:
                self._reasons[outcome.key] = outcome.reason

    def score(self, spec: str, default: str, fraction: float) -> float:
        """Raises `BenchError` with the reason where a cell has no result."""
        pairs = zip(self._places(spec, fraction), self._places(default, fraction), strict=True)
        logs = [math.log(self._throughput(one) / self._throughput(other)) for one, other in pairs]
        return math.exp(sum(logs) / len(logs))

    def num_cells(self) -> int:
        suite = self.suite
        return len(suite.traces) * len(suite.latencies) * len(suite.concurrencies) * len(suite.seeds)

    def _places(self, spec: str, fraction: float) -> Iterator[list[Cell]]:
        """The cells of a planner on a fraction of the requests: a list of seeds for each place."""
        suite = self.suite
        digests = replace(self.digests, planners={spec: planner_digest(spec)})
        for trace in suite.traces:
            for latency in suite.latencies:
                for concurrency in suite.concurrencies:
                    cells = [suite.cell(trace, latency, concurrency, spec, seed) for seed in suite.seeds]
                    cells = [self._shortened(cell, fraction) for cell in cells]
                    yield [replace(cell, inputs=digests.of(cell)) for cell in cells]

    def _shortened(self, cell: Cell, fraction: float) -> Cell:
        conditions = cell.conditions
        wanted = math.ceil(fraction * (conditions.num_requests or self.lengths[cell.trace]))
        least = 4 * cell.concurrency if conditions.arrivals == "closed" else 1  # as the load has it
        return replace(cell, conditions=replace(conditions, num_requests=max(wanted, least)))

    def _throughput(self, cells: Sequence[Cell]) -> float:
        """Tokens per second over the seeds."""
        for cell in cells:
            if cell.key in self._reasons:
                raise BenchError(self._reasons[cell.key])
        tokens, seconds = zip(*(self._read(cell.key) for cell in cells), strict=True)
        return float(sum(tokens) / sum(seconds))

    def _totals(self, key: str) -> tuple[int, float]:
        totals = read_json(self.folder / CELLS / f"{key}.json")["totals"]
        return totals["num_output_tokens"], totals["elapsed_s"]
