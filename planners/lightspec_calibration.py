"""Calibration: what a drafter's confidence is worth, learnt from every verified draft token while serving.

Which rows are verified depends on confidences only, so a verified token whose prefix was accepted is an unbiased sample
of P(accepted | depth, confidence), whatever the planner chose.
"""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Confidence, FloatArray, IntArray

NUM_BINS = 20
MEMORY_TOKENS = 3000.0  # requests' worth of steps that are remembered at small batches
MEMORY_STEPS = 60.0  # and the least number of steps, at large ones
POOL_WEIGHT = 20.0  # observations that the map of all depths counts for, in the map of one
PRIOR_WEIGHT = 10.0  # and the confidence itself, in the map of all depths


class Calibration:
    """A map (depth, confidence bin) -> acceptance: decayed counts, shrunk to all depths' map, that to identity."""

    def __init__(self, max_draft_tokens: int, learns: bool = True) -> None:
        self._depth = np.arange(max_draft_tokens)
        self._learns = learns
        self._seen = np.zeros((max_draft_tokens, NUM_BINS))
        self._accepted = np.zeros((max_draft_tokens, NUM_BINS))
        self._map = np.tile((np.arange(NUM_BINS) + 0.5) / NUM_BINS, (max_draft_tokens, 1))

    def observe(self, confidence: Confidence, verified: IntArray, accepted: IntArray) -> None:
        """Learn from proposals (N, D) of which the first `verified` tokens were verified and `accepted` kept."""
        if not self._learns:
            return
        at_risk = self._depth < np.minimum(verified, accepted + 1)[:, None]
        kept = self._depth < accepted[:, None]
        place = bins(confidence) + self._depth * NUM_BINS
        shape = self._seen.shape
        keep = max(np.exp(-len(verified) / MEMORY_TOKENS), np.exp(-1.0 / MEMORY_STEPS))
        self._seen *= keep
        self._accepted *= keep
        self._seen += np.bincount(place[at_risk], minlength=self._seen.size).reshape(shape)
        self._accepted += np.bincount(place[kept & at_risk], minlength=self._seen.size).reshape(shape)

    def refresh(self) -> None:
        """Fit the map to the counts."""
        if not self._learns:
            return
        identity = (np.arange(NUM_BINS) + 0.5) / NUM_BINS
        seen, accepted = self._seen.sum(axis=0), self._accepted.sum(axis=0)
        pooled = (accepted + PRIOR_WEIGHT * identity) / (seen + PRIOR_WEIGHT)
        pooled = monotone(pooled, seen + 0.1 * PRIOR_WEIGHT)  # bins never seen follow those that were
        each = (self._accepted + POOL_WEIGHT * pooled) / (self._seen + POOL_WEIGHT)
        self._map = monotone(each, self._seen + POOL_WEIGHT)

    def acceptance(self, confidence: Confidence) -> FloatArray:
        """P(accepted | the ones before) of draft tokens, (M, D); NaN where the proposal has ended."""
        known = self._map[self._depth, bins(confidence)]
        return np.where(np.isnan(confidence), np.nan, known)


def bins(confidence: Confidence) -> IntArray:
    """Bin of each confidence, (M, D); NaN falls into the first."""
    return np.asarray(np.minimum(np.fmax(confidence, 0.0) * NUM_BINS, NUM_BINS - 1), dtype=np.int64)


def monotone(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted isotonic fit along the last axis: least squares among values that never fall.

    By its max-min formula, `fit[k] = max over i <= k of min over j >= k of mean(values[i..j])`.
    """
    size = values.shape[-1]
    total = np.cumsum(np.pad(values * weights, [(0, 0)] * (values.ndim - 1) + [(1, 0)]), axis=-1)
    mass = np.cumsum(np.pad(weights, [(0, 0)] * (values.ndim - 1) + [(1, 0)]), axis=-1)
    first, last = np.triu_indices(size)
    mean = np.full((*values.shape, size), np.inf)
    mean[..., first, last] = (total[..., last + 1] - total[..., first]) / (mass[..., last + 1] - mass[..., first])
    least = np.minimum.accumulate(mean[..., ::-1], axis=-1)[..., ::-1]  # over j >= k, for every i
    return np.asarray(np.where(np.triu(np.ones((size, size), dtype=bool)), least, -np.inf).max(axis=-2))
