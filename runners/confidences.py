"""Confidences of one step's proposals, as fresh as the pipeline hands them to a planner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import BoolArray, Confidence, IntArray


@dataclass(frozen=True, slots=True)
class Confidences:
    """Confidences and entropies of one step's proposals, (N, D) or None."""

    confidence: Confidence | None = None
    entropy: Confidence | None = None

    def of(self, alive: BoolArray) -> Confidences:
        return Confidences(*(None if c is None else c[alive] for c in (self.confidence, self.entropy)))

    def padded(self, num_requests: int, like: Confidences) -> Confidences:
        """The same for a batch whose last requests are new: NaN for them; None only where `like` has none."""
        pairs = ((self.confidence, like.confidence), (self.entropy, like.entropy))
        return Confidences(*(_padded(old, num_requests, new) for old, new in pairs))


NO_CONFIDENCES = Confidences()


def _padded(old: Confidence | None, num_requests: int, like: Confidence | None) -> Confidence | None:
    if like is None:
        return None
    padded = np.full((num_requests, like.shape[1]), np.nan, dtype=np.float32)
    if old is not None:
        padded[: len(old)] = old
    return padded


def masked(recorded: Confidence | None, position: IntArray, past: BoolArray) -> Confidence | None:
    if recorded is None:
        return None
    return np.where(past, np.float32(np.nan), recorded[position])
