"""Timeline: verify budget, draft depth and acceptance over the steps of one or several planners' runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import BenchError, Columns, FloatArray, IntArray, Run
from lightspec_bench.reports.charts import Axis, Chart, Line, Lines
from lightspec_bench.reports.styles import Styles, styles_of

MAX_POINTS = 200


@dataclass(frozen=True, slots=True)
class Timeline:
    """Runs of one (trace, latency, concurrency), with step records, under the names of their planners."""

    trace: str
    latency: str
    latency_origin: str
    concurrency: int
    runs: Sequence[tuple[str, Run]]


def timeline_chart(timeline: Timeline, styles: Styles | None = None, more: str = "") -> Chart:
    """Target rows, draft depth and tokens per request over steps, one line per planner.

    Runs longer than `MAX_POINTS` steps are drawn as means over equal bins with a band from the least to the most in
    each. `BenchError` where a run has no step records.
    """
    styles = styles or styles_of(planner for planner, _ in timeline.runs)
    quantities = ("verify budget\n(target rows/step)", "draft depth\n(tokens)", "emitted\n(tokens/request)")
    lines: list[list[Line]] = [[], [], []]
    for planner, run in timeline.runs:
        steps = _steps(planner, run)
        tokens = 1.0 + steps["num_accepted_tokens"] / np.maximum(steps["num_requests"], 1)
        for place, values in zip(lines, (steps["num_target_tokens"], steps["draft_depth"], tokens), strict=True):
            place.append(_line(planner, steps["step"], values))
    where = f"{timeline.trace}, {timeline.latency}, concurrency {timeline.concurrency}"
    rows = [
        [Lines("", found, Axis("step"), Axis(name), is_wide=True)]
        for found, name in zip(lines, quantities, strict=True)
    ]
    origins = ", ".join(dict.fromkeys(run.origin for _, run in timeline.runs))
    origin = f"{origins[:1].upper()}{origins[1:]}; latency: {timeline.latency}, {timeline.latency_origin}"
    caption = (
        "Verify budget, draft depth and emitted tokens per request over the steps of each planner's run; of long runs "
        f"means over equal bins, with a band from the least to the most in each.{more}"
    )
    return Chart(f"Steps: {where}", caption, origin, rows, styles, {name: styles[name] for name, _ in timeline.runs})


def _steps(planner: str, run: Run) -> Columns:
    if run.steps is None:
        raise BenchError(f"timeline: the run of planner {planner} has no step records, expected a run that keeps them")
    return run.steps


def _line(planner: str, step: IntArray, values: npt.NDArray[np.number]) -> Line:
    at, mean, low, high = _binned(step, values)
    binned = len(at) < len(step)
    texts = [
        f"{middle:.4g} ({least:.4g} to {most:.4g})" if binned and least < most else f"{middle:.4g}"
        for middle, least, most in zip(mean, low, high, strict=True)
    ]
    return Line(planner, at, mean, texts, low if binned else None, high if binned else None)


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
