"""Online acceptance: vLLM's estimator of P(accepted) for drafters without a confidence head.

p_j = sigmoid(slope * feature + intercept_j), one slope for all positions. The feature is the logit of the draft
token's top probability. Coefficients start at slope 0 and intercept 1.5; every `refit_interval` steps they take one
Newton step on the steps since, damped by n / (n + damping) of the observations behind it, and the sums start anew.
"""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Confidence, FloatArray, IntArray

INTERCEPT, MOST_FEATURE = 1.5, 40.0


class OnlineAcceptance:
    """The estimator's state. Source: vLLM `v1/worker/gpu/spec_decode/acceptance_estimator.py` (0.32)."""

    def __init__(self, max_draft_tokens: int, refit_interval: int, damping: float, l2: float) -> None:
        self.refit_interval, self.damping, self.l2 = refit_interval, damping, l2
        self.slope, self.intercept = 0.0, np.full(max_draft_tokens, INTERCEPT)
        self.num_refits, self._steps = 0, 0
        self._position = np.arange(max_draft_tokens)
        self._clear()

    def _clear(self) -> None:
        depth = len(self._position)
        self._information, self._score = 0.0, 0.0  # of the slope
        self._coupling, self._weight, self._residual = np.zeros(depth), np.zeros(depth), np.zeros(depth)
        self._count = np.zeros(depth)

    def acceptance(self, confidence: Confidence) -> FloatArray:
        """P(accepted | the ones before), (N, D); NaN where the confidence is."""
        return np.asarray(1.0 / (1.0 + np.exp(-(self.slope * feature_of(confidence) + self.intercept))))

    def observe(self, confidence: Confidence, verified: IntArray, accepted: IntArray) -> None:
        """One step: proposals (N, D), of which the first `verified` tokens were verified and `accepted` kept."""
        seen = (self._position < np.minimum(verified, accepted + 1)[:, None]) & ~np.isnan(confidence)
        feature = np.where(seen, feature_of(confidence), 0.0)
        p = np.where(seen, self.acceptance(confidence), 0.0)
        weight = p * (1.0 - p)
        residual = np.where(seen, (self._position < accepted[:, None]) - p, 0.0)
        self._information += float((weight * feature * feature).sum())
        self._score += float((residual * feature).sum())
        self._coupling += (weight * feature).sum(axis=0)
        self._weight += weight.sum(axis=0)
        self._residual += residual.sum(axis=0)
        self._count += seen.sum(axis=0)
        self._steps += 1
        if self._steps == self.refit_interval:
            self._refit()

    def _refit(self) -> None:
        """One damped Newton step; the intercepts are eliminated first, and a step to a negative slope is not made."""
        weight = self._weight + self.l2
        curvature = self._information + self.l2 - float((self._coupling**2 / weight).sum())
        step = (self._score - float((self._coupling * self._residual / weight).sum())) / curvature
        total = float(self._count.sum())
        step *= total / (total + self.damping)
        if self.slope + step < 0.0:
            step = 0.0
        self.slope += step
        self.intercept += (self._residual - self._coupling * step) / weight * self._count / (self._count + self.damping)
        self.num_refits, self._steps = self.num_refits + 1, 0
        self._clear()


def feature_of(confidence: Confidence) -> FloatArray:
    """Logit of a probability, within -40 and 40; NaN stays."""
    with np.errstate(divide="ignore"):
        odds = np.log(np.asarray(confidence, dtype=np.float64)) - np.log1p(-np.asarray(confidence, dtype=np.float64))
    return np.asarray(np.clip(odds, -MOST_FEATURE, MOST_FEATURE))
