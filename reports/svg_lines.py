"""Line panels as SVG: each series carries its points and their texts, so that the page can show values."""

from __future__ import annotations

import json
from html import escape

import numpy as np

from lightspec_bench.core import FloatArray
from lightspec_bench.reports.cells import is_static
from lightspec_bench.reports.charts import EACH_STATIC, Line, Lines, label_of
from lightspec_bench.reports.columns import short_static
from lightspec_bench.reports.heights import not_below, spread
from lightspec_bench.reports.styles import Styles
from lightspec_bench.reports.svg_marks import Scale, bounds, colours, dashes, mark, number, path, text
from lightspec_bench.reports.ticks import tick_name

WIDTH, HEIGHT = 420.0, 270.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 8.0, 38.0
_NAMES = 30.0  # room for names at the end
_MARKED = 24  # points up to which a line has markers


def lines_svg(panel: Lines, styles: Styles) -> str:
    """The panel as an SVG element; without any line it says so."""
    right = WIDTH - _RIGHT - (_NAMES if panel.names_at_end else 0.0)
    x = Scale(*bounds([line.x for line in panel.lines], panel.x.base, 0.03), _LEFT, right, panel.x.base)
    shown = [values for line in panel.lines for values in (line.y, line.low, line.high) if values is not None]
    y = Scale(*bounds(shown, panel.y.base), HEIGHT - _BOTTOM, _TOP, panel.y.base)
    order = sorted(panel.lines, key=lambda line: not is_static(line.name))  # grey below the others
    drawn = "".join(_line(line, styles, x, y) for line in order)
    ends = _ends(panel, y, right) if panel.names_at_end else ""
    mode = "column" if panel.by_column else "point"
    label = f"{panel.title}: {panel.y.label} against {panel.x.label}".lstrip(": ").replace("\n", " ")
    return (
        f'<svg class=plot viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role=img tabindex=0 data-mode={mode} '
        f'aria-label="{escape(label)}">{_axes(panel, x, y)}{drawn}{ends}'
        f'<line class=cursor x1=0 x2=0 y1="{_TOP}" y2="{HEIGHT - _BOTTOM}" visibility=hidden /></svg>'
    )


def _axes(panel: Lines, x: Scale, y: Scale) -> str:
    parts = [text(panel.x.label, (x.start + x.end) / 2, HEIGHT - 5, "axis", "middle")]
    for tick in y.ticks():
        at = number(float(y(tick)))
        parts.append(
            f'<line class="{"zero" if tick == 0 else "rule"}" x1="{_LEFT}" x2="{number(x.end)}" y1="{at}" y2="{at}"/>'
        )
        parts.append(text(tick_name(tick), _LEFT - 5, float(y(tick)) + 4, "", "end"))
    last = -1e9
    for tick in panel.x.ticks if panel.x.ticks is not None else x.ticks():
        at_x, name = float(x(tick)), tick_name(tick)
        parts.append(f'<line class=rule x1="{number(at_x)}" x2="{number(at_x)}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>')
        if at_x - last > 7.0 * len(name) + 6:
            parts.append(text(name, at_x, HEIGHT - _BOTTOM + 15, "", "middle"))
            last = at_x
    return "".join(parts)


def _line(line: Line, styles: Styles, x: Scale, y: Scale) -> str:
    style = styles[line.name]
    across, up = x(line.x), y(line.y)
    band = ""
    if line.low is not None and line.high is not None:
        outline = path(np.concatenate([across, across[::-1]]), np.concatenate([y(line.high), y(line.low)[::-1]]))
        band = f'<path class=band d="{outline}Z"/>'
    marks = ""
    if len(line.x) <= _MARKED:
        marks = "".join(mark(style.marker, float(a), float(b)) for a, b in zip(across, up, strict=True))
    points = escape(json.dumps(_points(across, up, line), ensure_ascii=False, separators=(",", ":")))
    return (
        f'<g class="line{" static" if is_static(line.name) else ""}" style="{colours(style)}" '
        f'data-group="{escape(label_of(line.name))}" data-name="{escape(short_static(line.name))}" '
        f'data-points="{points}">{band}<path class=stroke stroke-width="{style.width:g}"{dashes(style)} '
        f'd="{path(across, up)}"/>{marks}</g>'
    )


def _points(x: FloatArray, y: FloatArray, line: Line) -> list[list[object]]:
    return [
        [round(float(a), 1), round(float(b), 1), f"{value:.6g}", words]
        for a, b, value, words in zip(x, y, line.x, line.texts, strict=True)
    ]


def _ends(panel: Lines, y: Scale, right: float) -> str:
    most = max((float(line.x.max()) for line in panel.lines), default=0.0)
    ends = sorted(
        (float(y(line.y[-1])), short_static(line.name))
        for line in panel.lines
        if is_static(line.name) and float(line.x[-1]) == most
    )
    heights = not_below(spread([height for height, _ in ends], 11.0), 11.0, HEIGHT - _BOTTOM - 2)
    names = "".join(text(name, right + 4, height + 3, "small") for (_, name), height in zip(ends, heights, strict=True))
    return f'<g class=static data-group="{EACH_STATIC}">{names}</g>'
