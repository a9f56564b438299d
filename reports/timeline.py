"""Timeline: verify budget, draft depth and acceptance over the steps of one or several planners' runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lightspec_bench.core import BenchError, Columns, FloatArray, IntArray, Run
from lightspec_bench.reports.figures import finish, grid, legend_handle
from lightspec_bench.reports.styles import Style, Styles, styles_of

MAX_POINTS = 300


@dataclass(frozen=True, slots=True)
class Timeline:
    """Runs of one (trace, latency, concurrency), with step records, under the names of their planners."""

    trace: str
    latency: str
    latency_origin: str
    concurrency: int
    runs: Sequence[tuple[str, Run]]


def timeline_figure(timeline: Timeline, styles: Styles | None = None) -> Figure:
    """Target rows, draft depth and tokens per request over steps, one line per planner.

    Runs longer than 300 steps are drawn as means over equal bins with a band from the least to the most in each.
    `BenchError` where a run has no step records.
    """
    styles = styles or styles_of(planner for planner, _ in timeline.runs)
    figure, axes = grid(3, 1, (8.4, 1.9))
    rows_axis, depth_axis, tokens_axis = (row[0] for row in axes)
    for planner, run in timeline.runs:
        steps = _steps(planner, run)
        tokens = 1.0 + steps["num_accepted_tokens"] / np.maximum(steps["num_requests"], 1)
        for axis, values in (
            (rows_axis, steps["num_target_tokens"]),
            (depth_axis, steps["draft_depth"]),
            (tokens_axis, tokens),
        ):
            _line(axis, steps["step"], values, styles[planner])
    title = f"{timeline.trace} · {timeline.latency} · concurrency {timeline.concurrency}"
    rows_axis.set_title(textwrap.fill(title, 100), fontsize=9, loc="left")
    rows_axis.set_ylabel("verify budget\n(target rows/step)", fontsize=8)
    depth_axis.set_ylabel("draft depth\n(tokens)", fontsize=8)
    tokens_axis.set_ylabel("emitted\n(tokens/request)", fontsize=8)
    tokens_axis.set_xlabel("step", fontsize=8)
    origins = ", ".join(dict.fromkeys(run.origin for _, run in timeline.runs))
    origin = f"{origins[:1].upper()}{origins[1:]}; latency: {timeline.latency}, {timeline.latency_origin}"
    return finish(figure, origin, [legend_handle(planner, styles[planner]) for planner, _ in timeline.runs])


def _steps(planner: str, run: Run) -> Columns:
    if run.steps is None:
        raise BenchError(f"timeline: the run of planner {planner} has no step records, expected a run that keeps them")
    return run.steps


def _line(axis: Axes, step: IntArray, values: npt.NDArray[np.number], style: Style) -> None:
    at, mean, low, high = _binned(step, values)
    axis.plot(at, mean, color=style.colour, linestyle=style.line, linewidth=1.3, marker=style.marker, markersize=4,
              markevery=max(1, len(at) // 12))  # fmt: skip
    if len(at) < len(step):
        axis.fill_between(at, low, high, color=style.colour, alpha=0.15, lw=0)


def _binned(step: IntArray, values: npt.NDArray[np.number]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Middle, mean, least and most of each of at most `MAX_POINTS` equal bins."""
    size = -(-len(step) // MAX_POINTS)
    starts = np.arange(0, len(step), max(size, 1))
    counts = np.diff(np.append(starts, len(step)))
    numbers = values.astype(np.float64)
    return (
        np.add.reduceat(step.astype(np.float64), starts) / counts,
        np.add.reduceat(numbers, starts) / counts,
        np.minimum.reduceat(numbers, starts),
        np.maximum.reduceat(numbers, starts),
    )
