"""Shades of a heat map: one hue from light to dark, with ink that can be read on each."""

from __future__ import annotations

from lightspec_bench.reports.themes import contrast

LIGHT, DARK = (226, 240, 249), (8, 61, 119)
_INKS = ("#000000", "#ffffff")


def shade(value: float) -> str:
    """The colour of 0 (light) to 1 (dark)."""
    part = min(max(value, 0.0), 1.0)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(LIGHT, DARK, strict=True))


def ink_on(colour: str) -> str:
    """Black or white, whichever has more contrast."""
    return max(_INKS, key=lambda ink: contrast(ink, colour))
