"""The page's section that sets published figures beside ours, with the runs' inputs and what must be said of both."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import pandas as pd

from lightspec_bench.reports.cells import is_oracle
from lightspec_bench.reports.columns import origin_label
from lightspec_bench.reports.html_words import inline, scrolled, section
from lightspec_bench.reports.published import Group, Input, Published, Row, beside, cells, headings, latencies, title


def published_section(comparison: pd.DataFrame, published: Published) -> str:
    """The section as HTML: a table of groups, notes, and where every input comes from."""
    groups = beside(comparison, published)
    notes = "".join(f"<li>{inline(note)}</li>" for note in published.notes)
    caption = f"Quoted: {published.source}. {origin_label(comparison)}."
    content = (
        f"{scrolled('Published and simulated', _table(groups, caption))}"
        f"{f'<ul>{notes}</ul>' if notes else ''}{_inputs(published.inputs)}"
    )
    return section("Beside the published figures", content)


def _table(groups: Sequence[Group], caption: str) -> str:
    head, names = headings(groups), latencies(groups)
    body = "".join(
        f"<tbody><tr class=group><th scope=rowgroup colspan={len(head)}>{escape(title(group))}</th></tr>"
        f"{''.join(_row(row, names) for row in group.rows)}</tbody>"
        for group in groups
    )
    columns = "".join(f"<th scope=col class=plain>{escape(name)}</th>" for name in head)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{columns}</tr></thead>{body}</table>"


def _row(row: Row, names: Sequence[str]) -> str:
    label, *values = cells(row, names)
    kind = "reference" if row.quoted else "bound" if is_oracle(row.planner) else "planner"
    shown = "".join(f"<td>{inline(value)}</td>" for value in values)
    return f"<tr class={kind}><th scope=row>{escape(label)}</th>{shown}</tr>"


def _inputs(inputs: Sequence[Input]) -> str:
    if not inputs:
        return ""
    rows = "".join(
        f"<tr><th scope=row>{inline(each.what)}</th><td class=words>{inline(each.value)}</td>"
        f"<td class=words>{escape(each.origin)}</td><td class=words>{inline(each.how)}</td></tr>"
        for each in inputs
    )
    head = "".join(f'<th scope=col class="plain words">{name}</th>' for name in ("input", "value", "origin", "how"))
    return f"<h3>Inputs</h3>{scrolled('Inputs', f'<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>')}"
