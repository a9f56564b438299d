"""Figures: charts drawn by matplotlib, for PNG and SVG files; nothing touches pyplot or global settings.

Each picture says at its foot where its numbers come from.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lightspec_bench.reports.charts import Bars, Chart, Dots, Lines, Panel, Squares, Stacks
from lightspec_bench.reports.figure_panels import draw_bars, draw_dots, draw_lines, draw_squares, draw_stacks
from lightspec_bench.reports.styles import Style
from lightspec_bench.reports.themes import DEFAULT, Theme

PANEL_INCHES = (4.4, 3.1)


def draw(chart: Chart, theme: Theme = DEFAULT) -> Figure:
    """The chart as a figure; of a chart with choices the one it has chosen."""
    with matplotlib.rc_context(theme.rc):
        sizes = [_inches(panel) for panel in chart.panels]
        columns = max((len(row) for row in chart.rows), default=1)
        size = max(width for width, _ in sizes), max(height for _, height in sizes)
        figure, axes = grid(len(chart.rows), columns, size, theme)
        for row, places in zip(chart.rows, axes, strict=True):
            for place, axis in enumerate(places):
                if place < len(row):
                    _panel(axis, row[place], chart, theme)
                    _labels(axis, row[place], place == 0, row is chart.rows[-1])
                else:
                    axis.set_visible(False)
        if not any(panel.title for panel in chart.panels):
            axes[0][0].set_title(textwrap.fill(chart.title, 100), fontsize=9, loc="left")
        return finish(figure, chart.origin, [legend_handle(*entry, theme) for entry in chart.legend.items()], theme)


def _inches(panel: Panel) -> tuple[float, float]:
    if isinstance(panel, Lines):
        return (8.4, 1.9) if panel.is_wide else PANEL_INCHES
    if isinstance(panel, Bars):
        return 4.4, 2.3
    if isinstance(panel, Stacks):
        return 6.4, 0.8 + 0.25 * len(panel.stacks)
    if isinstance(panel, Squares):
        return 2.4 + 0.85 * len(panel.columns), 0.9 + 0.45 * len(panel.rows)
    return 9.2, 0.6 + 0.2 * len(panel.rows)


def _panel(axis: Axes, panel: Panel, chart: Chart, theme: Theme) -> None:
    axis.set_title(textwrap.fill(panel.title, 64), fontsize=9, loc="left")
    if isinstance(panel, Lines):
        draw_lines(axis, panel, chart.styles, theme)
    elif isinstance(panel, Bars):
        draw_bars(axis, panel, theme)
    elif isinstance(panel, Stacks):
        draw_stacks(axis, panel, chart.legend, theme)
    elif isinstance(panel, Squares):
        draw_squares(axis, panel, theme)
    elif isinstance(panel, Dots):
        draw_dots(axis, panel, theme)


def _labels(axis: Axes, panel: Panel, is_first: bool, is_last: bool) -> None:
    """Names of the axes: at the left column and the bottom row."""
    if is_last:
        axis.set_xlabel(panel.x.label if isinstance(panel, Lines) else panel.x_label, fontsize=9)
    if is_first and isinstance(panel, Lines):
        axis.set_ylabel(panel.y.label, fontsize=8 if panel.is_wide else 9)
    if is_first and isinstance(panel, Bars):
        axis.set_ylabel(panel.y_label, fontsize=8)


def legend_handle(label: str, style: Style, theme: Theme = DEFAULT) -> Line2D:
    """A legend entry in a planner's style."""
    kwargs = style.kwargs() | {"color": theme.paint(style.colour), "linestyle": style.line or "none"}
    return Line2D([], [], label=label, markersize=5, **kwargs)


def grid(
    rows: int, columns: int, panel_inches: tuple[float, float] = PANEL_INCHES, theme: Theme = DEFAULT
) -> tuple[Figure, list[list[Axes]]]:
    """A figure of rows x columns empty panels."""
    width, height = (theme.scale * inches for inches in panel_inches)
    size = (max(width * columns, 6.4 * theme.scale), height * rows + 1.0)
    # Text is as wide as where it is saved: the resolution is the file's.
    figure = Figure(size, dpi=theme.dpi, layout="constrained", facecolor=theme.background)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(True, color=theme.grid, linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    return figure, [list(row) for row in axes]


def finish(figure: Figure, origin: str, handles: Iterable[Line2D], theme: Theme = DEFAULT) -> Figure:
    """Legend above the panels, the origin of the numbers at the foot."""
    handles = list(handles)
    width = figure.get_figwidth()
    if handles:
        per_row = max(2, int(width // 2.4))
        figure.legend(handles=handles, loc="outside upper left", ncols=per_row, fontsize=8, frameon=False)
    label = textwrap.fill(origin, int(width * 15))
    figure.supxlabel(label, fontsize=8, color=theme.soft, x=0.01, ha="left")
    figure.draw_without_rendering()  # lay out once, not again for every format it is saved in
    figure.set_layout_engine("none")
    return figure
