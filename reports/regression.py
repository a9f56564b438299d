"""Two runs held against each other, cell by cell: better, worse, or no difference shown. Pure functions of summaries.

Cells are paired by trace, latency model, concurrency, planner and seed (a seed of a measured run is a repeat). The
change of a cell is a ratio of sums: all tokens / all seconds of the new run over those of the base. What is drawn for
an interval are seeds, each with its pair; so a run without repeats has none. Over all cells the change is the geometric
mean, and a seed is drawn for all cells at once. A bootstrap of n is too narrow by sqrt((n - 1) / n) (Hesterberg, 2015,
"What Teachers Should Know About the Bootstrap", 3.1); intervals are widened by as much.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from lightspec_bench.core import BenchError, FloatArray
from lightspec_bench.reports import intervals
from lightspec_bench.reports.cells import CELL
from lightspec_bench.reports.request_metrics import quotient
from lightspec_bench.reports.verdict import TIE

Word = Literal["better", "worse", "no difference shown", "no interval"]
_SUMS = ("num_output_tokens", "elapsed_s", "num_accepted_tokens", "num_spec_steps")


@dataclass(frozen=True, slots=True)
class Change:
    """One cell's change, or that over all (`planner` "all cells"). Throughput in tokens/s, the others are ratios.

    `ratio` is the ratio of sums, `mean_of_ratios` the mean over pairs, `mean_of_request_ratios` the mean over requests
    of each one's speed against itself (Spec-Bench's figure). `low` and `high` are NaN without repeats.
    """

    trace: str
    latency: str
    concurrency: int
    planner: str
    num_pairs: int
    base: float
    new: float
    ratio: float
    low: float
    high: float
    mean_of_ratios: float
    mean_of_request_ratios: float
    base_acceptance_length: float
    new_acceptance_length: float

    @property
    def word(self) -> Word:
        """The verdict: at least 1 % and an interval without 1, as everywhere in reports."""
        if math.isnan(self.low):
            return "no interval"
        if abs(self.ratio - 1.0) < TIE or self.low <= 1.0 <= self.high:
            return "no difference shown"
        return "better" if self.ratio > 1.0 else "worse"

    def fails(self, max_regression: float) -> bool:
        """Whether it is slower by more than a bound: shown to be worse or, without repeats, as measured."""
        return self.word in ("worse", "no interval") and self.ratio < 1.0 - max_regression

    def document(self) -> dict[str, Any]:
        """As JSON values, NaN as None."""
        values = {name: None if value != value else value for name, value in asdict(self).items()}
        return {**values, "word": self.word}


@dataclass(frozen=True, slots=True)
class Regression:
    """Every paired cell's change, that over all of them, and the cells that only one of the runs has."""

    changes: tuple[Change, ...]
    overall: Change
    only_base: tuple[str, ...]
    only_new: tuple[str, ...]


def compare_runs(
    base: pd.DataFrame,
    new: pd.DataFrame,
    base_requests: pd.DataFrame | None = None,
    new_requests: pd.DataFrame | None = None,
    planners: Collection[str] = (),
    seed: int = 0,
    num_resamples: int = intervals.NUM_RESAMPLES,
) -> Regression:
    """Hold two summaries (a row per cell and seed) against each other; of `planners` only, where any are named.

    `*_requests` are `cells.request_rows`, for the mean of request ratios. Raises `BenchError` where nothing pairs.
    """
    sides = [_chosen(side, planners) for side in (base, new)]
    keys = [*CELL, "seed"]
    columns = [name for name in (*keys, "throughput", *_SUMS) if name in sides[0] and name in sides[1]]
    pairs = sides[0][columns].merge(sides[1][columns], on=keys, suffixes=("_base", "_new"))
    if not len(pairs):
        raise BenchError("the two runs have no cell in common (trace, latency model, concurrency, planner and seed)")
    by_request = _request_ratios(base_requests, new_requests)
    changes = [
        _change(names, rows, by_request, seed, num_resamples) for names, rows in pairs.groupby(list(CELL), sort=False)
    ]
    only = [_alone(side, other) for side, other in (sides, sides[::-1])]
    return Regression(tuple(changes), _overall(pairs, changes, seed, num_resamples), *only)


def _chosen(summary: pd.DataFrame, planners: Collection[str]) -> pd.DataFrame:
    absent = [name for name in planners if name not in set(summary["planner"])]
    if absent:
        ran = ", ".join(map(str, summary["planner"].unique()))
        raise BenchError(f"--planner is {absent[0]!r}, which a run does not have, expected one of {ran}")
    return summary[summary["planner"].isin(planners)] if planners else summary


def _alone(side: pd.DataFrame, other: pd.DataFrame) -> tuple[str, ...]:
    """The cells that only one side has, as words."""
    keys = [*CELL, "seed"]
    there = set(other[keys].itertuples(index=False, name=None))
    rows = [row for row in side[keys].itertuples(index=False, name=None) if row not in there]
    return tuple(
        f"{trace} · {latency} · {load} · {planner}, seed {seed}" for trace, latency, load, planner, seed in rows
    )


