"""Pareto: tokens per second and GPU against tokens per second and user, and what no other setting beats in both."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from lightspec_bench.core import FloatArray, IntArray
from lightspec_bench.reports.cells import BEST_STATIC, is_oracle
from lightspec_bench.reports.charts import Axis, Chart, Line, Lines, legend_of, small_multiples
from lightspec_bench.reports.columns import count, origin_label, records
from lightspec_bench.reports.styles import FRONTIER, Styles, styles_of

FRONT = "Pareto front"


def frontier(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> IntArray:
    """Places of the points that no other point beats in one and equals or beats in the other, by ascending x.

    Higher is better in both; of equal points the first. Unknown (NaN) points are never on it.
    """
    known = np.flatnonzero(~(np.isnan(x) | np.isnan(y)))
    order = known[np.lexsort((known, -y[known], -x[known]))]
    best = np.maximum.accumulate(np.concatenate([[-np.inf], y[order]]))[:-1]
    return np.asarray(order[y[order] > best][::-1], dtype=np.int64)


def pareto_chart(
    comparison: pd.DataFrame,
    num_gpus: Mapping[str, int],
    styles: Styles | None = None,
    more: str = "",
    device: str = "GPU",
) -> Chart:
    """One line per planner through its concurrencies, and the front over all that can be deployed.

    A user's speed is 1 / mean TPOT; a GPU's is throughput / `num_gpus` of the latency model (1 where it is not named).
    `device` is the word for it where the run was on none.
    Oracle and best static K are hindsight: the oracle is drawn but not on the front, best static K is left out.
    """
    shown = comparison[comparison["planner"] != BEST_STATIC]
    planners = [str(planner) for planner in shown["planner"].unique()]
    styles = dict(styles or styles_of(planners)) | {FRONT: FRONTIER}
    axes = Axis("tokens/s per user (1 / mean TPOT)", 10), Axis(f"output tokens/s per {device}", 10)
    rows = [[Lines(name, _lines(group, num_gpus, device), *axes, by_column=False) for name, group in row]
            for row in small_multiples(shown)]  # fmt: skip
    several = "; ".join(f"{name}: {number} {device}s" for name, number in num_gpus.items() if number > 1)
    caption = (
        f"A mark per planner and concurrency: up is more from a {device}, right is faster for a user, both scales "
        "logarithmic. The front joins what no other setting beats in both; the oracle, which cannot be deployed, is "
        f"not on it. {several or f'One {device} for each engine'}.{more}"
    )
    legend = {FRONT: FRONTIER, **legend_of(planners, styles)}
    return Chart("Throughput against speed per user", caption, origin_label(comparison), rows, styles, legend)


def _lines(group: pd.DataFrame, num_gpus: Mapping[str, int], device: str) -> list[Line]:
    if not len(group):
        return []
    gpus = num_gpus.get(str(group["latency"].iloc[0]), 1)
    group = group.assign(x=1.0 / group["tpot_mean_s"], y=group["throughput"] / gpus).dropna(subset=["x", "y"])
    lines = []
    for planner, rows in group.sort_values("concurrency").groupby("planner", sort=False):
        lines.append(Line(str(planner), *_points(rows), _texts(rows, device)))
    real = group[[not is_oracle(planner) for planner in group["planner"]]]
    x, y = _points(real)
    at = frontier(x, y)
    named = [
        f"{row['planner']}, {text}"
        for row, text in zip(records(real.iloc[at], ["planner"]), _texts(real.iloc[at], device), strict=True)
    ]
    return [Line(FRONT, x[at], y[at], named), *lines] if len(at) else lines


def _points(rows: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    return rows["x"].to_numpy(dtype=np.float64), rows["y"].to_numpy(dtype=np.float64)


def _texts(rows: pd.DataFrame, device: str) -> list[str]:
    return [
        f"{row['concurrency']} requests: {count(row['y'])} tok/s/{device}, {count(row['x'])} tok/s/user"
        for row in records(rows, ("concurrency", "x", "y"))
    ]
