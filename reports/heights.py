"""Heights of labels that would lie on one another."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Ascending heights moved as little as possible (least squares) so that neighbours are `gap` apart."""
    blocks: list[list[float]] = []  # without their gaps, neighbours that collide share their mean
    for i, height in enumerate(heights):
        blocks.append([height - i * gap])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    level = [fmean(block) for block in blocks for _ in block]
    return [height + i * gap for i, height in enumerate(level)]


def not_below(heights: Sequence[float], gap: float, lowest: float) -> list[float]:
    """Ascending heights, `gap` apart, pushed back so that none is beyond `lowest` (SVG counts downwards)."""
    limits = [lowest - gap * (len(heights) - 1 - place) for place in range(len(heights))]
    return [min(height, limit) for height, limit in zip(heights, limits, strict=True)]
