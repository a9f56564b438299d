"""Charts: what a picture shows, without saying how it is drawn; `figures` draws files of it, `svg_page` the page.

A chart is rows of panels. Values are as shown (percent, milliseconds); `texts` are what a reader sees who points at a
mark. Series are named by planner, so that `styles` gives each the same colour everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pandas as pd

from lightspec_bench.core import FloatArray
from lightspec_bench.reports.cells import BEST_STATIC, NO_SPECULATION, is_oracle, is_static
from lightspec_bench.reports.styles import STATIC, Style, Styles

EACH_STATIC = "each static K"
_NAMES = {NO_SPECULATION: "none: no speculation", BEST_STATIC: "best static K in hindsight"}


@dataclass(frozen=True, slots=True)
class Axis:
    """`base` 0 is linear, otherwise the base of a logarithmic scale; `ticks` are marked, None: round values."""

    label: str
    base: int = 0
    ticks: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A series: (P,) points, a text each, and a band from `low` to `high` where it is known."""

    name: str
    x: FloatArray
    y: FloatArray
    texts: Sequence[str]
    low: FloatArray | None = None
    high: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Lines:
    """Series over one pair of axes. `by_column`: marks at the same x belong together, and are shown together.
    `names_at_end` puts a short name at the right end of each static K; `is_wide`: many points, drawn low and wide."""

    title: str
    lines: Sequence[Line]
    x: Axis
    y: Axis
    by_column: bool = True
    names_at_end: bool = False
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from 0 with an interval where it is known (not NaN); `faint`: too few samples to go by."""

    name: str
    value: float
    low: float
    high: float
    text: str
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """Upright bars in percent, side by side."""

    title: str
    bars: Sequence[Bar]
    x_label: str
    y_label: str
    empty: str = "nothing to show"


@dataclass(frozen=True, slots=True)
class Stack:
    """One line of a waterfall: each part begins where the one before it ends."""

    name: str
    parts: Sequence[tuple[str, float, str]]  # name of the part, length, text
    total: str


@dataclass(frozen=True, slots=True)
class Stacks:
    """A waterfall per line over a common scale."""

    title: str
    stacks: Sequence[Stack]
    x_label: str


@dataclass(frozen=True, slots=True)
class Square:
    """A cell of a heat map: `shade` 0..1, NaN where nothing is known; `label` in it, `below` under that."""

    shade: float
    label: str
    below: str
    text: str


@dataclass(frozen=True, slots=True)
class Squares:
    """A heat map: rows by columns of squares."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    squares: Sequence[Sequence[Square]]
    x_label: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A mark on a dot chart's line: `kind` "cell", "losing" or "mean"; a mean may have an interval."""

    x: float
    text: str
    kind: str = "cell"
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True, slots=True)
class Dots:
    """Named lines of marks over a common scale."""

    title: str
    rows: Sequence[tuple[str, Sequence[Dot]]]
    x_label: str


Panel: TypeAlias = "Lines | Bars | Stacks | Squares | Dots"


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels in rows under one title; `caption` says what is drawn, `origin` where the numbers come from.

    `choices` are rows by label that the page lets its reader choose from; `rows`, one of them, is what files show.
    """

    title: str
    caption: str
    origin: str
    rows: Sequence[Sequence[Panel]]
    styles: Styles = field(default_factory=dict)
    legend: Mapping[str, Style] = field(default_factory=dict)
    choices: Mapping[str, Sequence[Sequence[Panel]]] = field(default_factory=dict)

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.rows for panel in row]


def legend_of(planners: Sequence[str], styles: Styles) -> dict[str, Style]:
    """Label -> style: no speculation and best static first, the oracle and the static planners last."""
    shown = [planner for planner in planners if not is_static(planner)]
    place = {planner: i for i, planner in enumerate((NO_SPECULATION, BEST_STATIC))}
    shown.sort(key=lambda planner: (place.get(planner, 2), is_oracle(planner), planner))
    found = {label_of(planner): styles[planner] for planner in shown}
    return found | ({EACH_STATIC: STATIC} if len(shown) < len(planners) else {})


def label_of(planner: str) -> str:
    """The legend entry that a planner's line belongs to."""
    return EACH_STATIC if is_static(planner) else _NAMES.get(planner, planner)


def small_multiples(comparison: pd.DataFrame) -> list[list[tuple[str, pd.DataFrame]]]:
    """Title and rows of every panel: traces downwards, latency models to the right."""
    traces, latencies = (list(comparison[name].unique()) for name in ("trace", "latency"))
    groups = dict(iter(comparison.groupby(["trace", "latency"], sort=False)))
    empty = comparison.iloc[:0]
    return [
        [(f"{trace} · {latency}", groups.get((trace, latency), empty)) for latency in latencies] for trace in traces
    ]
