"""DSDE's formulas: a history of divergences per request, their weighted variances, and the length that follows."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import FloatArray, IntArray

FLAT, FLAT_RATIO = 1e-6, 20.0  # a long-window variance below the first counts as none; the ratio is then the second


def appended(history: FloatArray, values: FloatArray, count: IntArray) -> FloatArray:
    """Histories (N, W), newest last, with the first `count` (N,) of `values` (N, D) added at the end."""
    joined = np.concatenate((history, values), axis=1)
    return np.asarray(np.take_along_axis(joined, np.arange(history.shape[1]) + count[:, None], axis=1))


def variance_ratio(history: FloatArray, filled: IntArray, decay: float) -> FloatArray:
    """WVIR, (N,): weighted variance of the newest third of a history over that of all of it.

    `filled` (N,) of the history (N, W) are there. Weights fall by `decay` with age. 0 below two values, 20 where the
    history hardly varies.
    """
    age = np.arange(history.shape[1])[::-1]
    weight: FloatArray = np.power(decay, age)
    long = _weighted_variance(history, weight * (age < filled[:, None]))
    short = _weighted_variance(history, weight * (age < np.maximum(filled // 3, 1)[:, None]))
    ratio = np.where(long < FLAT, FLAT_RATIO, short / np.maximum(long, FLAT))
    return np.where(filled < 2, 0.0, ratio)


def length(ratio: FloatArray, divergence: FloatArray, low: IntArray, high: IntArray, alpha: float) -> IntArray:
    """Draft length, (N,): `high` where nothing diverges, down to `low` as exp(alpha * divergence) - 1 times the ratio
    goes to 1 and beyond."""
    doubt = ratio * np.expm1(np.minimum(alpha * divergence, 500.0))
    wished = np.ceil((high - low) * (1.0 - np.minimum(doubt, 1.0)) + low)
    return np.maximum(wished.astype(np.int64), low)


def bounds(
    accepted: FloatArray, mean: FloatArray, largest: FloatArray, least: int, most: int, weight: float
) -> tuple[IntArray, IntArray]:
    """Lower and upper draft length after the first tokens of a request, both (N,): from the most tokens accepted at
    once and the mean and largest divergence seen."""
    high = np.rint(accepted * (1.0 + weight * mean / np.where(largest == 0.0, 1.0, largest)))
    high = np.clip(high.astype(np.int64), least, most)
    low = np.minimum(np.maximum(np.ceil(0.1 * high).astype(np.int64), least), high)
    return low, high


def _weighted_variance(values: FloatArray, weight: FloatArray) -> FloatArray:
    total = np.maximum(weight.sum(axis=1), np.finfo(np.float64).tiny)
    mean = (weight * values).sum(axis=1) / total
    return np.asarray((weight * (values - mean[:, None]) ** 2).sum(axis=1) / total)
