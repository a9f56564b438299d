"""Validation: what the simulator predicts beside what was measured, cell by cell; pure functions and one picture.

A validation frame has one row per (concurrency, planner), repeats pooled: `held_out` (the price list was not fitted to
this cell) and for each metric of `METRICS` the columns `<metric>_measured`, `<metric>_predicted` and `<metric>_error`
(predicted / measured - 1).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lightspec_bench.core import BenchError
from lightspec_bench.reports.figures import finish, grid
from lightspec_bench.reports.pooling import pool_seeds

METRICS = ("throughput", "mean_acceptance_length", "step_time_s")
TARGETS = {"throughput": 0.05, "mean_acceptance_length": 0.01}
SINGLE_RUN_NOISE = 0.05  # two single runs that differ by less are not called different
_AXES = {"throughput": "output tokens/s", "mean_acceptance_length": "acceptance length", "step_time_s": "step (s)"}
_FITTED: dict[str, Any] = {"color": "#6e6e6e", "marker": "o"}
_HELD_OUT: dict[str, Any] = {"color": "#d55e00", "marker": "D"}


@dataclass(frozen=True, slots=True)
class Agreement:
    """Pairs of planners at one concurrency that differ by more than the noise, and in how many both agree."""

    concurrency: int
    noise: float
    num_pairs: int
    num_alike: int


def validation_frame(measured: pd.DataFrame, predicted: pd.DataFrame, held_out: pd.Series) -> pd.DataFrame:
    """Join two summaries of the same cells, one row per cell and seed each. `held_out` is aligned with them.

    Raises `BenchError` where the cells are not the same.
    """
    keys = ["concurrency", "planner", "seed"]
    if not measured[keys].reset_index(drop=True).equals(predicted[keys].reset_index(drop=True)):
        raise BenchError("measured and predicted cells differ, expected the same cells in the same order")
    both = [pool_seeds(summary)[["concurrency", "planner", *METRICS]] for summary in (measured, predicted)]
    frame = both[0].merge(both[1], on=["concurrency", "planner"], suffixes=("_measured", "_predicted"))
    for metric in METRICS:
        frame[f"{metric}_error"] = frame[f"{metric}_predicted"] / frame[f"{metric}_measured"] - 1.0
    kept = measured[["concurrency", "planner"]].assign(held_out=held_out.to_numpy()).drop_duplicates()
    return frame.merge(kept, on=["concurrency", "planner"])


def median_error(frame: pd.DataFrame, metric: str) -> float:
    """Median of the absolute errors where they are known; NaN where none is."""
    errors = frame[f"{metric}_error"].abs().dropna()
    return float(errors.median()) if len(errors) else float("nan")


def noise_of(measured: pd.DataFrame) -> dict[int, float]:
    """By concurrency, the smallest difference in throughput that is not noise, as a fraction.

    Twice the standard error of a difference of two means of repeats, from the relative spread of repeats pooled over
    planners; `SINGLE_RUN_NOISE` where every cell ran once.
    """
    found = {}
    for concurrency, cells in measured.groupby("concurrency", sort=False):
        by_planner = cells.groupby("planner")["throughput"]
        spread = (by_planner.std() / by_planner.mean()).dropna()
        repeats = float(by_planner.size().median())
        error = 2.0 * np.sqrt(2.0 / repeats) * np.sqrt(float(np.square(spread).mean())) if len(spread) else None
        found[int(str(concurrency))] = SINGLE_RUN_NOISE if error is None else float(error)
    return found


def agreements(frame: pd.DataFrame, noise: dict[int, float]) -> list[Agreement]:
    """Whether the simulator ranks the same planner first in each pair that measurement tells apart."""
    found = []
    for concurrency, cells in frame.groupby("concurrency", sort=False):
        level = noise[int(str(concurrency))]
        pairs = list(itertools.combinations(range(len(cells)), 2))
        measured, predicted = (np.log(cells[f"throughput_{kind}"].to_numpy()) for kind in ("measured", "predicted"))
        apart = [(i, j) for i, j in pairs if abs(measured[i] - measured[j]) > np.log1p(level)]
        alike = sum((measured[i] > measured[j]) == (predicted[i] > predicted[j]) for i, j in apart)
        found.append(Agreement(int(str(concurrency)), level, len(apart), int(alike)))
    return found


def validation_figure(frame: pd.DataFrame, origin: str) -> Figure:
    """Predicted against measured, a panel per metric; the band is the target error where there is one."""
    figure, axes = grid(1, len(METRICS), (3.6, 3.2))
    for axis, metric in zip(axes[0], METRICS, strict=True):
        known = frame.dropna(subset=[f"{metric}_error"])
        values = known[[f"{metric}_measured", f"{metric}_predicted"]].to_numpy(dtype=np.float64)
        low, high = (values.min() * 0.9, values.max() * 1.1) if len(values) else (0.0, 1.0)
        line = np.array([low, high])
        axis.plot(line, line, color="#000000", linewidth=0.8)
        if metric in TARGETS:
            axis.fill_between(line, line * (1 - TARGETS[metric]), line * (1 + TARGETS[metric]), color="#dddddd")
        for held_out, style in ((False, _FITTED), (True, _HELD_OUT)):
            chosen = values[(known["held_out"] == held_out).to_numpy()]
            axis.plot(chosen[:, 0], chosen[:, 1], linestyle="none", markersize=4.5, **style)
        axis.set_title(_AXES[metric], fontsize=9, loc="left")
        axis.set_xlabel("measured", fontsize=8)
    axes[0][0].set_ylabel("predicted", fontsize=8)
    handles = [
        Line2D([], [], linestyle="none", label=label, **style)
        for label, style in (("prices fitted to this cell", _FITTED), ("held out", _HELD_OUT))
    ]
    return finish(figure, origin, handles)


def verdict_lines(frame: pd.DataFrame, agreement: list[Agreement]) -> list[str]:
    """What was reached against the targets, in sentences."""
    lines = []
    held_out = frame[frame["held_out"]]
    for metric, target in TARGETS.items():
        name = metric.replace("_", " ")
        parts = [f"{100 * median_error(frame, metric):.1f} % over all {len(frame)} cells"]
        if len(held_out):
            parts.append(f"{100 * median_error(held_out, metric):.1f} % over {len(held_out)} held out")
        reached = median_error(held_out if len(held_out) else frame, metric) <= target
        word = "reached" if reached else "missed"
        lines.append(f"Median error of {name}: {', '.join(parts)}; target {100 * target:.0f} %: {word}.")
    return lines + [_agreement_line(each) for each in agreement]


def _agreement_line(each: Agreement) -> str:
    if not each.num_pairs:
        return f"At {each.concurrency} requests no two planners differ by more than {100 * each.noise:.1f} % (noise)."
    return (
        f"At {each.concurrency} requests {each.num_alike} of {each.num_pairs} pairs of planners that differ by more "
        f"than {100 * each.noise:.1f} % (noise) are ranked alike."
    )
