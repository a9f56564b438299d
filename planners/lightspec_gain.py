"""Gain: expected accepted tokens of the best rows of a batch, by draft depth, from recent proposals' confidences.

Fill takes the surest rows of the whole batch, so the gain of m rows depends on how confidences are spread, not only on
their mean. Recent proposals are put together into batches of the present size, sorted as Fill sorts them, and valued by
calibrated survival. A proposal that ended early goes on with the mean acceptance of those that went deeper. A request
that was asked and proposed nothing, as lookups often do, offers no rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import Confidence, FloatArray, IntArray
from lightspec_bench.planners.lightspec_calibration import Calibration

NUM_PROPOSALS = 256
PRIOR_ACCEPTANCE = 0.6
PRIOR_WEIGHT = 4.0
DRIFT = 0.08  # per refresh


@dataclass(frozen=True, slots=True)
class Survivals:
    """Fill's score (product of confidences) and calibrated survival of proposals, both (M, D)."""

    score: FloatArray
    survival: FloatArray


class Gain:
    """The last `NUM_PROPOSALS` proposals, and what they say about a batch; `credits_fill` False for comparison."""

    def __init__(self, max_draft_tokens: int, credits_fill: bool = True) -> None:
        self._credits_fill = credits_fill
        self._recent = np.full((0, max_draft_tokens), np.nan, dtype=np.float32)
        self._conditional = np.full(max_draft_tokens, PRIOR_ACCEPTANCE)
        self._turn = 0

    def observe(self, proposed: Confidence) -> None:
        """Remember proposals (M, D), empty ones too; of a large batch a different half each time, so that two steps are
        mixed."""
        if len(proposed) > NUM_PROPOSALS // 2:
            stride = -(-len(proposed) * 2 // NUM_PROPOSALS)
            proposed = proposed[self._turn % stride :: stride]
            self._turn += 1
        self._recent = np.concatenate((proposed, self._recent))[:NUM_PROPOSALS]

    def curves(self, survivals: Survivals, num_requests: int, offsets: IntArray) -> FloatArray:
        """(D + 1, K) expected accepted tokens of the best `offsets` (K,) rows when all drafted to each depth."""
        raw, survival = survivals.score, survivals.survival
        width = raw.shape[1]
        size = min(num_requests, len(raw))
        groups = len(raw) // size
        if not self._credits_fill:  # rows at random inside a depth, shallow depths first
            raw = np.broadcast_to(-np.arange(width), raw.shape)
        order = np.argsort(-raw[: groups * size].reshape(groups, size * width), axis=1, kind="stable")
        depth = order % width
        value = np.take_along_axis(survival[: groups * size].reshape(groups, size * width), order, axis=1)
        scale = num_requests / size
        curves = np.zeros((width + 1, len(offsets)))
        for depth_limit in range(1, width + 1):
            chosen = value[depth < depth_limit].reshape(groups, size * depth_limit)
            total = np.concatenate(([0.0], np.cumsum(chosen.mean(axis=0)))) * scale
            curves[depth_limit] = np.interp(offsets, np.arange(len(total)) * scale, total)
        return curves

    def survivals(self, calibration: Calibration) -> Survivals:
        """Of every remembered proposal, those cut short by their depth continued."""
        recent = self._recent if len(self._recent) else np.full((1, len(self._conditional)), np.nan, np.float32)
        acceptance = calibration.acceptance(recent)
        self._update_conditional(acceptance)
        ended = np.isnan(acceptance)
        score = _running(np.where(ended, self._conditional, recent))
        survival = _running(np.where(ended, self._conditional, acceptance))
        if len(self._recent):
            nothing = ended[:, 0]
            score[nothing], survival[nothing] = -1.0, 0.0  # after all that there is
        return Survivals(score, survival)

    def _update_conditional(self, acceptance: FloatArray) -> None:
        """Mean acceptance at each depth of tokens whose prefix survives, over the proposals that went there."""
        known = ~np.isnan(acceptance)
        survival = np.cumprod(np.where(known, acceptance, 0.0), axis=1)
        before = np.concatenate((np.ones((len(survival), 1)), survival[:, :-1]), axis=1)
        reached, kept = (before * known).sum(axis=0), survival.sum(axis=0)
        prior = np.concatenate(([PRIOR_ACCEPTANCE], self._conditional[:-1]))
        fresh = (kept + PRIOR_WEIGHT * prior) / (reached + PRIOR_WEIGHT)
        # A depth nobody drafts to any more drifts to the acceptance of the one before, so that it is tried again.
        weight = np.maximum(reached / (reached + PRIOR_WEIGHT), DRIFT)
        self._conditional = self._conditional + weight * (fresh - self._conditional)


def _running(conditional: FloatArray) -> FloatArray:
    return np.asarray(np.cumprod(conditional, axis=1), dtype=np.float64)
