"""Charts on the page: SVG that shows values where it is pointed at, with a legend that turns series on and off."""

from __future__ import annotations

from html import escape

from lightspec_bench.reports.charts import Bars, Chart, Dots, Lines, Panel, Squares, Stacks
from lightspec_bench.reports.styles import Style
from lightspec_bench.reports.svg_blocks import bars_svg, dots_svg, squares_html, stacks_svg
from lightspec_bench.reports.svg_lines import lines_svg
from lightspec_bench.reports.svg_marks import colours, dashes, mark


def chart_block(chart: Chart, name: str) -> str:
    """The chart as a `<figure>`; `name` is its id on the page."""
    groups = chart.choices or {"": chart.rows}
    chosen = next((label for label, rows in groups.items() if rows is chart.rows), "")
    panels = "".join(
        f'<div class=panels style="--n:{_columns(chart)}" data-choice="{escape(label)}"'
        f"{'' if label == chosen else ' hidden'}>"
        f"{''.join(_panel(panel, chart) for row in rows for panel in row)}</div>"
        for label, rows in groups.items()
    )
    kind = "chart several" if len(chart.panels) > 1 else "chart"
    return (
        f'<figure class="{kind}" id="{escape(name)}"><h3>{escape(chart.title)}</h3>{_choices(chart, chosen)}'
        f"{_legend(chart)}{panels}<figcaption>{escape(chart.caption)} <span class=origin>{escape(chart.origin)}.</span>"
        f"</figcaption></figure>\n"
    )


def _columns(chart: Chart) -> int:
    """Panels side by side where there is room: a chart's own columns, or all rows of a chart that has one only."""
    widest = max((len(row) for row in chart.rows), default=1)
    return widest if widest > 1 else max(1, min(3, len(chart.rows)))


def _choices(chart: Chart, chosen: str) -> str:
    if len(chart.choices) < 2:
        return ""
    options = "".join(
        f"<option{' selected' if label == chosen else ''}>{escape(label)}</option>" for label in chart.choices
    )
    return f"<label class=choice>at <select>{options}</select></label>"


def _legend(chart: Chart) -> str:
    """Buttons where series can be turned off, otherwise a key."""
    if not chart.legend:
        return ""
    toggles = any(isinstance(panel, Lines) for panel in chart.panels)
    keys = "".join(_key(label, style, toggles) for label, style in chart.legend.items())
    return f"<div class=legend{' role=group aria-label=Series' if toggles else ''}>{keys}</div>"


def _key(label: str, style: Style, toggles: bool) -> str:
    line = (
        f'<path class=stroke stroke-width="{min(style.width, 3):g}"{dashes(style)} d="M0 7H26"/>' if style.line else ""
    )
    swatch = (
        f'<svg viewBox="0 0 26 14" aria-hidden=true class=line style="{colours(style)}">'
        f"{line if toggles else ''}{mark(style.marker, 13, 7)}</svg>"
    )
    if not toggles:
        return f"<span class=key>{swatch}{escape(label)}</span>"
    return (
        f'<button type=button class=key aria-pressed=true data-group="{escape(label)}">{swatch}{escape(label)}</button>'
    )


def _panel(panel: Panel, chart: Chart) -> str:
    if isinstance(panel, Squares):
        return squares_html(panel)
    above = ""
    if isinstance(panel, Lines):
        drawn, above = lines_svg(panel, chart.styles), panel.y.label
    elif isinstance(panel, Bars):
        drawn, above = bars_svg(panel), panel.y_label
    elif isinstance(panel, Stacks):
        drawn = stacks_svg(panel, chart.legend)
    elif isinstance(panel, Dots):
        drawn = dots_svg(panel)
    heading = f"<h4>{escape(panel.title)}</h4>" if panel.title else ""
    unit = f"<p class=unit>{escape(_one_line(above))}</p>" if above else ""
    return f"<div class=panel>{heading}{unit}{drawn}</div>"


def _one_line(label: str) -> str:
    return label.replace("\n(", " (").replace("\n", " · ")
