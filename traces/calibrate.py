"""Making synthetic figures meet their targets: thresholds, score noise, and a distorted reliability curve."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import BoolArray, FloatArray, IntArray
from lightspec_bench.traces.describe import ECE_BINS, auc

Latent = npt.NDArray[np.float32]
_SAMPLE = 20_000  # entries an AUC is solved on; its own sampling error is then below 0.004
_LEVELS = 64  # steps of a reliability curve


def thresholds(latent: Latent, conditional: FloatArray, rows: BoolArray) -> FloatArray:
    """(D,) thresholds at which exactly the wanted share of the prefix-accepted `rows` lies above, per draft token.

    latent (P, D), conditional (D,), rows (P,). The share is met on this very sample, to one entry.
    """
    alive = np.flatnonzero(rows)
    out = np.full(len(conditional), np.inf)
    for k, share in enumerate(conditional):
        values = latent[alive, k]
        if not len(values):
            break
        out[k] = np.quantile(values, 1.0 - share)
        alive = alive[values > out[k]]
    return out


def noise_for_auc(latent: Latent, noise: Latent, hit: BoolArray, target: float) -> float:
    """The weight w at which `latent + w * noise` has the target AUC, by bisection; vectors of equal length."""
    if hit.all() or not hit.any():
        return 1.0
    stride = max(1, len(hit) // _SAMPLE)
    latent, noise, hit = latent[::stride], noise[::stride], hit[::stride]
    low, high = -6.0, 6.0  # natural logarithm of w
    for _ in range(12):
        middle = (low + high) / 2.0
        reached = auc(latent + np.float32(np.exp(middle)) * noise, hit)
        low, high = (middle, high) if reached is not None and reached > target else (low, middle)
    return float(np.exp((low + high) / 2.0))


def reliability(score: npt.NDArray[np.floating], hit: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(score, probability, weight) of up to 64 groups of equal size in order of score, probabilities rising."""
    order = np.argsort(score, kind="stable")
    groups = np.array_split(order, max(1, min(_LEVELS, len(order) // 32)))
    sizes = np.array([len(g) for g in groups], np.float64)
    rates = _rising(np.array([hit[g].mean() for g in groups]), sizes)
    return np.array([score[g].mean() for g in groups]), rates, sizes


def _rising(rates: FloatArray, weights: FloatArray) -> FloatArray:
    """Isotonic regression (pool adjacent violators) of at most 64 values."""
    blocks: list[tuple[float, float, int]] = []
    for rate, weight in zip(rates.tolist(), weights.tolist(), strict=True):
        blocks.append((rate, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, wa, na), (b, wb, nb) = blocks[-2:]
            blocks[-2:] = [((a * wa + b * wb) / (wa + wb), wa + wb, na + nb)]
    return np.repeat([b[0] for b in blocks], [b[2] for b in blocks])


def distortion(
    probability: FloatArray, weight: FloatArray, target_ece: float, target_bias: float
) -> tuple[float, float]:
    """(sharpness, shift) in logits that turn true probabilities into confidences with that ECE and bias.

    `confidence = sigmoid(sharpness * logit(probability) + shift)`. The shift gives the mean error wanted, the
    sharpness (1 and above: overconfident at both ends) then the rest of the ECE, which is never below |bias|.
    """
    low, high = 0.0, np.log(8.0)
    for _ in range(24):
        middle = (low + high) / 2.0
        confidence = distorted(
            probability, float(np.exp(middle)), _shift(probability, weight, np.exp(middle), target_bias)
        )
        low, high = (middle, high) if _ece(confidence, probability, weight) < target_ece else (low, middle)
    sharpness = float(np.exp(low))
    return sharpness, _shift(probability, weight, sharpness, target_bias)


def distorted(probability: FloatArray, sharpness: float, shift: float) -> FloatArray:
    """Probabilities with their logits scaled and shifted."""
    inside = np.clip(probability, 1e-3, 1.0 - 1e-3)
    return 1.0 / (1.0 + np.exp(-sharpness * np.log(inside / (1.0 - inside)) - shift))


def _shift(probability: FloatArray, weight: FloatArray, sharpness: float, target_bias: float) -> float:
    low, high = -10.0, 10.0
    for _ in range(30):
        middle = (low + high) / 2.0
        error = np.average(distorted(probability, sharpness, middle) - probability, weights=weight)
        low, high = (middle, high) if error < target_bias else (low, middle)
    return (low + high) / 2.0


def _ece(confidence: FloatArray, probability: FloatArray, weight: FloatArray) -> float:
    index: IntArray = np.minimum((confidence * ECE_BINS).astype(np.int64), ECE_BINS - 1)
    gap = np.bincount(index, weight * (confidence - probability), ECE_BINS)
    return float(np.abs(gap).sum() / weight.sum())
