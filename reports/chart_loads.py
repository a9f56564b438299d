"""Charts against concurrency: gain over no speculation, throughput, verify volume; a panel per trace and latency."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lightspec_bench.core import FloatArray
from lightspec_bench.reports.cells import is_static
from lightspec_bench.reports.charts import Axis, Chart, Line, Lines, legend_of, small_multiples
from lightspec_bench.reports.columns import SPEED, TOKENS, origin_label, records, with_bounds
from lightspec_bench.reports.styles import Styles, styles_of

LOAD = "concurrency (running requests)"
_SHOWN = {column.metric: column for column in (*SPEED, *TOKENS)}


def gain_chart(comparison: pd.DataFrame, styles: Styles | None = None, more: str = "") -> Chart:
    """Throughput against no speculation, in %; every static K in grey, its K at the end."""
    caption = (
        "Gain of each planner over no speculation by concurrency; grey: every static K, best static K known only in "
        f"hindsight; bands: 95 % intervals.{more}"
    )
    return _chart(
        "Throughput against no speculation", caption, comparison, styles, "ratio_to_none",
        Axis("throughput vs no speculation (%)"), names_at_end=True,
    )  # fmt: skip


def throughput_chart(comparison: pd.DataFrame, styles: Styles | None = None, more: str = "") -> Chart:
    """Output tokens per second, both scales logarithmic, every static K in grey."""
    caption = f"Output tokens per second by concurrency, both scales logarithmic; grey: every static K.{more}"
    return _chart("Throughput", caption, comparison, styles, "throughput", Axis("throughput (output tokens/s)", 10))


def verify_volume_chart(comparison: pd.DataFrame, styles: Styles | None = None, more: str = "") -> Chart:
    """Target rows per emitted token; 1 is no speculation."""
    caption = (
        "Target rows per emitted token by concurrency: 1 without speculation, higher where more is verified in "
        f"vain.{more}"
    )
    dynamic = comparison[[not is_static(planner) for planner in comparison["planner"]]]
    axis = Axis("verify volume (target rows/token)")
    return _chart("Verify volume", caption, dynamic, styles, "verify_volume", axis)


def _chart(
    title: str,
    caption: str,
    comparison: pd.DataFrame,
    styles: Styles | None,
    metric: str,
    axis: Axis,
    names_at_end: bool = False,
) -> Chart:
    planners = [str(planner) for planner in comparison["planner"].unique()]
    styles = styles or styles_of(planners)
    loads = tuple(sorted(float(load) for load in comparison["concurrency"].unique()))
    rows = [
        [Lines(name, _lines(group, metric), Axis(LOAD, 2, loads), axis, True, names_at_end) for name, group in row]
        for row in small_multiples(comparison)
    ]
    return Chart(title, caption, origin_label(comparison), rows, styles, legend_of(planners, styles))


def _lines(group: pd.DataFrame, metric: str) -> list[Line]:
    found = []
    for planner, rows in group.sort_values("concurrency").groupby("planner", sort=False):
        known = rows[rows[metric].notna()]
        if len(known):
            found.append(_line(str(planner), known, metric))
    return found


def _line(planner: str, rows: pd.DataFrame, metric: str) -> Line:
    x = rows["concurrency"].to_numpy(dtype=np.float64)
    low, high = (_values(rows, metric, f"{metric}_{side}") for side in ("low", "high"))
    banded = not is_static(planner) and low is not None and high is not None and not np.isnan(low).any()
    texts = [value_text(row, metric) for row in records(rows, with_bounds(metric))]
    y = _values(rows, metric, metric)
    assert y is not None
    return Line(planner, x, y, texts, low if banded else None, high if banded else None)


def _values(rows: pd.DataFrame, metric: str, column: str) -> FloatArray | None:
    """A column as it is drawn: ratios as changes in %."""
    if column not in rows:
        return None
    values = rows[column].to_numpy(dtype=np.float64)
    return 100.0 * (values - 1.0) if metric.startswith("ratio_") else values


def value_text(row: dict[str, object], metric: str) -> str:
    """`+24.3 % [21.7, 27.1]`, as tables have it."""
    column = _SHOWN[metric]
    return " ".join(filter(None, (column.cell(row), column.interval(row) if column.with_interval else "")))
