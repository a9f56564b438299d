"""Validation as a table for a terminal: a rich renderable, nothing is printed here."""

from __future__ import annotations

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from lightspec_bench.reports.columns import records
from lightspec_bench.reports.html_validation import SHOWN, shown_cells


def validation_table(frame: pd.DataFrame) -> Table:
    """A line per concurrency and planner: measured, predicted and the error of each metric."""
    table = Table(title=Text("Measured, and predicted by the simulator"), box=SIMPLE_HEAD, pad_edge=False)
    table.title_justify = "left"
    for name in ("requests", "planner", "prices"):
        table.add_column(name, justify="right" if name == "requests" else "left")
    for header, _, _ in SHOWN.values():
        for kind in ("measured", "predicted", "error"):
            table.add_column(f"{header}\n{kind}", justify="right", no_wrap=True)
    for row in records(frame):
        prices = "held out" if row["held_out"] else "fitted"
        table.add_row(
            str(row["concurrency"]), Text(str(row["planner"])), prices, *(text for _, text in shown_cells(row))
        )
    return table
