"""Themes: how picture files look: on a page, in a paper, on a dark slide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.registry import did_you_mean


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours, size and type of a picture. `scale` shrinks panels while text keeps its size; `settings` are
    matplotlib's."""

    name: str
    background: str = "#ffffff"
    ink: str = "#000000"
    soft: str = "#444444"
    grid: str = "#dddddd"
    scale: float = 1.0
    dpi: int = 120
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def rc(self) -> Any:  # matplotlib's stubs know every name by heart
        """matplotlib's settings: what it draws without being asked has the theme's colours too."""
        inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
        return {**dict.fromkeys(inked, self.ink), "axes.facecolor": self.background, **self.settings}

    def paint(self, colour: str) -> str:
        """A series' colour, on a dark background one that can be told from it."""
        return colour if self.background == DEFAULT.background else on_dark(colour, self.background)


DEFAULT = Theme("default")
THEMES = {
    "default": DEFAULT,
    "paper": Theme(
        "paper",
        grid="#e6e6e6",
        scale=0.76,
        dpi=300,
        settings=MappingProxyType({"font.family": "STIXGeneral", "mathtext.fontset": "stix"}),
    ),
    "dark": Theme("dark", background="#16171a", ink="#ececf0", soft="#a9a9b2", grid="#3a3b41"),
}


def theme_of(name: str) -> Theme:
    """A theme by its name; `BenchError` for another one."""
    if name not in THEMES:
        raise BenchError(f"unknown theme {name!r}{did_you_mean(name, THEMES)}")
    return THEMES[name]


def on_dark(colour: str, background: str, least: float = 3.0) -> str:
    """A series' colour on a dark background: greys change places, black the brightest; others are lightened."""
    red, green, blue = _channels(colour)
    return _hex((240.0 - 0.75 * red,) * 3) if red == green == blue else readable(colour, background, least)


def readable(colour: str, background: str, least: float = 3.0) -> str:
    """The colour, or the first mixture with the background's opposite that has a contrast of `least` to it (WCAG 2.2,
    1.4.11: 3 for graphics)."""
    base, ground = _channels(colour), _channels(background)
    towards = 255.0 if _luminance(ground) < 0.18 else 0.0
    for tenth in range(11):
        mixed = tuple(channel + (towards - channel) * tenth / 10.0 for channel in base)
        if contrast(_hex(mixed), background) >= least:
            return colour if tenth == 0 else _hex(mixed)
    return _hex((towards, towards, towards))


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio of two colours, 1 to 21."""
    dark, light = sorted((_luminance(_channels(one)), _luminance(_channels(other))))
    return (light + 0.05) / (dark + 0.05)


def _channels(colour: str) -> tuple[float, ...]:
    return tuple(float(int(colour[place : place + 2], 16)) for place in (1, 3, 5))


def _hex(channels: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(channel):02x}" for channel in channels)


def _luminance(channels: tuple[float, ...]) -> float:
    linear = [c / 12.92 if (c := v / 255.0) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for v in channels]
    return float(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
