"""Styles: the same planner has the same colour, marker and line in every picture.

Colours are Okabe and Ito's, told apart by colour-blind readers; markers and lines tell planners apart in grey.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

LineStyle: TypeAlias = "str | tuple[float, tuple[float, ...]]"


@dataclass(frozen=True, slots=True)
class Style:
    """Colour, marker and line of one planner."""

    colour: str
    marker: str
    line: LineStyle
    width: float = 1.8

    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments of matplotlib's `plot`."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line, "linewidth": self.width}


KNOWN = {
    "none": Style("#000000", "x", (0.0, (1.0, 1.2)), 1.6),
    "best-static": Style("#6e6e6e", "s", (0.0, (5.0, 1.5)), 1.6),
    "oracle": Style("#cc79a7", "*", (0.0, (1.0, 1.0)), 1.4),
    "lightspec": Style("#7b3294", "P", "-", 2.2),
    "lightspec-reference": Style("#0072b2", "o", "-"),
    "dspark": Style("#d55e00", "D", (0.0, (6.0, 1.5, 1.0, 1.5))),
    "schedule": Style("#009e73", "^", (0.0, (8.0, 2.0))),
    "acceptance-target": Style("#e69f00", "v", (0.0, (3.0, 1.0))),
}
STATIC = Style("#b5b5b5", "", "-", 0.8)
BAR, BAR_EDGE = Style("#56b4e9", "", "-"), Style("#0072b2", "", "-")
FRONTIER = Style("#c9a400", "", "-", 4.0)
_COLOURS = ("#56b4e9", "#8c6d00", "#005f73", "#9b2226", "#66a61e", "#1f3b99", "#f781bf", "#a65628")
_MARKERS = ("v", "P", "<", ">", "X", "p", "h", "d")
_LINES: tuple[LineStyle, ...] = (
    "-",
    (0.0, (4.0, 1.0)),
    (0.0, (3.0, 1.0, 1.0, 1.0)),
    (0.0, (3.0, 1.0, 1.0, 1.0, 1.0, 1.0)),
)


Styles: TypeAlias = Mapping[str, "Style"]


def styles_of(planners: Iterable[str]) -> dict[str, Style]:
    """Styles of planners that are drawn together: `style_of`, but where a colour from a hash is taken already, the
    next free one; likewise markers."""
    found: dict[str, Style] = {}
    for planner in dict.fromkeys(planners):
        style = style_of(planner)
        if style != STATIC and planner.partition(":")[0] not in KNOWN:
            colours, markers = ({getattr(s, name) for s in found.values()} for name in ("colour", "marker"))
            style = replace(
                style, colour=_free(style.colour, _COLOURS, colours), marker=_free(style.marker, _MARKERS, markers)
            )
        found[planner] = style
    return found


def _free(wish: str, choices: tuple[str, ...], taken: set[str]) -> str:
    """The wish or the choice after it that is not taken; the wish where all are."""
    start = choices.index(wish)
    return next((c for c in (*choices[start:], *choices[:start]) if c not in taken), wish)


def style_of(planner: str) -> Style:
    """A planner's style: fixed for those that ship, otherwise from a hash of its name and options.

    A shipped planner with options keeps its colour; its marker and line come from the hash.
    """
    if planner in KNOWN:
        return KNOWN[planner]
    if planner == "static" or planner.startswith("static:"):
        return STATIC
    digest = hashlib.sha256(planner.encode()).digest()
    known = KNOWN.get(planner.partition(":")[0])
    colour = known.colour if known else _COLOURS[digest[0] % len(_COLOURS)]
    return Style(colour, _MARKERS[digest[1] % len(_MARKERS)], _LINES[digest[2] % len(_LINES)])
