"""Figures of a comparison: small multiples over traces (rows) and latency models (columns).

Every function returns a `matplotlib.figure.Figure`; nothing touches pyplot or global settings. Each picture says at
its foot where its numbers come from.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable
from statistics import fmean
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from lightspec_bench.reports.cells import BEST_STATIC, NO_SPECULATION, is_oracle, is_static, static_depth
from lightspec_bench.reports.columns import origin_label, records, short_static
from lightspec_bench.reports.pictures import DPI
from lightspec_bench.reports.styles import STATIC, Style, Styles, styles_of

PANEL_INCHES = (4.4, 3.1)
FEW = 30
_GRID = {"color": "#dddddd", "linewidth": 0.6}


def gain_figure(comparison: pd.DataFrame, styles: Styles | None = None) -> Figure:
    """Throughput against no speculation, in %, against concurrency; every static K in grey with its K at the end."""
    return _lines(
        comparison, styles, "ratio_to_none", "throughput vs no speculation (%)", all_static=True, as_gain=True
    )


def throughput_figure(comparison: pd.DataFrame, styles: Styles | None = None) -> Figure:
    """Throughput against concurrency per planner, both logarithmic, every static K in grey; 95 % bands where known."""
    return _lines(comparison, styles, "throughput", "throughput (output tokens/s)", all_static=True, log=True)


def verify_volume_figure(comparison: pd.DataFrame, styles: Styles | None = None) -> Figure:
    """Target rows per emitted token against concurrency per planner; 1 is no speculation."""
    return _lines(comparison, styles, "verify_volume", "verify volume (target rows/token)")


def acceptance_figure(comparison: pd.DataFrame) -> Figure:
    """Acceptance per draft position: prefix survival and, beside it, given the one before; per trace.

    Taken from the deepest static K, where every draft token is verified, at the concurrency with the most spec steps;
    without static planners from the row that verified most per step. The latency model does not matter there: traces
    are rows only. Rates of fewer than `FEW` samples are outlined.
    """
    sources = {str(trace): _deepest(records(group)) for trace, group in comparison.groupby("trace", sort=False)}
    figure, axes = grid(len(sources), 2, (4.4, 2.3))
    for (left, right), (trace, source) in zip(axes, sources.items(), strict=True):
        at_risk = _positions(source, "num_at_risk_pos")
        _bars(left, _positions(source, "acceptance_rate_pos"), [source["num_spec_steps"]] * len(at_risk))
        _bars(right, _positions(source, "conditional_acceptance_rate_pos"), at_risk)
        left.set_title(textwrap.fill(f"{trace}: prefix survival", 64), fontsize=9, loc="left")
        right.set_title(textwrap.fill(f"{trace}: given the one before", 64), fontsize=9, loc="left")
        where = f"{source['planner']}, concurrency {source['concurrency']}"
        left.set_ylabel(f"draft tokens accepted (%)\n{where}", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("draft position k", fontsize=8)
    return finish(figure, origin_label(comparison), [])


def _deepest(rows: list[dict[str, Any]]) -> dict[str, Any]:
    static = [row for row in rows if static_depth(row["planner"])]
    if not static:
        return max(rows, key=lambda row: float(row["verify_volume_per_step"]))
    return max(static, key=lambda row: (static_depth(row["planner"]) or 0, row["num_spec_steps"]))


def _positions(row: dict[str, Any], name: str) -> list[float]:
    """Values at k = 1, 2, ... up to the last position that was reached."""
    positions = (float(row.get(f"{name}_{k}", math.nan)) for k in itertools.count(1))
    return list(itertools.takewhile(lambda value: not math.isnan(value), positions))


def _bars(axis: Axes, values: list[float], samples: list[float]) -> None:
    for k, (value, count) in enumerate(zip(values, samples, strict=False), start=1):
        axis.bar(k, 100 * value, width=0.7, facecolor="white" if count < FEW else "#56b4e9", edgecolor="#0072b2")
        axis.annotate(f"{100 * value:.0f}", (k, 100 * value), ha="center", va="bottom", fontsize=7)
    if not values:
        axis.text(0.5, 0.5, "no draft token was verified", ha="center", transform=axis.transAxes, fontsize=8)
    axis.set_ylim(0, 108)
    axis.xaxis.set_major_locator(FixedLocator(list(range(1, len(values) + 1))))


def _lines(
    comparison: pd.DataFrame,
    styles: Styles | None,
    metric: str,
    label: str,
    all_static: bool = False,
    as_gain: bool = False,
    log: bool = False,
) -> Figure:
    """One panel per (trace, latency), one line per planner."""
    if as_gain:
        names = [name for name in (metric, f"{metric}_low", f"{metric}_high") if name in comparison]
        comparison = comparison.assign(**{name: 100 * (comparison[name] - 1) for name in names})
    if not all_static:
        comparison = comparison[[not is_static(planner) for planner in comparison["planner"]]]
    planners = [str(planner) for planner in comparison["planner"].unique()]
    styles = styles or styles_of(planners)
    traces, latencies = (list(comparison[name].unique()) for name in ("trace", "latency"))
    figure, axes = grid(len(traces), len(latencies))
    for row, trace in enumerate(traces):
        for column, latency in enumerate(latencies):
            panel = comparison[(comparison["trace"] == trace) & (comparison["latency"] == latency)]
            axes[row][column].set_title(textwrap.fill(f"{trace} · {latency}", 64), fontsize=9, loc="left")
            _panel(axes[row][column], panel, metric, styles)
            if log:
                axes[row][column].set_yscale("log")
            if as_gain:
                _name_static(axes[row][column], panel, metric)
    for axis in axes[-1]:
        axis.set_xlabel("concurrency (running requests)", fontsize=9)
    for first, *_ in axes:
        first.set_ylabel(label, fontsize=9)
    return finish(figure, origin_label(comparison), _legend(planners, styles))


def _panel(axis: Axes, panel: pd.DataFrame, metric: str, styles: Styles) -> None:
    loads = sorted(panel["concurrency"].unique())
    for planner, line in panel.sort_values("concurrency").groupby("planner", sort=False):
        style, load = styles[str(planner)], line["concurrency"]
        static = is_static(str(planner))
        axis.plot(load, line[metric], **style.kwargs(), markersize=5, zorder=1 if static else 3)
        low, high = f"{metric}_low", f"{metric}_high"
        if not static and low in line and high in line:
            axis.fill_between(load, line[low], line[high], color=style.colour, alpha=0.1, lw=0, zorder=2)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_locator(FixedLocator(loads))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticklabels([str(load) for load in loads])


def _name_static(axis: Axes, panel: pd.DataFrame, metric: str) -> None:
    """`K=3` at the right end of every static line, moved apart where ends lie close."""
    last = panel[(panel["concurrency"] == panel["concurrency"].max()) & panel["planner"].map(is_static)]
    low, high = axis.get_ylim()
    ends = records(last.dropna(subset=[metric]).sort_values(metric))
    for row, height in zip(ends, spread([(row[metric] - low) / (high - low) for row in ends], 0.045), strict=True):
        name = short_static(row["planner"])
        axis.text(1.01, height, name, transform=axis.transAxes, fontsize=6, color="#777777", va="center")


def spread(heights: list[float], gap: float) -> list[float]:
    """Ascending heights moved as little as possible (least squares) so that neighbours are `gap` apart."""
    blocks: list[list[float]] = []  # without their gaps, neighbours that collide share their mean
    for i, height in enumerate(heights):
        blocks.append([height - i * gap])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    level = [fmean(block) for block in blocks for _ in block]
    return [height + i * gap for i, height in enumerate(level)]


def _legend(planners: list[str], styles: Styles) -> list[Line2D]:
    """No speculation and best static first, the oracle and the static planners last."""
    shown = [planner for planner in planners if not is_static(planner)]
    place = {planner: i for i, planner in enumerate((NO_SPECULATION, BEST_STATIC))}
    shown.sort(key=lambda planner: (place.get(planner, 2), is_oracle(planner), planner))
    names = {NO_SPECULATION: "none: no speculation", BEST_STATIC: "best static K in hindsight"}
    handles = [legend_handle(names.get(planner, planner), styles[planner]) for planner in shown]
    if len(shown) < len(planners):
        handles.append(Line2D([], [], label="each static K", **STATIC.kwargs()))
    return handles


def legend_handle(label: str, style: Style) -> Line2D:
    """A legend entry in a planner's style."""
    return Line2D([], [], label=label, markersize=5, **style.kwargs())


def grid(rows: int, columns: int, panel_inches: tuple[float, float] = PANEL_INCHES) -> tuple[Figure, list[list[Axes]]]:
    """A figure of rows x columns empty panels."""
    width, height = panel_inches
    size = (max(width * columns, 6.4), height * rows + 1.0)
    figure = Figure(size, dpi=DPI, layout="constrained", facecolor="white")  # text is as wide as where it is saved
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(True, **_GRID)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    return figure, [list(row) for row in axes]


def finish(figure: Figure, origin: str, handles: Iterable[Line2D]) -> Figure:
    """Legend above the panels, the origin of the numbers at the foot."""
    handles = list(handles)
    width = figure.get_figwidth()
    if handles:
        per_row = max(2, int(width // 2.4))
        figure.legend(handles=handles, loc="outside upper left", ncols=per_row, fontsize=8, frameon=False)
    label = textwrap.fill(origin, int(width * 15))
    figure.supxlabel(label, fontsize=8, color="#444444", x=0.01, ha="left")
    figure.draw_without_rendering()  # lay out once, not again for every format it is saved in
    figure.set_layout_engine("none")
    return figure
