"""The page's ranking: planners over all cells and per trace, every planner in every cell, and who loses where."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import pandas as pd

from lightspec_bench.reports.cells import is_dynamic, is_oracle
from lightspec_bench.reports.columns import gain, origin_label, records, short_static
from lightspec_bench.reports.html_words import cell, head, inline, kind_of, scrolled, section
from lightspec_bench.reports.ranking import OVERALL, losing, losing_sentences
from lightspec_bench.reports.ranking_columns import PLACE, RANKING, ranked_label, worst_label
from lightspec_bench.reports.verdict import sign

BOUNDED = [f"{ratio}{side}" for ratio in ("ratio_to_best_static", "ratio_to_none") for side in ("", "_low", "_high")]
_MARKS = {1: "ahead", -1: "behind", 0: "level", None: "level"}


def ranking_section(comparison: pd.DataFrame, ranking: pd.DataFrame, anchors: Mapping[str, str]) -> str:
    """The section as HTML; `ranking` is `ranking.with_absent`'s, `anchors` says where on the page a planner is."""
    tables = "".join(
        _table(str(scope), rows, anchors, origin_label(comparison))
        for scope, rows in ranking.groupby("scope", sort=False)
    )
    order = {planner: i for i, planner in enumerate(ranking.loc[ranking["scope"] == OVERALL, "planner"])}
    matrices = "".join(
        _matrix(str(trace), rows, order, anchors) for trace, rows in comparison.groupby("trace", sort=False)
    )
    return section("Ranking", f"{tables}<h3>Cell by cell, against best static K</h3>{matrices}{_losing(comparison)}")


def linked(planner: str, label: str, anchors: Mapping[str, str]) -> str:
    """A planner's label, leading to where the page describes it."""
    return f'<a href="#{anchors[planner]}">{escape(label)}</a>' if planner in anchors else escape(label)


def _table(scope: str, rows: pd.DataFrame, anchors: Mapping[str, str], origin: str) -> str:
    columns = (PLACE, *RANKING)
    with_reason = "reason" in rows and bool(rows["reason"].any())
    names = ["planner", *(c.header for c in columns), *(["without\nresult"] if with_reason else [])]
    titles = ["", *(c.meaning for c in columns), *(["Cells that were skipped or failed."] if with_reason else [])]
    body = "".join(_row(row, anchors, with_reason) for row in records(rows))
    caption = f"{escape(scope)}. {escape(origin)}. Click a heading to sort."
    table = f"<table class=ranking><caption>{caption}</caption>{head(names, titles)}<tbody>{body}</tbody></table>"
    opened = " open" if scope == OVERALL else ""
    return f"<details{opened}><summary>{escape(scope)}</summary>{scrolled(f'Ranking, {scope}', table)}</details>\n"


def _row(row: dict[str, Any], anchors: Mapping[str, str], with_reason: bool) -> str:
    label = ranked_label(row)
    small = {"worst_ratio": worst_label(row)}
    cells = "".join(cell(row, column, small.get(column.metric, "")) for column in (PLACE, *RANKING))
    if with_reason:
        count = f"{row['num_absent']}" if row["num_absent"] else ""
        cells += f'<td class="words reason" data-value="{count}">{count}<small>{inline(row["reason"])}</small></td>'
    planner = str(row["planner"])
    return (
        f'<tr class={kind_of(planner)}><th scope=row data-value="{escape(label)}">{linked(planner, label, anchors)}'
        f"</th>{cells}</tr>"
    )


def _matrix(trace: str, rows: pd.DataFrame, order: Mapping[str, int], anchors: Mapping[str, str]) -> str:
    """A row per planner in the ranking's order, a column per latency model and concurrency."""
    shown = ("planner", "latency", "concurrency", "stands_for", "rank", *BOUNDED)
    rows = rows[[name for name in shown if name in rows]]
    places = [tuple(place) for place in rows[["latency", "concurrency"]].drop_duplicates().itertuples(index=False)]
    found = {(row["planner"], row["latency"], row["concurrency"]): row for row in records(rows)}
    planners = sorted({str(planner) for planner in rows["planner"]}, key=order.__getitem__)
    body = "".join(
        f'<tr class={kind_of(planner)}><th scope=row data-value="{escape(planner)}">'
        f"{linked(planner, ranked_label({'planner': planner}), anchors)}</th>"
        f"{''.join(_place(found.get((planner, *place))) for place in places)}</tr>"
        for planner in planners
    )
    titles = ["", *(f"{latency}, {load} concurrent requests" for latency, load in places)]
    names = ["planner", *(f"{latency}\n{load}" for latency, load in places)]
    caption = (
        f"{escape(trace)}: throughput against best static K by latency model and concurrency, with the place in the "
        "cell. ✗: loses to no speculation. Click a heading to sort."
    )
    table = f"<table class=matrix><caption>{caption}</caption>{head(names, titles)}<tbody>{body}</tbody></table>"
    return f"<details><summary>{escape(trace)}</summary>{scrolled(f'Cells, {trace}', table)}</details>\n"


def _place(row: dict[str, Any] | None) -> str:
    if row is None or row["ratio_to_best_static"] != row["ratio_to_best_static"]:
        return '<td data-value="">–</td>'
    mark = _MARKS[sign(row, "ratio_to_best_static")]
    loses = (is_dynamic(row["planner"]) or is_oracle(row["planner"])) and sign(row, "ratio_to_none") == -1
    place = short_static(str(row["stands_for"])) if row["rank"] != row["rank"] else f"#{row['rank']:.0f}"
    return (
        f'<td class={mark} data-value="{row["ratio_to_best_static"]:.9g}">{escape(gain(row["ratio_to_best_static"]))}'
        f"<small>{escape(place)}{' ✗' if loses else ''}</small></td>"
    )


def _losing(comparison: pd.DataFrame) -> str:
    """Per cell the planners that lose to no speculation, worst first."""
    held = losing(comparison)
    held = held[held["num_planners"] > 0]
    if not len(held):
        return ""
    items = "".join(f"<li>{inline(sentence)}</li>" for sentence in losing_sentences(comparison))
    without = (held["planners"].map(len) == 0).sum()
    intro = (
        "Per cell, the dynamic planners at least 1 % slower than `none`, with an interval over requests that does not "
        f"contain equal speed; worst first. In {without} of {len(held)} cells there is none."
    )
    return f"<h3>Who loses to no speculation</h3><p>{inline(intro)}</p><ul class=losing>{items}</ul>\n"
