"""ROC threshold: for many requests at once, the confidence that best parts drafts that matched from those that did not.

A pair of a probability and whether it matched is one integer, `2 * bits + matched`, with the bits of the float32: such
keys sort like the probabilities. -1 is no pair and sorts to the front.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import BoolArray, Confidence, FloatArray, IntArray

_BLOCK = 16384  # keys looked at together: beyond the cache the same work takes five times as long


def pair_keys(probability: Confidence, matched: BoolArray, counts: BoolArray) -> IntArray:
    """Keys of the pairs that count, -1 for the others; all the same shape. Probabilities are at least 0."""
    bits = np.ascontiguousarray(probability, dtype=np.float32).view(np.int32).astype(np.int64)
    return np.where(counts, 2 * bits + matched, -1)


def best_thresholds(keys: IntArray, miss_weight: float, min_pairs: int) -> tuple[FloatArray, BoolArray]:
    """The threshold of least cost of each request, (N,), and whether it has one.

    `keys` (N, H) are sorted along the rows. A threshold is one of the probabilities seen, and passes those at or above
    it; its cost is the share of unmatched pairs passed plus `miss_weight` times the share of matched ones not
    passed. Of equal costs the highest threshold wins. Needs more than `min_pairs` pairs, matched and unmatched ones.
    """
    number, width = keys.shape
    rows = max(1, _BLOCK // max(width, 1))
    if number > rows:
        parts = [best_thresholds(keys[at : at + rows], miss_weight, min_pairs) for at in range(0, number, rows)]
        return np.concatenate([best for best, _ in parts]), np.concatenate([known for _, known in parts])
    if not width:
        return np.zeros(number), np.zeros(number, dtype=bool)
    matches = keys & 1
    before = np.cumsum(matches, axis=1)
    true_passed = before[:, -1:] - before + matches
    padding = width - np.count_nonzero(keys >= 0, axis=1)[:, None]
    matched = before[:, -1:] - padding  # the key -1 counted as a match
    unmatched = width - padding - matched
    false_passed = np.arange(width, 0, -1) - true_passed
    cost = false_passed / np.maximum(unmatched, 1) + miss_weight * (1.0 - true_passed / np.maximum(matched, 1))
    bits = keys >> 1
    first = bits >= 0  # of the pairs with one probability: a threshold passes them all
    first[:, 1:] &= bits[:, 1:] != bits[:, :-1]
    highest = width - 1 - np.where(first, cost, np.inf)[:, ::-1].argmin(axis=1)
    best = np.maximum(bits[np.arange(number), highest], 0).astype(np.int32).view(np.float32)
    known = (matched > 0) & (unmatched > 0) & (matched + unmatched > min_pairs)
    return best.astype(np.float64), known[:, 0]


class PairHistories:
    """Sorted keys of the pairs of many requests, each in a slot; they grow without bound, as in the source."""

    def __init__(self) -> None:
        self._keys = np.full((0, 0), -1, dtype=np.int64)
        self._counts = np.zeros(0, dtype=np.int64)
        self._free: list[int] = []

    def release(self, slots: npt.NDArray[Any]) -> None:
        """Forget the pairs in these slots."""
        self._keys[slots] = -1
        self._counts[slots] = 0
        self._free.extend(slots.tolist())

    def claim(self, number: int) -> IntArray:
        """Empty slots, (number,)."""
        short = number - len(self._free)
        if short > 0:
            first, added = len(self._keys), max(short, len(self._keys))
            self._keys = np.pad(self._keys, ((0, added), (0, 0)), constant_values=-1)
            self._counts = np.pad(self._counts, (0, added))
            self._free.extend(range(first, first + added))
        kept = len(self._free) - number
        claimed, self._free = self._free[kept:], self._free[:kept]
        return np.array(claimed, dtype=np.int64)

    def add(self, slots: IntArray, keys: IntArray) -> IntArray:
        """Add `keys` (N, D), -1 for no pair, to the slots (N,); returns all keys there, sorted, (N, H)."""
        width = int(self._counts[slots].max(initial=0)) + keys.shape[1]
        if width > self._keys.shape[1]:
            added = max(width, 2 * self._keys.shape[1]) - self._keys.shape[1]
            self._keys = np.pad(self._keys, ((0, 0), (added, 0)), constant_values=-1)
        start = self._keys.shape[1] - width
        held = self._keys[:, start:][slots]
        held[:, : keys.shape[1]] = keys  # the front is empty: nobody has more than `width - D` pairs
        held.sort(axis=1, kind="stable")  # nearly sorted
        self._keys[slots, start:] = held
        self._counts[slots] += (keys >= 0).sum(axis=1)
        return held
