"""Tables of what a search found: by load, every setting tried, every cell."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from lightspec_bench.reports.cells import NO_SPECULATION
from lightspec_bench.reports.columns import count, gain, milliseconds, short_static
from lightspec_bench.tune import Found
from lightspec_bench.tune_depths import static
from lightspec_bench.tune_report import candidate_rows, load_rows, shown


def _table(found: Found, title: str, heads: Sequence[str]) -> Table:
    """An empty table, its origin below it; words are to the left, numbers to the right."""
    table = Table(title=title, caption=found.evidence.origin, title_justify="left", caption_justify="left")
    for head in heads:
        table.add_column(head, justify="left" if head in ("trace", "setting") else "right")
    return table


def load_table(found: Found) -> Table:
    """What the setting reaches by trace and load."""
    many, task = len(found.task.traces) > 1, found.task
    heads = ["concurrency", "best K", "tok/s", "TPOT ms\np99", "vs no speculation", "vs default"]
    heads = [*(["trace"] if many else []), *heads, *(["vs yours"] if task.current else [])]
    table = _table(found, "By concurrency", [*heads, *(["keeps SLO"] if task.bounds else [])])
    for row in load_rows(found):
        cells = [
            str(row["concurrency"]), str(row["best_k"]), count(row["throughput"]), milliseconds(row["tpot_p99_s"]),
            shown(row["against_none"]), shown(row["against_default"]),
        ]  # fmt: skip
        cells += [shown(row["against_current"])] if task.current else []
        cells += ["yes" if row["keeps_bounds"] else "no"] if task.bounds else []
        table.add_row(*([row["trace"]] if many else []), *cells)
    return table


def candidate_table(found: Found) -> Table:
    """Every setting that was tried, over all loads that count."""
    slo = ["keeps SLO"] if found.task.bounds else []
    table = _table(found, "Settings tried", ["setting", "vs no speculation", "vs chosen", *slo])
    for row in candidate_rows(found):
        name = "schedule found" if row["planner"] == found.schedule else short_static(row["planner"])
        level = " level" if row["against_chosen"].is_level else ""
        chosen = "chosen" if row["planner"] == found.best else shown(row["against_chosen"]) + level
        kept = [f"{row['num_kept']} of {row['num_places']}"] if found.task.bounds else []
        table.add_row(name, shown(row["against_none"]), chosen, *kept)
    return table


def cell_table(found: Found) -> Table:
    """Throughput against no speculation of every static K, the setting and its references at every place."""
    many, task = len(found.task.traces) > 1, found.task
    fixed = [static(0), *(p for p in found.candidates if p.startswith("static:"))]
    named = {found.default.planner: "default", task.current: "yours", found.best: "chosen"}
    columns = {planner: short_static(planner) for planner in fixed}
    columns |= {p: name for p, name in named.items() if p is not None and p != NO_SPECULATION and p not in columns}
    heads = [*(["trace"] if many else []), "concurrency", *columns.values()]
    table = _table(found, "Throughput against no speculation, in %", heads)
    for trace in task.traces:
        for load in task.loads:
            ratios = [found.evidence.ratio(p, NO_SPECULATION, [(trace, load)]).value for p in columns]
            shown_ratios = [gain(ratio).removesuffix(" %") for ratio in ratios]
            table.add_row(*([trace] if many else []), str(load), *shown_ratios)
    return table
