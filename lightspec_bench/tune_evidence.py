"""Evidence: simulated cells at traces and loads, and paired ratios of planners over them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from lightspec_bench.core import FloatArray
from lightspec_bench.reports.cells import CELL, LABELS
from lightspec_bench.reports.columns import origin_label, records
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.intervals import NUM_RESAMPLES, interval
from lightspec_bench.reports.ranking import log_draws
from lightspec_bench.reports.verdict import TIE

Place: TypeAlias = "tuple[str, int]"  # trace, load
Pick: TypeAlias = "str | Mapping[Place, str]"  # one planner, or one for each place


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of throughputs, geometric mean over places, with its 95 % interval over requests (NaN where unknown)."""

    value: float
    low: float
    high: float

    @property
    def is_level(self) -> bool:
        """Whether no difference is shown: less than 1 % either way, or an interval that contains none."""
        return abs(self.value - 1.0) < TIE or self.low <= 1.0 <= self.high

    @property
    def document(self) -> dict[str, float | None]:
        known = not math.isnan(self.low)
        return {"ratio": self.value, "low": self.low if known else None, "high": self.high if known else None}


class Evidence:
    """Finished cells of one latency model. Seeds are pooled; draws of requests are shared by all planners."""

    def __init__(self, summary: pd.DataFrame, requests: pd.DataFrame, num_resamples: int = NUM_RESAMPLES) -> None:
        compared = compare(summary[[name for name in summary if _is_read(str(name))]])
        compared = compared[compared["planner"] == compared["stands_for"]].reset_index(drop=True)
        self.origin = origin_label(compared)
        self.rows: dict[tuple[Place, str], dict[str, Any]] = {}
        self._logs: dict[tuple[Place, str], tuple[float, FloatArray]] = {}
        draws = log_draws(compared, requests, 0, num_resamples)
        for row, drawn in zip(records(compared), draws, strict=True):
            key = (str(row["trace"]), int(row["concurrency"])), str(row["planner"])
            self.rows[key] = row
            self._logs[key] = math.log(row["throughput"]), drawn

    def has(self, planner: str, places: Sequence[Place]) -> bool:
        """Whether a planner has a result at each of these places."""
        return all((place, planner) in self.rows for place in places)

    def ratio(self, planner: Pick, reference: Pick, places: Sequence[Place]) -> Ratio:
        """Throughput of one planner against another, geometric mean over places, each counting the same."""
        pairs = [(self._log(planner, place), self._log(reference, place)) for place in places]
        value = math.exp(sum(one - other for (one, _), (other, _) in pairs) / len(pairs))
        draws = np.mean([one - other for (_, one), (_, other) in pairs], axis=0)
        return Ratio(value, *interval(np.exp(draws)))

    def fastest(self, planners: Sequence[str], places: Sequence[Place]) -> str:
        """The planner with the highest geometric mean of throughput; of equals the first."""
        return max(planners, key=lambda planner: sum(self._log(planner, place)[0] for place in places))

    def value(self, planner: str, place: Place, column: str) -> float:
        """A metric of a cell."""
        return float(self.rows[place, planner][column])

    def _log(self, planner: Pick, place: Place) -> tuple[float, FloatArray]:
        return self._logs[place, planner if isinstance(planner, str) else planner[place]]


def _is_read(column: str) -> bool:
    """Whether anything here reads a column of a summary, or needs it to pool seeds."""
    names = (*CELL, *LABELS, "seed", "throughput", "elapsed_s", "num_requests")
    return column in names or column.startswith(("ttft_", "tpot_", "itl_", "e2el_"))


def first_level(evidence: Evidence, planners: Sequence[str], places: Sequence[Place]) -> str:
    """Of planners in the order in which they are preferred, the first that is level with the fastest."""
    fastest = evidence.fastest(planners, places)
    return next(p for p in planners if p == fastest or evidence.ratio(p, fastest, places).is_level)
