"""Columns of a ranking, shared by the terminal and the page."""

from __future__ import annotations

from typing import Any

from lightspec_bench.reports.cells import BEST_STATIC
from lightspec_bench.reports.columns import Column, count, gain, percent


def whole(value: float) -> str:
    """A count: `7.0` -> `7`."""
    return f"{value:.0f}"


PLACE = Column("place", "place", "Place by geometric mean of throughput; a planner without a result in every cell has "
               "none, and hindsight has none.", whole)  # fmt: skip
RANKING = (
    Column("ratio_to_best_static", "vs best\nstatic K",
           "Geometric mean over the cells of throughput against the best static K of each cell, known only in "
           "hindsight.", gain, True),
    Column("ratio_to_none", "vs no\nspec.", "Geometric mean over the cells of throughput against `none`.", gain, True),
    Column("worst_ratio", "worst\ncell", "The lowest ratio to best static K of any cell.", gain),
    Column("regret", "regret", "1 - geometric mean over the cells of throughput / the oracle's.", percent, True),
    Column("num_ahead", "cells\nahead", "Cells at least 1 % ahead of best static K, with an interval that contains no "
           "tie.", whole),
    Column("num_behind", "cells\nbehind", "Cells at least 1 % behind best static K, likewise.", whole),
    Column("num_losing", "loses to\nno spec.", "Cells at least 1 % slower than `none`, likewise.", whole),
    Column("switches_per_1000_steps", "switches/\n1000 steps",
           "Steps that plan another draft depth than the step before, per 1000 steps, over all cells.", count),
    Column("num_cells", "cells", "Cells with a result.", whole),
)  # fmt: skip


def ranked_label(row: dict[str, Any]) -> str:
    """A planner's name in a ranking, where the best static K is another one in every cell."""
    return "best static K (hindsight)" if row["planner"] == BEST_STATIC else str(row["planner"])


def worst_label(row: dict[str, Any]) -> str:
    """Where the worst cell is: `chat · h200 · 64`, empty where unknown."""
    parts = [row.get(f"worst_{name}") for name in ("trace", "latency", "concurrency")]
    if any(part is None or part != part for part in parts):
        return ""
    return " · ".join(str(int(part)) if isinstance(part, float) else str(part) for part in parts)
