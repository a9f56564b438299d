"""Batch sizes: which of a list of known sizes a batch takes, by the three rules that engines use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def largest_at_most(sizes: Sequence[int], size: int) -> int:
    """The largest of ascending `sizes` that is not above `size`; the smallest where all are."""
    return max((known for known in sizes if known <= size), default=sizes[0])


def smallest_at_least(sizes: Sequence[int], size: int) -> int:
    """The smallest of ascending `sizes` that is not below `size`; `size` itself where none is."""
    at = bisect_left(sizes, size)
    return sizes[at] if at < len(sizes) else size


def nearest(sizes: Sequence[int], size: int) -> int:
    """The nearest of ascending `sizes`, the smaller of two that are as near."""
    return min(sizes, key=lambda known: (abs(known - size), known))
