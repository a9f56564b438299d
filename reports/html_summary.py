"""The page's summary: a card per trace and latency model, with the answer, what to run, and every load in a table."""

from __future__ import annotations

from html import escape

import pandas as pd

from lightspec_bench.reports.columns import UNKNOWN, origin_label, short_static
from lightspec_bench.reports.html_words import cell, head, inline, scrolled
from lightspec_bench.reports.summary import CURRENTS, LOADS, Load, Summary, summarise_loads
from lightspec_bench.reports.verdict import Verdict

_WORDS = {"yes": "Yes.", "no": "No.", "tie": "No difference.", "unknown": "No answer."}


def summary_card(comparison: pd.DataFrame, verdict: Verdict, current_is_given: bool) -> str:
    """The card as a list item."""
    found = summarise_loads(comparison, verdict, current_is_given)
    group = comparison[(comparison["trace"] == verdict.trace) & (comparison["latency"] == verdict.latency)]
    first = f"<p class=headline>{inline(found.sentence)}</p>" if found else ""
    reasons = "".join(f"<li>{inline(reason)}</li>" for reason in verdict.reasons)
    loads = _loads(found, current_is_given) if found else ""
    return (
        f'<li class="{verdict.answer}"><h3>{escape(verdict.trace)} · {escape(verdict.latency)}</h3>{first}'
        f"<p><span class=word>{_WORDS[verdict.answer]}</span> {inline(verdict.headline)}</p><ul>{reasons}</ul>"
        f"{loads}<p class=origin>{escape(origin_label(group))}.</p></li>"
    )


def _loads(summary: Summary, current_is_given: bool) -> str:
    """Every load: the recommended setting, the current one, and the best fixed one there."""
    name = "current" if current_is_given else "full depth"
    with_current = bool(summary.current) and summary.current != summary.planner
    columns = [*LOADS[: 1 + with_current], *([CURRENTS] if with_current else [])]
    headers = [column.header.replace("current", name) for column in columns]
    names = ["requests", *headers, "best fixed K\n(hindsight)"]
    titles = ["Concurrent requests", *(column.meaning for column in columns), "Known only after every K was tried."]
    rows = "".join(_row(load, with_current) for load in summary.loads)
    what = f"{short_static(summary.planner)} at every load"
    beside = f"; {name}: {short_static(summary.current)}" if with_current else ""
    table = f"<table><caption>{escape(what + beside)}.</caption>{head(names, titles)}<tbody>{rows}</tbody></table>"
    return f"<details><summary>Every load</summary>{scrolled('Every load', table)}</details>"


def _row(load: Load, with_current: bool) -> str:
    cells = [cell(load.recommended, column) for column in LOADS[: 1 + with_current]]
    if with_current:
        cells.append(cell(load.current or {}, CURRENTS))
    best = load.best or UNKNOWN
    return (
        f"<tr><th scope=row data-value={load.concurrency}>{load.concurrency}</th>{''.join(cells)}"
        f'<td data-value="{escape(best)}">{escape(best)}</td></tr>'
    )
