"""Temperature scaling while serving: DSpark's sequential calibration of confidences, kept up to date.

p_j = sigmoid(logit / T_j). Verified tokens are counted per position and bin of the logit, fading by `DECAY` a step.
T_j is the value of a grid with the least binned calibration error, on a log scale drawn towards the fit of all
positions together, and that towards 1, by the weight of `PRIOR_WEIGHT` observations. Source: vLLM branch,
`v1/worker/gpu/spec_decode/dspark/online_sts.py` at 7cb213ab; the paper fits once, offline, on held-out data.
"""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Confidence, FloatArray, IntArray

DECAY, PRIOR_WEIGHT = 0.999, 64.0
NUM_BINS, LOGIT_RANGE = 16, 8.0
GRID = np.logspace(np.log10(0.125), np.log10(8.0), 49)
_WIDTH = 2.0 * LOGIT_RANGE / NUM_BINS
_MIDDLES = -LOGIT_RANGE + (np.arange(NUM_BINS) + 0.5) * _WIDTH
_GRID_P = 1.0 / (1.0 + np.exp(-_MIDDLES / GRID[:, None]))  # (grid, bins)


class TemperatureScaling:
    """Temperatures per position, (D,), 1 before anything is seen."""

    def __init__(self, max_draft_tokens: int) -> None:
        self.temperatures = np.ones(max_draft_tokens)
        self._position = np.arange(max_draft_tokens)
        self._seen = np.zeros((max_draft_tokens, NUM_BINS))
        self._kept = np.zeros((max_draft_tokens, NUM_BINS))

    def acceptance(self, confidence: Confidence | FloatArray) -> FloatArray:
        """Calibrated confidences, (N, D); NaN stays."""
        return np.asarray(1.0 / (1.0 + np.exp(-logits(confidence) / self.temperatures)))

    def observe(self, confidence: Confidence, verified: IntArray, accepted: IntArray) -> None:
        """One step: proposals (N, D), of which the first `verified` tokens were verified and `accepted` kept."""
        at_risk = (self._position < np.minimum(verified, accepted + 1)[:, None]) & ~np.isnan(confidence)
        kept = at_risk & (self._position < accepted[:, None])
        filled = np.where(at_risk, logits(confidence), 0.0)
        bins = np.clip(((filled + LOGIT_RANGE) / _WIDTH).astype(np.int64), 0, NUM_BINS - 1)
        cell = self._position * NUM_BINS + bins
        for counts, chosen in ((self._seen, at_risk), (self._kept, kept)):
            counts *= DECAY
            counts += np.bincount(cell[chosen], minlength=counts.size).reshape(counts.shape)
        self._fit()

    def _fit(self) -> None:
        each = np.log(GRID[_calibration_error(self._seen, self._kept).argmin(axis=-1)])
        seen, kept = self._seen.sum(axis=0), self._kept.sum(axis=0)
        pooled = float(np.log(GRID[_calibration_error(seen, kept).argmin(axis=-1)]))
        pooled *= seen.sum() / (seen.sum() + PRIOR_WEIGHT)
        number = self._seen.sum(axis=1)
        own = number / (number + PRIOR_WEIGHT)
        self.temperatures = np.exp(own * each + (1.0 - own) * pooled)


def _calibration_error(seen: FloatArray, kept: FloatArray) -> FloatArray:
    """(..., bins) counts -> (..., grid) sums over bins of |predicted - observed| weighted by what was seen."""
    observed = kept / np.maximum(seen, 1e-6)
    return np.asarray((np.abs(_GRID_P - observed[..., None, :]) * seen[..., None, :]).sum(axis=-1))


def logits(confidence: Confidence | FloatArray) -> FloatArray:
    """Logits of confidences, finite also at 0 and 1; NaN stays."""
    kept = np.clip(np.asarray(confidence, dtype=np.float64), 1e-7, 1.0 - 1e-7)
    return np.asarray(np.log(kept / (1.0 - kept)))
