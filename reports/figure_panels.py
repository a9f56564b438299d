"""Panels of a chart, drawn into matplotlib's axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, NullLocator

from lightspec_bench.reports.cells import is_static
from lightspec_bench.reports.charts import Bars, Dots, Line, Lines, Squares, Stacks
from lightspec_bench.reports.columns import short_static
from lightspec_bench.reports.heights import spread
from lightspec_bench.reports.ranking_chart import DOTS
from lightspec_bench.reports.shades import ink_on, shade
from lightspec_bench.reports.styles import BAR, BAR_EDGE, Style, Styles
from lightspec_bench.reports.themes import Theme
from lightspec_bench.reports.ticks import log_ticks, tick_name


def draw_lines(axis: Axes, panel: Lines, styles: Styles, theme: Theme) -> None:
    for line in panel.lines:
        _line(axis, line, styles[line.name], theme, panel.is_wide)
    if panel.y.base:
        axis.set_yscale("log", base=panel.y.base)
        _mark(axis.yaxis, log_ticks(*axis.get_ylim()))
    if panel.x.base:
        axis.set_xscale("log", base=panel.x.base)
        _mark(axis.xaxis, log_ticks(*axis.get_xlim()) if panel.x.ticks is None else panel.x.ticks)
    if panel.names_at_end:
        _name_ends(axis, panel, theme)


def _mark(axis: MatplotlibAxis, ticks: Sequence[float]) -> None:
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels([tick_name(tick) for tick in ticks])


def _line(axis: Axes, line: Line, style: Style, theme: Theme, is_wide: bool) -> None:
    static, colour = is_static(line.name), theme.paint(style.colour)
    kwargs = style.kwargs() | {"color": colour}
    if is_wide:
        kwargs |= {"linewidth": 1.3, "markersize": 4, "markevery": max(1, len(line.x) // 12)}
    axis.plot(line.x, line.y, **({"markersize": 5, "zorder": 1 if static else 3} | kwargs))
    if line.low is not None and line.high is not None:
        axis.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15 if is_wide else 0.1, lw=0, zorder=2)


def _name_ends(axis: Axes, panel: Lines, theme: Theme) -> None:
    """`K=3` at the right end of every static line, moved apart where ends lie close."""
    most = max((line.x.max() for line in panel.lines), default=0.0)
    low, high = axis.get_ylim()
    ends = sorted(
        ((line.y[-1] - low) / (high - low), line.name)
        for line in panel.lines
        if is_static(line.name) and line.x[-1] == most
    )
    for (_, name), height in zip(ends, spread([height for height, _ in ends], 0.045), strict=True):
        text = short_static(name)
        axis.text(1.01, height, text, transform=axis.transAxes, fontsize=6, color=theme.soft, va="center")


def draw_bars(axis: Axes, panel: Bars, theme: Theme) -> None:
    for place, bar in enumerate(panel.bars, start=1):
        face = theme.background if bar.faint else theme.paint(BAR.colour)
        axis.bar(place, bar.value, width=0.7, facecolor=face, edgecolor=theme.paint(BAR_EDGE.colour))
        if not math.isnan(bar.low):
            axis.plot([place, place], [bar.low, bar.high], color=theme.ink, linewidth=1.0)
        top = bar.value if math.isnan(bar.high) else bar.high
        axis.annotate(f"{bar.value:.0f}", (place, top), ha="center", va="bottom", fontsize=7)
    if not panel.bars:
        axis.text(0.5, 0.5, panel.empty, ha="center", transform=axis.transAxes, fontsize=8)
    axis.set_ylim(0, 108)
    axis.xaxis.set_major_locator(FixedLocator(list(range(1, len(panel.bars) + 1))))


def draw_stacks(axis: Axes, panel: Stacks, parts: Mapping[str, Style], theme: Theme) -> None:
    longest = max((sum(part[1] for part in stack.parts) for stack in panel.stacks), default=1.0) or 1.0
    for height, stack in enumerate(panel.stacks):
        start = 0.0
        for name, length, _ in stack.parts:
            axis.barh(-height, length, left=start, height=0.7, color=theme.paint(parts[name].colour), linewidth=0)
            start += length
        axis.text(start + 0.01 * longest, -height, stack.total, va="center", fontsize=7)
    axis.set_yticks([-height for height in range(len(panel.stacks))], [s.name for s in panel.stacks], fontsize=7.5)
    axis.set_xlim(0, 1.35 * longest)
    axis.grid(False, axis="y")


def draw_squares(axis: Axes, panel: Squares, theme: Theme) -> None:
    for row, squares in enumerate(panel.squares):
        for column, square in enumerate(squares):
            known = not math.isnan(square.shade)
            colour = shade(square.shade) if known else theme.background
            axis.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor=theme.background, linewidth=2))
            words: dict[str, Any] = {"ha": "center", "va": "center", "color": ink_on(colour)}
            for text, size, up in ((square.label, 8, 5 if square.below else 0), (square.below, 6.5, -6)):
                at = (column + 0.5, row + 0.5)
                axis.annotate(text, at, (0, up), textcoords="offset points", fontsize=size, **words)
    axis.set_xlim(0, len(panel.columns))
    axis.set_ylim(len(panel.rows), 0)
    axis.set_xticks([column + 0.5 for column in range(len(panel.columns))], panel.columns)
    axis.set_yticks([row + 0.5 for row in range(len(panel.rows))], panel.rows, fontsize=7.5)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    axis.grid(False)


def draw_dots(axis: Axes, panel: Dots, theme: Theme) -> None:
    sizes = {"cell": 3.5, "losing": 4, "mean": 5}
    for height, (_, dots) in enumerate(panel.rows):
        for kind, style in DOTS.items():
            x = [dot.x for dot in dots if dot.kind == kind]
            look: dict[str, Any] = {
                "color": theme.paint(style.colour),
                "marker": style.marker,
                "markersize": sizes[kind],
            }
            axis.plot(x, [-height] * len(x), linestyle="none", zorder=2 + (kind == "mean"), **look)
        for dot in dots:
            if not math.isnan(dot.low):
                axis.plot([dot.low, dot.high], [-height, -height], color=theme.ink, linewidth=1.4, zorder=3)
    axis.axvline(0.0, color=theme.soft, linewidth=1.2, zorder=1)
    axis.set_yticks([-height for height in range(len(panel.rows))], [name for name, _ in panel.rows], fontsize=7.5)
    axis.set_ylim(0.6 - len(panel.rows), 0.6)
