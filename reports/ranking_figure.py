"""Picture of a ranking: one line per planner, its ratio to best static K in every cell and their geometric mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lightspec_bench.reports.cells import is_dynamic, is_oracle
from lightspec_bench.reports.columns import gain, origin_label, records
from lightspec_bench.reports.figures import finish, grid
from lightspec_bench.reports.ranking import OVERALL
from lightspec_bench.reports.verdict import signs

FLOOR = -60.0  # %; what is slower is drawn at the edge
_CELL: dict[str, Any] = {"color": "#56b4e9", "marker": "o", "markersize": 3.5, "linestyle": "none", "alpha": 0.75}
_LOSING: dict[str, Any] = {"color": "#d55e00", "marker": "x", "markersize": 4, "linestyle": "none"}
_MEAN: dict[str, Any] = {"color": "#000000", "marker": "D", "markersize": 5, "linestyle": "none"}


def ranked_rows(ranking: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows that are drawn, best first: dynamic planners and the oracle, where best static K is known."""
    return [
        row
        for row in records(ranking[ranking["scope"] == OVERALL])
        if (is_dynamic(row["planner"]) or is_oracle(row["planner"])) and not np.isnan(row["ratio_to_best_static"])
    ]


def ranking_figure(comparison: pd.DataFrame, ranking: pd.DataFrame) -> Figure:
    """Gain over best static K in %, best planner on top: dots are cells (crosses where it loses to no speculation), the
    diamond is the geometric mean with its 95 % interval. At least one of `ranked_rows` must be there."""
    rows = ranked_rows(ranking)
    figure, axes = grid(1, 1, (9.2, 0.6 + 0.2 * len(rows)))
    axis = axes[0][0]
    for height, row in enumerate(rows):
        _line(axis, -height, row, comparison[comparison["planner"] == row["planner"]])
    axis.axvline(0.0, color="#6e6e6e", linewidth=1.2, zorder=1)
    axis.set_yticks([-height for height in range(len(rows))], [_name(row) for row in rows], fontsize=7.5)
    axis.set_ylim(0.6 - len(rows), 0.6)
    axis.set_xlabel("throughput vs best static K of the cell (%)", fontsize=8)
    handles = [
        Line2D([], [], label=label, **kwargs)
        for label, kwargs in (("cell", _CELL), ("cell, loses to no speculation", _LOSING), ("geometric mean", _MEAN))
    ]
    return finish(figure, origin_label(comparison), handles)


def _name(row: dict[str, Any]) -> str:
    """Planner and mean; one without a place says in how many cells it ran."""
    label = f"{row['planner']}  {gain(row['ratio_to_best_static'])}"
    unplaced = np.isnan(row["place"]) and not is_oracle(row["planner"])
    return f"{label} ({row['num_cells']} cell{'s' * (row['num_cells'] != 1)})" if unplaced else label


def _line(axis: Axes, height: int, row: dict[str, Any], cells: pd.DataFrame) -> None:
    losing = np.array([found == -1 for found in signs(cells, "ratio_to_none")], dtype=bool)
    values = np.maximum(100.0 * (cells["ratio_to_best_static"].to_numpy(dtype=np.float64) - 1.0), FLOOR)
    for chosen, kwargs in ((~losing, _CELL), (losing, _LOSING)):
        axis.plot(values[chosen], np.full(int(chosen.sum()), height), zorder=2, **kwargs)
    mean, low, high = (100.0 * (row.get(f"ratio_to_best_static{side}", np.nan) - 1.0) for side in ("", "_low", "_high"))
    axis.plot([low, high], [height, height], color="#000000", linewidth=1.4, zorder=3)
    axis.plot([max(mean, FLOOR)], [height], zorder=4, **_MEAN)
