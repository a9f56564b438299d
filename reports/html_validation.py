"""The validation page: predicted against measured, in one self-contained HTML document."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from lightspec_bench.reports.columns import UNKNOWN, count, gain, milliseconds, records
from lightspec_bench.reports.html import document
from lightspec_bench.reports.html_words import head, inline, json_block, scrolled, section
from lightspec_bench.reports.pictures import svg

SHOWN = {
    "throughput": ("tok/s", count, "Output tokens per second end to end."),
    "mean_acceptance_length": ("accept length", count, "1 + accepted / spec steps, pooled over steps."),
    "step_time_s": ("step ms", milliseconds, "Mean time of a step."),
}


def validation_page(
    frame: pd.DataFrame,
    figure: Figure,
    origin: str,
    lines: Sequence[str],
    notes: Sequence[str],
    settings: Mapping[str, Any],
) -> str:
    """The page as text. `lines` are the answers, `notes` say what they rest on."""
    answers = "".join(f"<li>{inline(line)}</li>" for line in lines)
    rests = "".join(f"<li>{inline(note)}</li>" for note in notes)
    body = (
        section("Answers", f"<ul>{answers}</ul><ul class=note>{rests}</ul>"),
        section("Picture", _picture(figure)),
        section("Cells", scrolled("Cells", validation_table(frame))),
        section("Settings", json_block(settings)),
    )
    header = f"<header>\n<h1>Is the simulator right?</h1>\n<p class=origin>{escape(origin)}.</p>\n</header>"
    return document("is the simulator right?", f"{header}\n<main>\n{''.join(body)}</main>\n")


def _picture(figure: Figure) -> str:
    """The figure with its caption, inside the page."""
    caption = "A mark per planner and concurrency; on the line the simulator is right, the grey band is the target."
    data = base64.b64encode(svg(figure)).decode("ascii")
    return (
        '<figure><div class=scroll tabindex=0 role=region aria-label="Predicted against measured">'
        f'<img alt="{escape(caption)}" src="data:image/svg+xml;base64,{data}"></div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    )


def validation_table(frame: pd.DataFrame) -> str:
    """A line per planner and concurrency."""
    names, titles = (
        ["planner", "requests", "prices"],
        ["", "Concurrent requests", "Whether prices were fitted to this cell"],
    )
    for header, _, meaning in SHOWN.values():
        names += [f"{header} measured", f"{header} predicted", "error"]
        titles += [meaning, meaning, "predicted / measured - 1"]
    rows = "".join(_row(row) for row in records(frame))
    return f"<table>{head(names, titles)}<tbody>{rows}</tbody></table>"


def _row(row: dict[str, Any]) -> str:
    cells = [f"<th scope=row>{escape(str(row['planner']))}</th>", f"<td>{row['concurrency']}</td>"]
    cells.append(f"<td>{'held out' if row['held_out'] else 'fitted'}</td>")
    cells += [f'<td data-value="{value:.9g}">{escape(text)}</td>' for value, text in shown_cells(row)]
    return f"<tr>{''.join(cells)}</tr>"


def shown_cells(row: dict[str, Any]) -> list[tuple[float, str]]:
    """Value and text of measured, predicted and error for each metric."""
    found = []
    for metric, (_, show, _) in SHOWN.items():
        for kind in ("measured", "predicted"):
            value = row[f"{metric}_{kind}"]
            found.append((value, UNKNOWN if value != value else show(value)))
        error = row[f"{metric}_error"]
        found.append((error, UNKNOWN if error != error else gain(1.0 + error)))
    return found
