"""LightLLM's acceptance statistics: progress of exact configurations, prefix survival for all others.

Rules of LightLLM's `lightspec` branch at 414c39b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import FloatArray, IntArray

KEEP, ADD = 0.9, 0.1  # weights of the old average and of a new sample


@dataclass(slots=True)
class Average:
    """An exponential average that starts at its first sample."""

    value: float
    count: int = 1

    def add(self, sample: float) -> None:
        self.value = KEEP * self.value + ADD * sample
        self.count += 1


class Statistics:
    """What LightSpec learns while it serves.

    `progress[N][B, d]`: committed tokens per target row, one sample per step. `survival`, (D,): probability that
    the first j + 1 drafts are all accepted, NaN where never measured. `num_survival_updates` counts its changes.
    """

    def __init__(self, max_draft_tokens: int) -> None:
        self.progress: dict[int, dict[tuple[int, int], Average]] = {}
        self.survival: FloatArray = np.full(max_draft_tokens, np.nan)
        self.num_survival_updates = 0

    def add_progress(self, num_requests: int, rows: int, depth: int, committed: int) -> float:
        """Average in a step's committed tokens per row, target tokens included; returns the new average."""
        seen = self.progress.setdefault(num_requests, {})
        average = seen.get((rows, depth))
        if average is None:
            average = seen[rows, depth] = Average(committed / rows)
        else:
            average.add(committed / rows)
        return average.value

    def add_survival(self, depth: int, accept_lengths: IntArray) -> None:
        """Average in a full-width step's survival at 1 to `depth`; `accept_lengths` (N,) count the target's token."""
        reached = np.bincount(accept_lengths, minlength=depth + 2)[::-1].cumsum()[::-1]
        sample = reached[2 : depth + 2] / len(accept_lengths)
        old = self.survival[:depth]
        self.survival[:depth] = np.where(np.isnan(old), sample, KEEP * old + ADD * sample)
        self.num_survival_updates += 1


def levels(num_requests: int, rows: IntArray, depth: IntArray) -> tuple[IntArray, IntArray]:
    """A breadth-first fill of `rows - N` draft rows: whole levels, and rows of the next one; both like `rows`."""
    spare = rows - num_requests
    whole = np.minimum(spare // num_requests, depth)
    return whole, np.where(whole < depth, spare - whole * num_requests, 0)


def prefix_progress(
    survival: FloatArray, num_requests: int, rows: IntArray, whole: IntArray, rest: IntArray
) -> FloatArray:
    """Progress of a configuration never tried: mean survival of the draft rows it would verify, like `rows`.

    `whole` and `rest` come from `levels`. Never measured depths count as always accepted, and so does everything
    while no depth is measured.
    """
    if np.isnan(survival).all():
        return np.ones(np.shape(rows))
    known = np.where(np.isnan(survival), 1.0, survival)
    gained = np.concatenate(([0.0], np.cumsum(num_requests * known)))
    expected = num_requests + (gained[whole] + rest * np.append(known, 0.0)[whole])
    return np.asarray(expected / rows, dtype=np.float64)