def _change(names: Any, rows: pd.DataFrame, by_request: dict[Any, float], seed: int, num_resamples: int) -> Change:
    base, new = (_throughput(rows, side) for side in ("base", "new"))
    low, high = _interval(_log_ratios(_sums(rows)[:, None], seed, num_resamples)[:, 0], math.log(new / base), len(rows))
    trace, latency, concurrency, planner = names
    return Change(
        trace, latency, concurrency, planner, len(rows), base, new, new / base, low, high,
        float((rows["throughput_new"] / rows["throughput_base"]).mean()), by_request.get(tuple(names), math.nan),
        _acceptance(rows, "base"), _acceptance(rows, "new"),
    )  # fmt: skip


def _throughput(rows: pd.DataFrame, side: str) -> float:
    """Ratio of sums over seeds: all tokens / all seconds."""
    return float(rows[f"num_output_tokens_{side}"].sum() / rows[f"elapsed_s_{side}"].sum())


def _acceptance(rows: pd.DataFrame, side: str) -> float:
    names = [f"num_accepted_tokens_{side}", f"num_spec_steps_{side}"]
    if names[0] not in rows or not rows[names[1]].sum():
        return math.nan
    return 1.0 + float(rows[names[0]].sum() / rows[names[1]].sum())


def _sums(rows: pd.DataFrame) -> FloatArray:
    """Tokens and seconds of base and new per seed, (S, 4)."""
    names = ("num_output_tokens_base", "elapsed_s_base", "num_output_tokens_new", "elapsed_s_new")
    return rows[list(names)].to_numpy(dtype=np.float64)


def _log_ratios(sums: FloatArray, seed: int, num_resamples: int) -> FloatArray:
    """Log ratios of throughputs under draws of seeds, (S, C, 4) -> (draws, C)."""
    drawn = intervals.resample(sums, seed, num_resamples)
    return np.log(quotient(drawn[..., 2], drawn[..., 3])) - np.log(quotient(drawn[..., 0], drawn[..., 1]))


def _interval(draws: FloatArray, point: float, num_seeds: int) -> tuple[float, float]:
    """The ratio's interval around a log point estimate, widened for few seeds; NaN for a single one."""
    if num_seeds < 2:
        return math.nan, math.nan
    wider = point + (draws - point) * math.sqrt(num_seeds / (num_seeds - 1))
    low, high = intervals.interval(np.exp(wider))
    return low, high


def _overall(pairs: pd.DataFrame, changes: list[Change], seed: int, num_resamples: int) -> Change:
    """Geometric mean over cells; its interval draws the seeds that every cell has."""
    logs = np.log([change.ratio for change in changes])
    point = float(logs.mean())
    cells = [rows.set_index("seed") for _, rows in pairs.groupby(list(CELL), sort=False)]
    shared = sorted(set.intersection(*(set(rows.index) for rows in cells)))
    low = high = math.nan
    if len(shared) > 1:
        sums = np.stack([_sums(rows.loc[shared]) for rows in cells], axis=1)
        low, high = _interval(_log_ratios(sums, seed, num_resamples).mean(axis=1), point, len(shared))
    means = [float(np.exp(np.mean(np.log([getattr(change, name) for change in changes])))) for name in
             ("base", "new", "mean_of_ratios", "mean_of_request_ratios")]  # fmt: skip
    base, new, of_ratios, of_requests = means
    return Change(
        "", "", 0, "all cells", len(shared), base, new, math.exp(point), low, high, of_ratios, of_requests,
        math.nan, math.nan,
    )  # fmt: skip


def _request_ratios(base: pd.DataFrame | None, new: pd.DataFrame | None) -> dict[Any, float]:
    """Cell -> mean over requests of (new speed / base speed), seeds and repetitions of a request summed first."""
    if base is None or new is None:
        return {}
    keys = [*CELL, "request_id"]
    both = _speeds(base, keys).merge(_speeds(new, keys), on=keys, suffixes=("_base", "_new"))
    both["ratio"] = both["speed_new"] / both["speed_base"]
    means = both.dropna(subset=["ratio"]).groupby(list(CELL), sort=False)["ratio"].mean()
    return {tuple(names): float(value) for names, value in means.items()}  # type: ignore[arg-type]


def _speeds(requests: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    seconds = requests.assign(residence_s=requests["finish_s"] - requests["start_s"])
    sums = seconds.groupby(keys, sort=False)[["num_output_tokens", "residence_s"]].sum()
    speed = quotient(sums["num_output_tokens"].to_numpy(), sums["residence_s"].to_numpy())
    return sums.assign(speed=speed)[["speed"]].reset_index()
