"""Styles: the same planner has the same colour, marker and line in every picture.

Colours are Okabe and Ito's, told apart by colour-blind readers; markers and lines tell planners apart in grey.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
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
_COLOURS = ("#56b4e9", "#e69f00", "#8c6d00", "#005f73", "#9b2226")
_MARKERS = ("v", "P", "<", ">", "X", "p", "h", "d")
_LINES: tuple[LineStyle, ...] = (
    "-",
    (0.0, (4.0, 1.0)),
    (0.0, (3.0, 1.0, 1.0, 1.0)),
    (0.0, (3.0, 1.0, 1.0, 1.0, 1.0, 1.0)),
)


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
