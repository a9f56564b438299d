"""Chart of a ranking: one line per planner, its ratio to best static K in every cell and their geometric mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lightspec_bench.reports.cells import GROUP, is_dynamic, is_oracle
from lightspec_bench.reports.charts import Chart, Dot, Dots
from lightspec_bench.reports.columns import gain, origin_label, records, with_bounds
from lightspec_bench.reports.ranking import OVERALL
from lightspec_bench.reports.styles import Style
from lightspec_bench.reports.verdict import sign

FLOOR = -60.0  # %; what is slower is drawn at the edge
DOTS = {
    "cell": Style("#56b4e9", "o", ""),
    "losing": Style("#d55e00", "x", ""),
    "mean": Style("#000000", "D", ""),
}
_COLUMNS = (*GROUP, *with_bounds("ratio_to_best_static"), *with_bounds("ratio_to_none"))
_LEGEND = {"cell": "cell", "losing": "cell, loses to no speculation", "mean": "geometric mean"}


def ranked_rows(ranking: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows that are drawn, best first: dynamic planners and the oracle, where best static K is known."""
    return [
        row
        for row in records(ranking[ranking["scope"] == OVERALL])
        if (is_dynamic(row["planner"]) or is_oracle(row["planner"])) and not np.isnan(row["ratio_to_best_static"])
    ]


def ranking_chart(comparison: pd.DataFrame, ranking: pd.DataFrame) -> Chart:
    """Gain over best static K in %, best planner on top: dots are cells (crosses where it loses to no speculation), the
    diamond is the geometric mean with its 95 % interval. At least one of `ranked_rows` must be there."""
    cells = dict(iter(comparison.groupby("planner", sort=False)))
    rows = [(_name(row), _dots(row, cells[row["planner"]])) for row in ranked_rows(ranking)]
    caption = (
        "Throughput of each planner against the best static K of each cell, known only in hindsight: a dot per cell, a "
        "cross where it loses to no speculation, the diamond their geometric mean with its 95 % interval. Cells slower "
        f"by more than {-FLOOR:.0f} % are drawn at the left edge."
    )
    panel = Dots("", rows, "throughput vs best static K of the cell (%)")
    legend = {_LEGEND[kind]: style for kind, style in DOTS.items()}
    return Chart("Ranking over all cells", caption, origin_label(comparison), [[panel]], legend=legend)


def _name(row: dict[str, Any]) -> str:
    """Planner and mean; one without a place says in how many cells it ran."""
    label = f"{row['planner']}  {gain(row['ratio_to_best_static'])}"
    unplaced = np.isnan(row["place"]) and not is_oracle(row["planner"])
    return f"{label} ({row['num_cells']} cell{'s' * (row['num_cells'] != 1)})" if unplaced else label


def _dots(row: dict[str, Any], cells: pd.DataFrame) -> list[Dot]:
    shown = [
        Dot(
            _percent(cell["ratio_to_best_static"]),
            f"{cell['trace']} · {cell['latency']} · {cell['concurrency']}: {gain(cell['ratio_to_best_static'])}",
            "losing" if sign(cell, "ratio_to_none") == -1 else "cell",
        )
        for cell in records(cells, _COLUMNS)
        if not np.isnan(cell["ratio_to_best_static"])
    ]
    low, high = (_percent(row.get(f"ratio_to_best_static_{side}", np.nan)) for side in ("low", "high"))
    mean = row["ratio_to_best_static"]
    return [*shown, Dot(_percent(mean), f"geometric mean {gain(mean)}", "mean", low, high)]


def _percent(ratio: float) -> float:
    return max(100.0 * (float(ratio) - 1.0), FLOOR) if not np.isnan(ratio) else float("nan")
