"""Marks and scales of the page's SVG: nothing but text that a browser draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from lightspec_bench.reports.styles import Style
from lightspec_bench.reports.themes import THEMES, on_dark
from lightspec_bench.reports.ticks import linear_ticks, log_ticks

_CORNERS = {
    "s": (4, 45),
    "D": (4, 0),
    "^": (3, 0),
    "v": (3, 180),
    "<": (3, 270),
    ">": (3, 90),
    "p": (5, 0),
    "h": (6, 0),
}
_STARS = {"*": (5, 0.45), "P": (4, 0.5), "X": (4, 0.5)}
_DARK = THEMES["dark"].background


@dataclass(frozen=True, slots=True)
class Scale:
    """Values `low` to `high` on pixels `start` to `end`; `base` 0 is linear, otherwise logarithmic."""

    low: float
    high: float
    start: float
    end: float
    base: int = 0

    def __call__(self, value: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Pixels of values."""
        values = np.asarray(value, dtype=np.float64)
        low, high, at = (
            (np.log(v) for v in (self.low, self.high, values)) if self.base else (self.low, self.high, values)
        )
        return np.asarray(self.start + (at - low) / (high - low) * (self.end - self.start))

    def ticks(self, most: int = 6) -> list[float]:
        """Round values to mark: 1, 2, 5 times a power of ten."""
        return log_ticks(self.low, self.high, most) if self.base else linear_ticks(self.low, self.high, most)


def bounds(values: Sequence[npt.NDArray[np.float64]], base: int, share: float = 0.05) -> tuple[float, float]:
    """Least and most of all values, a little wider; around a single value wide enough to draw."""
    known = np.concatenate([np.asarray(v, dtype=np.float64) for v in values]) if values else np.array([])
    known = known[np.isfinite(known) & ((known > 0) | (base == 0))]
    low, high = (float(known.min()), float(known.max())) if len(known) else (1.0, 2.0)
    if base:
        room = (high / low) ** share if high > low else 1.5
        return low / room, high * room
    room = share * (high - low) or max(abs(high), 1.0) * share
    return low - room, high + room


def number(value: float) -> str:
    """A pixel or a tick without needless digits."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def path(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> str:
    """Points as an SVG path."""
    return "M" + "L".join(f"{number(a)} {number(b)}" for a, b in zip(x, y, strict=True))


def colours(style: Style) -> str:
    """A style's colour on the light and on the dark page (contrast 4.5 to 1), as custom properties."""
    return f"--c:{style.colour};--d:{on_dark(style.colour, _DARK, 4.5)}"


def dashes(style: Style) -> str:
    """A style's dashes as an attribute, empty for a solid line."""
    if isinstance(style.line, str):
        return ""
    return f' stroke-dasharray="{" ".join(number(part * style.width) for part in style.line[1])}"'


def mark(shape: str, x: float, y: float, size: float = 4.5) -> str:
    """A marker of matplotlib's name at a place; empty where the style has none."""
    if shape == "o":
        return f'<circle cx="{number(x)}" cy="{number(y)}" r="{size * 0.85:.1f}"/>'
    if shape in ("x", "X"):
        d = size * 0.75
        start = f"M{number(x - d)} {number(y - d)}"
        return f'<path class=cross d="{start}l{2 * d:g} {2 * d:g}m0 {-2 * d:g}l{-2 * d:g} {2 * d:g}"/>'
    if shape in _STARS:
        count, inner = _STARS[shape]
        radii = [size * 1.25, size * 1.25 * inner] * count
        return _polygon(radii, 0.0, x, y)
    count, turn = _CORNERS.get(shape, (0, 0))
    return _polygon([size] * count, math.radians(turn), x, y) if count else ""


def _polygon(radii: Sequence[float], turn: float, x: float, y: float) -> str:
    angles = [turn + 2 * math.pi * i / len(radii) for i in range(len(radii))]
    corners = " ".join(
        f"{number(x + r * math.sin(a))},{number(y - r * math.cos(a))}" for r, a in zip(radii, angles, strict=True)
    )
    return f'<polygon points="{corners}"/>'


def text(words: str, x: float, y: float, kind: str = "", anchor: str = "") -> str:
    """A line of text."""
    attributes = f' class="{kind}"' if kind else ""
    if anchor:
        attributes += f' text-anchor="{anchor}"'
    return f'<text x="{number(x)}" y="{number(y)}"{attributes}>{escape(words)}</text>'
