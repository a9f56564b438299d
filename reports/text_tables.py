"""Tables as Markdown, CSV and LaTeX: what the page's tables say, to paste elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from lightspec_bench.reports.cells import is_static
from lightspec_bench.reports.columns import SPEED, TOKENS, Column, origin_label, planner_label, records

_COLUMNS = (*SPEED, *TOKENS)
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}


def as_markdown(comparison: pd.DataFrame, all_static: bool = False) -> str:
    """A table per (trace, latency), each under a heading, with the origin of its numbers below."""
    parts = []
    for title, origin, names, rows in _tables(comparison, all_static):
        parts.append(f"### {title}\n\n{markdown_table(names, rows)}\n\n{origin}.\n")
    return "\n".join(parts)


def as_latex(comparison: pd.DataFrame, all_static: bool = False) -> str:
    """A `table` with a `tabular` (package booktabs) per (trace, latency), the origin of its numbers in the caption."""
    parts = []
    for title, origin, names, rows in _tables(comparison, all_static):
        parts.append(latex_table(names, rows, f"{title}. {origin}."))
    return "\n".join(parts)


def as_csv(comparison: pd.DataFrame, all_static: bool = False) -> str:
    """Every column of the comparison, exact numbers, origins in columns of their own."""
    return str(_chosen(comparison, all_static).to_csv(index=False, lineterminator="\n"))


def _chosen(comparison: pd.DataFrame, all_static: bool) -> pd.DataFrame:
    return comparison if all_static else comparison[[not is_static(planner) for planner in comparison["planner"]]]


def _tables(comparison: pd.DataFrame, all_static: bool) -> list[tuple[str, str, list[str], list[list[str]]]]:
    """Title, origin, headings and cells of every table; columns that nothing is known of are left out."""
    found = []
    for (trace, latency), group in _chosen(comparison, all_static).groupby(["trace", "latency"], sort=False):
        rows = records(group)
        shown = [column for column in _COLUMNS if any(column.cell(row) != column.cell({}) for row in rows)]
        names = ["requests", "planner", *(_heading(column) for column in shown)]
        cells = [
            [str(row["concurrency"]), planner_label(row), *(_value(column, row) for column in shown)] for row in rows
        ]
        found.append((f"{trace} · {latency}", origin_label(group), names, cells))
    return found


def _heading(column: Column) -> str:
    return column.header.replace("/\n", "/").replace("\n", " ")


def _value(column: Column, row: dict[str, Any]) -> str:
    bounds = column.interval(row) if column.with_interval else ""
    return f"{column.cell(row)} {bounds}".strip()


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A GitHub table; the first two columns are words, the others numbers."""
    marks = ["---:" if place == 0 or place > 1 else "---" for place in range(len(names))]
    lines = [[_escaped(name) for name in names], marks, *([_escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(cell: str) -> str:
    return re.sub(r"([|\\<*_`])", r"\\\1", cell)


def latex_table(names: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """A table for the package booktabs, everything escaped."""
    body = "\n".join(f"{' & '.join(map(latex_words, row))} \\\\" for row in rows)
    align = "rl" + "r" * (len(names) - 2)
    head = " & ".join(map(latex_words, names))
    return (
        f"\\begin{{table}}\n\\centering\n\\caption{{{latex_words(caption)}}}\n\\begin{{tabular}}{{{align}}}\n\\toprule\n"
        f"{head} \\\\\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
    )


def latex_words(words: str) -> str:
    """Words with every character that LaTeX reads as a command escaped."""
    return "".join(_LATEX.get(sign, sign) for sign in words).replace("·", r"\textperiodcentered{}")
