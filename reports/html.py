"""The report page: one self-contained HTML document; pictures are inside it, nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from lightspec_bench.reports.cells import BEST_STATIC, NO_SPECULATION, is_oracle, is_static
from lightspec_bench.reports.columns import SPEED, TOKENS, Column, origin_label, planner_label, records
from lightspec_bench.reports.html_style import CSS, SCRIPT
from lightspec_bench.reports.pictures import svg
from lightspec_bench.reports.verdict import TIE, Verdict, verdicts

_WORDS = {"yes": "Yes.", "no": "No.", "tie": "No difference.", "unknown": "No answer."}
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


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure on the page: `title` above it, `caption` below it and read out instead of it."""

    title: str
    caption: str
    figure: Figure


def report_page(
    comparison: pd.DataFrame,
    pictures: Sequence[Picture],
    settings: Mapping[str, Any],
    environment: Mapping[str, Any],
    notes: Sequence[str] = (),
    first: str = "",
    ranking: str = "",
    planners: str = "",
) -> str:
    """The page as text. `notes` are sentences about what is missing or approximate, shown under the answers; `first`,
    `ranking` and `planners` are sections, as HTML: before the answers, after them, and after the tables."""
    answers = verdicts(comparison)
    body = (
        _header(comparison, answers),
        first,
        section("Answers", f'<ul class="answers">{"".join(map(_answer, answers))}</ul>{_notes(notes)}'),
        ranking,
        section("Pictures", "".join(map(picture_block, pictures))),
        section("Tables", _tables(comparison)),
        planners,
        section("Words", _definitions()),
        section("Settings", json_block(settings)),
        section("Environment", json_block(environment)),
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>lightspec-bench: would dynamic MTP pay?</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f"{body[0]}\n<main>\n{''.join(body[1:])}</main>\n<footer class=note>Made by lightspec-bench.</footer>\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


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


def section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>\n"


def _answer(verdict: Verdict) -> str:
    reasons = "".join(f"<li>{inline(reason)}</li>" for reason in verdict.reasons)
    return (
        f'<li class="{verdict.answer}"><h3>{escape(verdict.trace)} · {escape(verdict.latency)}</h3>'
        f"<p><span class=word>{_WORDS[verdict.answer]}</span> {inline(verdict.headline)}</p><ul>{reasons}</ul></li>"
    )


def inline(text: str) -> str:
    """Escaped, with % kept beside its number and `names` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)).replace(" %", "&nbsp;%")


def _notes(notes: Sequence[str]) -> str:
    return f"<ul class=note>{''.join(f'<li>{inline(note)}</li>' for note in notes)}</ul>" if notes else ""


def picture_block(picture: Picture) -> str:
    """A figure with its title and caption, as HTML."""
    data = base64.b64encode(svg(picture.figure)).decode("ascii")
    return (
        f'<figure><h3>{escape(picture.title)}</h3><div class=scroll tabindex=0 role=region '
        f'aria-label="{escape(picture.title)}"><img alt="{escape(picture.caption)}" '
        f'src="data:image/svg+xml;base64,{data}"></div><figcaption>{escape(picture.caption)}</figcaption></figure>\n'
    )  # fmt: skip


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


def head(names: Sequence[str], titles: Sequence[str]) -> str:
    """Headings that sort their column when clicked; `titles` explain them."""
    cells = "".join(
        f'<th scope=col title="{escape(meaning)}"><button type=button>{escape(name)}</button></th>'
        for name, meaning in zip(names, titles, strict=True)
    )
    return f"<thead><tr>{cells}</tr></thead>"


def scrolled(label: str, table: str) -> str:
    """A table that scrolls sideways where it is too wide."""
    return f'<div class=scroll tabindex=0 role=region aria-label="{escape(label)}">{table}</div>'


def kind_of(planner: str) -> str:
    """The class of a planner's rows: "reference", "static", "bound" or "planner"."""
    if planner in (NO_SPECULATION, BEST_STATIC):
        return "reference"
    return "static" if is_static(planner) else "bound" if is_oracle(planner) else "planner"


def _row(row: dict[str, Any], columns: Sequence[Column]) -> str:
    kind = kind_of(str(row["planner"]))
    cells = "".join(cell(row, column) for column in columns)
    label = escape(planner_label(row))
    load = row["concurrency"]
    return (
        f'<tr class={kind}><th scope=row data-value="{label}">{label}</th><td data-value={load}>{load}</td>{cells}</tr>'
    )


def cell(row: dict[str, Any], column: Column, below: str = "") -> str:
    """A table cell that sorts by its exact value; under it its interval, or `below`."""
    value, bounds = row.get(column.metric, math.nan), column.interval(row) if column.with_interval else below
    exact = "" if math.isnan(value) else f"{value:.9g}"
    small = f"<small>{escape(bounds)}</small>" if bounds else ""
    kind = " class=long" if below else ""
    return f'<td{kind} data-value="{exact}">{escape(column.cell(row))}{small}</td>'


def _definitions() -> str:
    columns = {column.header.replace("/\n", "/").replace("\n", " "): column.meaning for column in (*SPEED, *TOKENS)}
    items = "".join(f"<dt>{escape(term)}</dt><dd>{inline(text)}</dd>" for term, text in (_TERMS | columns).items())
    return f"<dl>{items}</dl>"


def json_block(document: Mapping[str, Any]) -> str:
    """Settings as they are, as HTML."""
    return f"<pre tabindex=0>{escape(json.dumps(document, indent=2, default=str, ensure_ascii=False))}</pre>"
