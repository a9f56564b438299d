"""The page's planners: a part for each, from its own docstring, with its options and its figures in this run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from lightspec_bench.describe import AGES, Description
from lightspec_bench.reports.columns import gain, records
from lightspec_bench.reports.html_ranking import BOUNDED
from lightspec_bench.reports.html_words import inline, scrolled, section
from lightspec_bench.reports.ranking import OVERALL
from lightspec_bench.reports.ranking_columns import PLACE, RANKING, worst_label
from lightspec_bench.reports.verdict import sign


def anchors(described: Iterable[str], others: Iterable[str] = ()) -> dict[str, str]:
    """Planner -> id on the page, readable and unique; `others` lead to the planner they are with other options."""
    found: dict[str, str] = {}
    for planner in dict.fromkeys(described):
        plain = re.sub(r"[^A-Za-z0-9]+", "-", planner).strip("-").lower()
        taken = [anchor for anchor in found.values() if re.fullmatch(rf"planner-{re.escape(plain)}(--\d+)?", anchor)]
        found[planner] = f"planner-{plain}--{len(taken) + 1}" if taken else f"planner-{plain}"
    named = {planner: planner.partition(":")[0] for planner in others if planner not in found}
    return found | {planner: found[name] for planner, name in named.items() if name in found}


def policies_section(
    descriptions: Sequence[Description], comparison: pd.DataFrame, ranking: pd.DataFrame, at: Mapping[str, str]
) -> str:
    """The section as HTML, one folded part per planner, under its anchor in `at`."""
    rows = {str(row["planner"]): row for row in records(ranking[ranking["scope"] == OVERALL])}
    shown = ["trace", "latency", "concurrency", *(name for name in BOUNDED if name in comparison)]
    cells = {str(planner): records(found[shown]) for planner, found in comparison.groupby("planner", sort=False)}
    parts = (
        _part(each, f"{_figures(each.name, rows)}{_cells(cells.get(each.name, []))}", at[each.name])
        for each in descriptions
    )
    return section("Planners", f"<p>From the docstrings of the code that ran.</p>{''.join(parts)}")


def _part(description: Description, figures: str, anchor: str) -> str:
    heading, _, more = (description.module or description.rule).partition("\n\n")
    text = f"{prose(more)}{prose(description.rule if description.module else '')}"
    return (
        f"<details class=policy id={anchor}><summary><code>{escape(description.name)}</code> "
        f"{inline(' '.join(heading.split()))}</summary>{text}{_facts(description)}{figures}</details>\n"
    )


def prose(text: str) -> str:
    """A docstring as HTML: paragraphs, lists of `-` or `*`, and indented blocks as they stand."""
    blocks = [block for block in re.split(r"\n\s*\n", text.strip("\n")) if block.strip()]
    return "".join(map(_block, blocks))


def _block(block: str) -> str:
    lines = block.split("\n")
    if all(line.startswith(("    ", "\t")) for line in lines):
        return f"<pre>{escape(block)}</pre>"
    starts = [i for i, line in enumerate(lines) if re.match(r"\s*[-*] ", line)]
    if not starts:
        return f"<p>{inline(' '.join(line.strip() for line in lines))}</p>"
    before = _block("\n".join(lines[: starts[0]])) if starts[0] else ""
    ends = [*starts[1:], len(lines)]
    items = (" ".join(line.strip() for line in lines[start:end])[2:] for start, end in zip(starts, ends, strict=True))
    return f"{before}<ul>{''.join(f'<li>{inline(item)}</li>' for item in items)}</ul>"


def _facts(description: Description) -> str:
    given = {name: repr(value) for name, value in description.given.items()}
    options = "".join(
        f"<tr><th scope=row><code>{escape(option.name)}</code></th><td class=words>{escape(option.type_name)}</td>"
        f"<td class=words>{'required' if option.required else escape(repr(option.default))}</td>"
        f"<td class=words>{escape(given.get(option.name, ''))}</td></tr>"
        for option in description.options
    )
    head = "".join(
        f'<th scope=col class="plain words">{name}</th>' for name in ("option", "type", "default", "set here")
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{options}</tbody></table>"
    facts = (
        ("Class", f"<code>{escape(description.target)}</code>"),
        ("Confidences", inline(AGES[description.confidence])),
        ("Requires", inline(description.needs)),
        ("Drafter", "loaded" if description.uses_drafter else "not loaded"),
    )
    listed = "".join(f"<li>{name}: {value}</li>" for name, value in facts)
    return f"<ul>{listed}</ul>{scrolled(f'Options of {description.name}', table) if options else '<p>No options.</p>'}"


def _figures(name: str, rows: Mapping[str, dict[str, Any]]) -> str:
    """Its line of the ranking in words; where it ran with other options only, which."""
    row = rows.get(name)
    if row is None:
        others = ", ".join(f"`{other}`" for other in rows if other.startswith(f"{name}:"))
        return f"<p>{inline(f'In this run as {others}.' if others else 'No result in this run.')}</p>"
    parts = []
    for column in (PLACE, *RANKING):
        name = column.header.replace("/\n", "/").replace("\n", " ")
        bounds = column.interval(row) if column.with_interval else ""
        where = f" ({worst_label(row)})" if column.metric == "worst_ratio" and worst_label(row) else ""
        parts.append(f"{name} {column.cell(row)}{f' {bounds}' if bounds else ''}{where}")
    reason = f"<p>Cells without a result: {row['num_absent']}: {inline(row['reason'])}</p>" if row.get("reason") else ""
    return f"<p>In this run, over all cells: {escape('; '.join(parts))}.</p>{reason}"


def _cells(cells: list[dict[str, Any]]) -> str:
    """Its ratios in every cell, a row per trace and latency model."""
    loads = sorted({cell["concurrency"] for cell in cells})
    if not cells or all(cell["ratio_to_best_static"] != cell["ratio_to_best_static"] for cell in cells):
        return ""
    places = dict.fromkeys((cell["trace"], cell["latency"]) for cell in cells)
    found = {(cell["trace"], cell["latency"], cell["concurrency"]): cell for cell in cells}
    body = "".join(
        f"<tr><th scope=row>{escape(f'{trace} · {latency}')}</th>"
        f"{''.join(_ratio(found.get((trace, latency, load))) for load in loads)}</tr>"
        for trace, latency in places
    )
    head = "".join(f"<th scope=col class=plain>{load}</th>" for load in loads)
    caption = "Throughput against best static K by concurrency, against no speculation below it."
    return scrolled(
        "Ratios by cell",
        f"<table><caption>{caption}</caption><thead><tr><th scope=col class=plain>cell</th>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>",
    )


def _ratio(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "<td>–</td>"
    below = cell["ratio_to_none"]
    against_none = "" if below != below else f"<small>{escape(gain(below))}</small>"
    mark = {1: "ahead", -1: "behind"}.get(sign(cell, "ratio_to_best_static") or 0, "level")
    return f"<td class={mark}>{escape(gain(cell['ratio_to_best_static']))}{against_none}</td>"
