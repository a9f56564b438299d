"""Tables of a comparison for a terminal: rich renderables, nothing is printed here."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from lightspec_bench.reports.cells import BEST_STATIC, NO_SPECULATION, is_oracle, is_static
from lightspec_bench.reports.columns import SPEED, TOKENS, Column, origin_label, planner_label, records
from lightspec_bench.reports.published import Published, beside, cells, headings, latencies, title as heading_of
from lightspec_bench.reports.ranking import OVERALL
from lightspec_bench.reports.ranking_columns import PLACE, RANKING, ranked_label

ONE_TABLE_WIDTH = 200


def tables(
    comparison: pd.DataFrame, width: int = 120, all_static: bool = False, named: Collection[str] = ()
) -> list[Table]:
    """Tables of a comparison, per (trace, latency): speed, then tokens; one with all columns from 200 columns on.

    Fastest first within a load. Static planners other than the best are folded unless `all_static`, or `named` by
    whoever asked for them. 95 % intervals are shown where the comparison has them.
    """
    result = []
    for (trace, latency), group in comparison.groupby(["trace", "latency"], sort=False):
        rows = [row for row in records(group) if all_static or row["planner"] in named or not is_static(row["planner"])]
        title = f"{trace} · {latency}"
        caption = f"{origin_label(group)}. Best static K: known only in hindsight."
        if not all_static and len(rows) < len(group):
            caption += f" {len(group) - len(rows)} rows of static planners folded."
        if width >= ONE_TABLE_WIDTH:
            result.append(_table(title, caption, rows, (*SPEED, *TOKENS)))
        else:
            result.append(_table(f"{title}: speed", caption, rows, SPEED))
            result.append(_table(f"{title}: tokens", caption, rows, TOKENS))
    return result


def ranking_table(ranking: pd.DataFrame, origin: str) -> Table:
    """The ranking over all cells, a line per planner; of single static K only the best is shown."""
    rows = [row for row in records(ranking[ranking["scope"] == OVERALL]) if not is_static(row["planner"])]
    single = [row for row in records(ranking[ranking["scope"] == OVERALL]) if is_static(row["planner"])][:1]
    rows = sorted([*rows, *single], key=lambda row: _descending(row["ratio_to_best_static"]))
    shown = [column for column in RANKING if any(column.cell(row) != column.cell({}) for row in rows)]
    caption = f"{origin}. Geometric means over all cells; of single static K only the best is shown."
    table = Table(title=Text("Ranking"), caption=Text(caption), box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.title_justify = table.caption_justify = "left"
    table.add_column("place", justify="right")
    table.add_column("planner", overflow="fold", min_width=19)
    for column in shown:
        table.add_column(column.header, justify="right", no_wrap=True)
    for row in rows:
        cells = [Text(" ".join(filter(None, (column.cell(row), _bounds(column, row))))) for column in shown]
        table.add_row(PLACE.cell(row), Text(ranked_label(row)), *cells, style=_style(row))
    return table


def _bounds(column: Column, row: dict[str, Any]) -> str:
    return column.interval(row) if column.with_interval else ""


def _descending(ratio: float) -> float:
    return math.inf if math.isnan(ratio) else -ratio


def published_table(comparison: pd.DataFrame, published: Published) -> Table:
    """Published figures beside the comparison's, a section per claim."""
    groups = beside(comparison, published)
    caption = f"Quoted: {published.source}. {origin_label(comparison)}."
    table = Table(
        title=Text(published.name), caption=Text(caption), box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.title_justify = table.caption_justify = "left"
    for i, heading in enumerate(headings(groups)):
        table.add_column(heading, justify="left" if i < 2 else "right", no_wrap=i > 0)
    for group in groups:
        table.add_section()
        table.add_row(Text(heading_of(group)), style="bold")
        for row in group.rows:
            style = "bold" if row.quoted else "dim" if is_oracle(row.planner) else ""
            table.add_row(*map(Text, cells(row, latencies(groups))), style=style)
    return table


def _table(title: str, caption: str, rows: list[dict[str, Any]], columns: tuple[Column, ...]) -> Table:
    table = Table(title=Text(title), caption=Text(caption), box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.title_justify = table.caption_justify = "left"
    table.add_column("requests", justify="right")
    table.add_column("planner", overflow="fold", min_width=19)
    shown = [column for column in columns if any(column.cell(row) != column.cell({}) for row in rows)]
    for column in shown:
        table.add_column(column.header, justify="right", no_wrap=True)
    for row, is_first in zip(rows, _starts(rows), strict=True):
        if is_first:
            table.add_section()
        cells = [_with_interval(column, row) for column in shown]
        table.add_row(str(row["concurrency"]) if is_first else "", Text(planner_label(row)), *cells, style=_style(row))
    return table


def _with_interval(column: Column, row: dict[str, Any]) -> Text:
    bounds = column.interval(row) if column.with_interval else ""
    return Text(column.cell(row)) if not bounds else Text.assemble(column.cell(row), "\n", (bounds, "dim"))


def _starts(rows: list[dict[str, Any]]) -> Iterator[bool]:
    previous = None
    for row in rows:
        yield row["concurrency"] != previous
        previous = row["concurrency"]


def _style(row: dict[str, Any]) -> str:
    if row["planner"] in (NO_SPECULATION, BEST_STATIC):
        return "bold"
    return "dim" if is_oracle(row["planner"]) or is_static(row["planner"]) else ""
