"""Words, tables and sections of a page: small pieces of HTML, escaped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from lightspec_bench.reports.cells import BEST_STATIC, NO_SPECULATION, is_oracle, is_static
from lightspec_bench.reports.columns import Column


def inline(text: str) -> str:
    """Escaped, with % kept beside its number and `names` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)).replace(" %", "&nbsp;%")


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


def cell(row: dict[str, Any], column: Column, below: str = "") -> str:
    """A table cell that sorts by its exact value; under it its interval, or `below`."""
    value, bounds = row.get(column.metric, math.nan), column.interval(row) if column.with_interval else below
    exact = "" if math.isnan(value) else f"{value:.9g}"
    small = f"<small>{escape(bounds)}</small>" if bounds else ""
    kind = " class=long" if below else ""
    return f'<td{kind} data-value="{exact}">{escape(column.cell(row))}{small}</td>'


def section(title: str, content: str) -> str:
    """A section with a heading; its id is the heading's words."""
    anchor = re.sub(r"[^a-z]+", "-", title.lower()).strip("-")
    return f"<section id={anchor}>\n<h2>{escape(title)}</h2>\n{content}\n</section>\n"


def json_block(document: Mapping[str, Any]) -> str:
    """Settings as they are, as HTML."""
    return f"<pre tabindex=0>{escape(json.dumps(document, indent=2, default=str, ensure_ascii=False))}</pre>"
