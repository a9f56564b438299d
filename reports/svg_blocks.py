"""Bars, waterfalls, heat maps and dots as SVG, and as HTML where a table is the better picture."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from html import escape

import numpy as np

from lightspec_bench.reports.charts import Bars, Dots, Square, Squares, Stacks
from lightspec_bench.reports.ranking_chart import DOTS
from lightspec_bench.reports.shades import ink_on, shade
from lightspec_bench.reports.styles import BAR, Style
from lightspec_bench.reports.svg_lines import WIDTH
from lightspec_bench.reports.svg_marks import Scale, bounds, colours, mark, number, text
from lightspec_bench.reports.ticks import linear_ticks, tick_name

_BARS_HEIGHT, _LEFT, _TOP, _FLOOR = 190.0, 34.0, 14.0, 36.0


def bars_svg(panel: Bars) -> str:
    """Upright bars with their intervals as whiskers."""
    y = Scale(0.0, 100.0, _BARS_HEIGHT - _FLOOR, _TOP)
    parts = [_rule(_LEFT, WIDTH - 6, float(y(tick)), tick) for tick in (0, 25, 50, 75, 100)]
    width = (WIDTH - 6 - _LEFT) / max(len(panel.bars), 1)
    for place, bar in enumerate(panel.bars):
        at, top = _LEFT + (place + 0.5) * width, float(y(bar.value))
        thick = min(0.7 * width, 34.0)
        whisker = ""
        if not math.isnan(bar.low):
            low, high = (number(float(y(value))) for value in (bar.low, bar.high))
            whisker = f'<path class=whisker d="M{number(at)} {low}V{high}"/>'
        highest = min(top, float(y(bar.high))) if not math.isnan(bar.high) else top
        parts.append(
            f'<g class="tip{" faint" if bar.faint else ""}" style="{colours(BAR)}" data-text="{escape(bar.text)}">'
            f'<rect x="{number(at - thick / 2)}" y="{number(top)}" width="{number(thick)}" '
            f'height="{number(_BARS_HEIGHT - _FLOOR - top)}"/>{whisker}'
            f"{text(f'{bar.value:.0f}', at, highest - 3, 'small', 'middle')}</g>"
            f"{text(bar.name, at, _BARS_HEIGHT - _FLOOR + 14, '', 'middle')}"
        )
    if not panel.bars:
        parts.append(text(panel.empty, WIDTH / 2, _BARS_HEIGHT / 2, "", "middle"))
    parts.append(text(panel.x_label, (_LEFT + WIDTH) / 2, _BARS_HEIGHT - 5, "axis", "middle"))
    return _svg(panel.title, _BARS_HEIGHT, parts)


def _rule(left: float, right: float, at: float, tick: float) -> str:
    line = f'<line class=rule x1="{number(left)}" x2="{number(right)}" y1="{number(at)}" y2="{number(at)}"/>'
    return line + text(tick_name(tick), left - 5, at + 4, "", "end")


def _svg(label: str, height: float, parts: list[str]) -> str:
    return (
        f'<svg class=plot viewBox="0 0 {WIDTH:g} {height:g}" role=img tabindex=0 data-mode=tips '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def stacks_svg(panel: Stacks, styles: Mapping[str, Style]) -> str:
    """A waterfall per line, its name above it so that it fits a phone."""
    longest = max((sum(part[1] for part in stack.parts) for stack in panel.stacks), default=1.0) or 1.0
    x = Scale(0.0, longest, 4.0, WIDTH - 4.0)
    height = 30.0 * len(panel.stacks) + 30.0
    parts = [
        f'<line class=rule x1="{number(float(x(tick)))}" x2="{number(float(x(tick)))}" y1="2" y2="{height - 30:g}"/>'
        f"{text(tick_name(tick), float(x(tick)), height - 18, 'small', 'start' if tick == 0 else 'middle')}"
        for tick in linear_ticks(0.0, longest, 6)
        if tick <= 0.97 * longest
    ]
    for place, stack in enumerate(panel.stacks):
        top, start = 30.0 * place + 2.0, 0.0
        parts.append(text(stack.name, 4, top + 10, "name") + text(stack.total, WIDTH - 4, top + 10, "small", "end"))
        for name, length, words in stack.parts:
            left, right = float(x(start)), float(x(start + length))
            start += length
            if right - left > 0.05:
                parts.append(
                    f'<g class=tip style="{colours(styles[name])}" data-text="{escape(f"{stack.name}: {words}")}">'
                    f'<rect x="{number(left)}" y="{top + 14:g}" width="{right - left:.2f}" height=11 /></g>'
                )
    parts.append(text(panel.x_label, WIDTH / 2, height - 4, "axis", "middle"))
    return _svg(panel.title, height, parts)


def dots_svg(panel: Dots) -> str:
    """A line per name, its marks on a common scale; the names stand above their lines."""
    marks = [dot for _, dots in panel.rows for dot in dots]
    x = Scale(*bounds([np.array([dot.x for dot in marks] + [0.0])], 0), 6.0, WIDTH - 6.0)
    row = 27.0
    height = row * len(panel.rows) + 34
    parts = [
        f'<line class="{"zero" if tick == 0 else "rule"}" x1="{number(float(x(tick)))}" x2="{number(float(x(tick)))}" '
        f'y1="2" y2="{height - 32:g}"/>{text(tick_name(tick), float(x(tick)), height - 20, "small", "middle")}'
        for tick in x.ticks(7)
    ]
    for place, (name, dots) in enumerate(panel.rows):
        at = row * place + 21
        parts.append(text(name, 6, at - 9, "name"))
        for kind, style in DOTS.items():
            chosen = [dot for dot in dots if dot.kind == kind]
            spans = "".join(
                f'<path class=whisker d="M{number(float(x(dot.low)))} {at:g}H{number(float(x(dot.high)))}"/>'
                for dot in chosen
                if not math.isnan(dot.low)
            )
            points = [[round(float(x(dot.x)), 1), at, "", dot.text] for dot in chosen]
            drawn = "".join(mark(style.marker, float(x(dot.x)), at, 3.6) for dot in chosen)
            kept = escape(json.dumps(points, ensure_ascii=False, separators=(",", ":")))
            parts.append(
                f'<g class="line {kind}" style="{colours(style)}" data-name="{escape(name)}" data-points="{kept}">'
                f"{spans}{drawn}</g>"
            )
    parts.append(text(panel.x_label, WIDTH / 2, height - 4, "axis", "middle"))
    return _svg(panel.title or panel.x_label, height, parts).replace("data-mode=tips", "data-mode=point")


def squares_html(panel: Squares) -> str:
    """A heat map as a table: it can be read out, and scrolls sideways where it is wide."""
    head = "".join(f"<th scope=col class=plain>{escape(name)}</th>" for name in panel.columns)
    body = "".join(
        f"<tr><th scope=row>{escape(name)}</th>{''.join(map(_square, squares))}</tr>"
        for name, squares in zip(panel.rows, panel.squares, strict=True)
    )
    caption = f"{panel.title} · {panel.x_label}".lstrip(" ·")
    return (
        f'<div class=scroll tabindex=0 role=region aria-label="{escape(caption)}"><table class=heat>'
        f"<caption>{escape(caption)}</caption><thead><tr><th scope=col class=plain>workload</th>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _square(square: Square) -> str:
    colour = "" if math.isnan(square.shade) else shade(square.shade)
    style = f' style="background:{colour};color:{ink_on(colour)}"' if colour else ""
    below = f"<small>{escape(square.below)}</small>" if square.below else ""
    return f'<td class=tip{style} data-text="{escape(square.text)}">{escape(square.label)}{below}</td>'
