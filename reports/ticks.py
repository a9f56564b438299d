"""Ticks: round values to mark on an axis, and how they are written."""

from __future__ import annotations

import math


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most about `most` multiples of 1, 2 or 5 times a power of ten between two bounds."""
    raw = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    return [round(k * step, 12) for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most about `most` of 1, 2, 5 (or 1, 3, or 1) times powers of ten between two bounds above 0."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in powers for factor in factors]
        inside = [tick for tick in found if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(inside) <= most + 1:
            break
    return inside


def tick_name(value: float) -> str:
    """`1200` -> `1,200`, `20000` -> `20k`, `0.05` -> `0.05`."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:,.10g}"
