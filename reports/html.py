"""The report page: one self-contained HTML document; charts are inside it, nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from lightspec_bench.reports.charts import Chart
from lightspec_bench.reports.columns import SPEED, TOKENS, Column, origin_label, planner_label, records
from lightspec_bench.reports.html_chart import chart_block
from lightspec_bench.reports.html_chart_style import CHART_CSS, CHART_SCRIPT
from lightspec_bench.reports.html_style import CSS, SCRIPT
from lightspec_bench.reports.html_summary import summary_card
from lightspec_bench.reports.html_words import cell, head, inline, json_block, kind_of, scrolled, section
from lightspec_bench.reports.verdict import TIE, Verdict, verdicts

_TERMS = {
    "Request-step, step": "One request in one decode step of the batch; a step is the whole batch's.",
    "Draft, verify, accepted tokens": "Proposed by the drafter; sent to the target; kept. The bonus token, which every "
    "request gets in every step, is in none of the three.",
    "Target rows": "Rows of the target's forward pass: verified draft tokens and one row per request.",
    "none and static:k=0": "No speculation without a drafter, and a loaded drafter that proposes nothing: the second "
    "still pays for the drafter and its host work.",
    "Best static K": "The fastest of `none` and every static K at that load. It is known only after all were tried.",
    "Oracle": "Knows what will be accepted; a bound, not a planner that could be deployed.",
    "[low, high]": "95 % bootstrap interval over the trace's requests, all seeds and repetitions of a request drawn "
    "together; ratios are paired on the same requests. It says how much the choice of requests matters, not whether "
    "the latency model is right.",
}


def report_page(
    comparison: pd.DataFrame,
    charts: Mapping[str, Chart],
    settings: Mapping[str, Any],
    environment: Mapping[str, Any],
    notes: Sequence[str] = (),
    first: str = "",
    ranking: str = "",
    planners: str = "",
    current_is_given: bool = False,
) -> str:
    """The page as text. `charts` are by their id on the page; `notes` are sentences about what is missing or
    approximate, shown under the summary; `first`, `ranking` and `planners` are sections, as HTML: before the summary,
    after the pictures, and after the tables. `current_is_given`: somebody said what the current setting is."""
    answers = verdicts(comparison)
    cards = "".join(summary_card(comparison, verdict, current_is_given) for verdict in answers)
    drawn = "".join(chart_block(chart, name) for name, chart in charts.items())
    body = (
        first,
        section("Summary", f'<ul class="answers">{cards}</ul>{_notes(notes)}'),
        section("Pictures", f"{_HINT}<div class=charts>{drawn}</div>"),
        ranking,
        section("Tables", _tables(comparison)),
        planners,
        section("Words", _definitions()),
        section("Settings", json_block(settings)),
        section("Environment", json_block(environment)),
    )
    content = "".join(body)
    main = f"{_header(comparison, answers)}\n{_contents(content)}\n<main>\n{content}</main>"
    return document("would dynamic MTP pay?", f"{main}\n<footer class=note>Made by lightspec-bench.</footer>\n")


_HINT = (
    "<p class=note>Point at a chart, or focus it and use the arrow keys, for its values; the keys above a chart turn "
    "series off and on.</p>"
)


def document(title: str, body: str) -> str:
    """A whole page: head, style, body and script."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>lightspec-bench: {escape(title)}</title>\n<style>{CSS}{CHART_CSS}</style>\n</head>\n<body>\n{body}"
        f"<script>{SCRIPT}{CHART_SCRIPT}</script>\n</body>\n</html>\n"
    )


def _contents(content: str) -> str:
    """Links to the page's sections."""
    found = re.findall(r"<section id=([a-z-]+)>\n<h2>(.*?)</h2>", content)
    links = "".join(f'<li><a href="#{anchor}">{title}</a></li>' for anchor, title in found)
    return f"<nav aria-label=Sections><ul>{links}</ul></nav>"


def _header(comparison: pd.DataFrame, answers: Sequence[Verdict]) -> str:
    return (
        f"<header>\n<h1>Would dynamic MTP pay?</h1>\n<p class=lead>{inline(overall(answers))}</p>\n"
        f"<p class=origin>{escape(origin_label(comparison))}.</p>\n</header>"
    )


def overall(answers: Sequence[Verdict]) -> str:
    """One sentence over all answers: in how many of the (trace, latency) pairs dynamic planning pays."""
    given = [verdict.answer for verdict in answers]
    if len(answers) == 1:
        return answers[0].headline
    parts = (
        ("pays in", given.count("yes")),
        ("makes no difference in", given.count("tie")),
        ("does not pay in", given.count("no")),
        ("has no answer in", given.count("unknown")),
    )
    shown = ", ".join(f"{words} {count}" for words, count in parts if count)
    return (
        f"Dynamic planning {shown} of {len(answers)} pairs of trace and latency model, measured against the best "
        f"single setting for all loads; less than {100 * TIE:.0f} % either way is called no difference."
    )


def _notes(notes: Sequence[str]) -> str:
    return f"<ul class=note>{''.join(f'<li>{inline(note)}</li>' for note in notes)}</ul>" if notes else ""


def _tables(comparison: pd.DataFrame) -> str:
    switch = '<p><label><input type=checkbox id=all-static> show every static K</label></p>\n'  # fmt: skip
    groups = comparison.groupby(["trace", "latency"], sort=False)
    return switch + "".join(
        _table(f"{trace} · {latency}", group, is_open=i == 0) for i, ((trace, latency), group) in enumerate(groups)
    )


def _table(title: str, group: pd.DataFrame, is_open: bool) -> str:
    columns = (*SPEED, *TOKENS)
    names = ["planner", "requests", *(column.header for column in columns)]
    titles = ["", "Concurrent requests", *(column.meaning for column in columns)]
    rows = "".join(_row(row, columns) for row in records(group))
    caption = f"<caption>{escape(origin_label(group))}. Click a heading to sort.</caption>"
    table = f"<table>{caption}{head(names, titles)}<tbody>{rows}</tbody></table>"
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{escape(title)}</summary>{scrolled(title, table)}</details>\n"


def _row(row: dict[str, Any], columns: Sequence[Column]) -> str:
    kind = kind_of(str(row["planner"]))
    cells = "".join(cell(row, column) for column in columns)
    label = escape(planner_label(row))
    load = row["concurrency"]
    return (
        f'<tr class={kind}><th scope=row data-value="{label}">{label}</th><td data-value={load}>{load}</td>{cells}</tr>'
    )


def _definitions() -> str:
    columns = {column.header.replace("/\n", "/").replace("\n", " "): column.meaning for column in (*SPEED, *TOKENS)}
    items = "".join(f"<dt>{escape(term)}</dt><dd>{inline(text)}</dd>" for term, text in (_TERMS | columns).items())
    return f"<dl>{items}</dl>"
