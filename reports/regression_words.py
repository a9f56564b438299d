"""Two runs held against each other, in words and tables: nothing is printed here."""

from __future__ import annotations

import math

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from lightspec_bench.reports.columns import UNKNOWN, count, gain
from lightspec_bench.reports.regression import Change, Regression
from lightspec_bench.reports.text_tables import markdown_table

FEW_PAIRS = 5
HEADINGS = ("requests", "planner", "base tok/s", "new tok/s", "change", "95 % interval", "verdict", "pairs",
            "mean of request ratios", "accept length")  # fmt: skip


def sentences(found: Regression, max_regression: float | None) -> list[str]:
    """The answer, what it rests on, and what is missing, in sentences."""
    lines = [f"Over {len(found.changes)} cells: {change_words(found.overall)}."]
    few = {change.num_pairs for change in found.changes if 1 < change.num_pairs < FEW_PAIRS}
    if any(change.word == "no interval" for change in found.changes):
        lines.append("Cells that ran once have no interval: repeat the runs with several seeds to have one.")
    if few:
        lines.append(f"Intervals rest on as few as {min(few)} pairs; below {FEW_PAIRS} they are rough.")
    for cells, name in ((found.only_base, "base"), (found.only_new, "new")):
        if cells:
            lines.append(f"{len(cells)} cells of the {name} run only: {'; '.join(cells[:5])}{_more(len(cells) - 5)}.")
    if max_regression is not None:
        lines.append(_gate(found, max_regression))
    return lines


def _more(count: int) -> str:
    return f"; and {count} more" if count > 0 else ""


def _gate(found: Regression, max_regression: float) -> str:
    failing = failures(found, max_regression)
    bound = f"{100 * max_regression:g} %"
    if not failing:
        return f"Gate passed: nothing is slower by more than {bound}."
    named = [f"{_name(change)} ({100 * (change.ratio - 1):+.1f} %)" for change in failing]
    return f"Gate failed: slower by more than {bound}: {'; '.join(named[:5])}{_more(len(named) - 5)}."


def failures(found: Regression, max_regression: float) -> list[Change]:
    """The changes that break the bound, the one over all cells first."""
    return [change for change in (found.overall, *found.changes) if change.fails(max_regression)]


def _name(change: Change) -> str:
    if not change.trace:
        return change.planner
    return f"{change.trace} · {change.latency} · {change.concurrency} · {change.planner}"


def change_words(change: Change) -> str:
    """`worse, -4.0 % [-5.3, -2.6]`."""
    shown = f"{100 * (change.ratio - 1):+.1f} %"
    if change.word == "no interval":
        return f"{shown}, no interval"
    return f"{change.word}, {shown} [{100 * (change.low - 1):+.1f}, {100 * (change.high - 1):+.1f}]"


def cells_of(change: Change) -> list[str]:
    """A change as the cells of its row, under `HEADINGS`."""
    low, high = (UNKNOWN if math.isnan(bound) else gain(bound) for bound in (change.low, change.high))
    lengths = [
        UNKNOWN if math.isnan(x) else count(x) for x in (change.base_acceptance_length, change.new_acceptance_length)
    ]
    requests = UNKNOWN if math.isnan(change.mean_of_request_ratios) else gain(change.mean_of_request_ratios)
    load = str(change.concurrency) if change.concurrency else ""
    interval = UNKNOWN if low == UNKNOWN else f"[{low}, {high}]"
    return [load, change.planner, count(change.base), count(change.new), gain(change.ratio), interval, change.word,
            str(change.num_pairs), requests, " → ".join(lengths)]  # fmt: skip


def groups_of(found: Regression) -> dict[str, list[Change]]:
    """Changes by trace and latency model, in the base's order."""
    groups: dict[str, list[Change]] = {}
    for change in found.changes:
        groups.setdefault(f"{change.trace} · {change.latency}", []).append(change)
    return groups


def regression_tables(found: Regression, origin: str) -> list[Table]:
    """A table per trace and latency model, slowest change first within a load."""
    tables = []
    for title, changes in groups_of(found).items():
        table = Table(title=Text(title), caption=Text(f"{origin}. Change: ratio of sums."), box=SIMPLE_HEAD,
                      pad_edge=False, padding=(0, 1, 0, 0))  # fmt: skip
        table.title_justify = table.caption_justify = "left"
        for place, name in enumerate(HEADINGS):
            table.add_column(name, justify="left" if place in (1, 6) else "right", no_wrap=place in (2, 3, 4, 5))
        for change in sorted(changes, key=lambda each: (each.concurrency, each.ratio)):
            style = {"worse": "red", "better": "green"}.get(change.word, "")
            table.add_row(*map(Text, cells_of(change)), style=style)
        tables.append(table)
    return tables


def regression_markdown(found: Regression, origin: str, lines: list[str]) -> str:
    """The answer and a table per trace and latency model, as GitHub shows them."""
    parts = ["\n".join(f"- {line}" for line in lines)]
    for title, changes in groups_of(found).items():
        rows = [cells_of(change) for change in sorted(changes, key=lambda each: (each.concurrency, each.ratio))]
        parts.append(f"### {title}\n\n{markdown_table(HEADINGS, rows)}\n\n{origin}. Change: ratio of sums.")
    return "\n\n".join(parts) + "\n"
