"""Best K: which fixed K is fastest at which load on which workload, as a heat map."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from lightspec_bench.reports.cells import BEST_STATIC, GROUP, NO_SPECULATION, is_static, static_depth
from lightspec_bench.reports.charts import Chart, Square, Squares
from lightspec_bench.reports.columns import gain, origin_label, records, short_static
from lightspec_bench.reports.verdict import TIE, change


def best_k_frame(comparison: pd.DataFrame) -> pd.DataFrame:
    """One row per (trace, latency, concurrency) that has a best static K: `best` ("none" or "static:k=K"), its `depth`
    (0 for no speculation), `least` and `most`: the depths within 1 % of it, and `ratio_to_none` with its interval."""
    rows = [_row(names, group) for names, group in comparison.groupby(list(GROUP), sort=False)]
    return pd.DataFrame([row for row in rows if row is not None], columns=[*GROUP, *_COLUMNS])


_COLUMNS = ("best", "depth", "least", "most", "max_depth", "ratio_to_none", "ratio_to_none_low", "ratio_to_none_high")


def _row(names: Any, group: pd.DataFrame) -> dict[str, Any] | None:
    best = group[group["planner"] == BEST_STATIC]
    if not len(best):
        return None
    row = records(best)[0]
    fixed = group[[planner == NO_SPECULATION or is_static(planner) for planner in group["planner"]]]
    near = fixed[fixed["throughput"] >= (1.0 - TIE) * row["throughput"]]
    depths = [_depth(planner) for planner in near["planner"]]
    known = {name: row.get(name, math.nan) for name in _COLUMNS if name.startswith("ratio")}
    return {
        **dict(zip(GROUP, names, strict=True)),
        "best": row["stands_for"],
        "depth": _depth(row["stands_for"]),
        "least": min(depths),
        "most": max(depths),
        "max_depth": max(_depth(planner) for planner in fixed["planner"]),
        **known,
    }


def _depth(planner: Any) -> int:
    return static_depth(str(planner)) or 0


def best_k_chart(comparison: pd.DataFrame) -> Chart:
    """A panel per latency model, a row per trace, a column per concurrency; darker is deeper."""
    frame = best_k_frame(comparison)
    panels = [_panel(str(latency), rows) for latency, rows in frame.groupby("latency", sort=False)]
    caption = (
        "The fastest of no speculation and every static K, known only after all were tried; in brackets the depths "
        "within 1 % of it, below its gain over no speculation. Darker is deeper."
    )
    return Chart("Best static K by load and workload", caption, origin_label(comparison), [[panel] for panel in panels])


def _panel(latency: str, rows: pd.DataFrame) -> Squares:
    traces, loads = list(rows["trace"].unique()), sorted(rows["concurrency"].unique())
    found = {(row["trace"], row["concurrency"]): row for row in records(rows)}
    deepest = max(int(rows["max_depth"].max()), 1)
    squares = [[_square(found.get((trace, load)), deepest) for load in loads] for trace in traces]
    return Squares(
        latency, [str(t) for t in traces], [str(n) for n in loads], squares, "concurrency (running requests)"
    )


def _square(row: dict[str, Any] | None, deepest: int) -> Square:
    if row is None:
        return Square(math.nan, "–", "", "not run")
    name = short_static(row["best"])
    span = f" ({row['least']}–{row['most']})" if row["least"] < row["most"] else ""
    below = "" if math.isnan(row["ratio_to_none"]) else gain(row["ratio_to_none"])
    against = f", {change(row, 'ratio_to_none')} against no speculation" if below else ""
    where = f"{row['trace']}, {row['concurrency']} requests: best fixed setting {name}"
    near = f"; depths {row['least']} to {row['most']} are within 1 %" if span else ""
    label = "none" if row["best"] == NO_SPECULATION else name
    return Square(row["depth"] / deepest, f"{label}{span}", below, f"{where}{against}{near}")
