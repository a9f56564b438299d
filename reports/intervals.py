"""Bootstrap intervals over requests, for one planner and for the ratio of two on the same requests.

The unit that is drawn is a request of the trace: all its repetitions and seeds go together, because replaying the
same request again is not new evidence. Every quantity is a quotient of sums over requests (`QUANTITIES`), so one
draw is one weight per request and all quotients of all planners share it: ratios are paired.

Throughput has no sum over requests. Its stand-in is output tokens / residence times, which at a steady number of
running requests is proportional to it (Little's law); the interval is taken on the stand-in and rescaled to the point
estimate. An interval says how much the choice of requests matters, not whether the latency model is right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import Columns, FloatArray, IntArray, Run
from lightspec_bench.reports import metrics, request_metrics

QUANTITIES = ("throughput", "tpot_mean_s", "mean_acceptance_length")
NUM_RESAMPLES = 1000
LEVEL = 0.95
_CHUNK_ELEMENTS = 2_000_000


def sums_by_request(requests: Columns, units: IntArray) -> FloatArray:
    """Numerators and denominators of `QUANTITIES`, summed by request, shape (U, 3, 2).

    `units` are the distinct request ids, ascending; every id in `requests` must be among them.
    """
    row = np.searchsorted(units, requests["request_id"])
    tpot = request_metrics.tpot_s(requests)
    pairs = (
        (requests["num_output_tokens"], request_metrics.residence_s(requests)),
        (np.nan_to_num(tpot, nan=0.0), ~np.isnan(tpot)),
        (requests["num_accepted_tokens"], requests["num_spec_steps"]),
    )
    summed = [[np.bincount(row, weights=column, minlength=len(units)) for column in pair] for pair in pairs]
    return np.moveaxis(np.array(summed, dtype=np.float64), 2, 0)


def resample(sums: FloatArray, seed: int, num_resamples: int = NUM_RESAMPLES) -> FloatArray:
    """Sums over `num_resamples` draws of U requests with replacement: (U, ...) -> (num_resamples, ...)."""
    num_units, rng = len(sums), np.random.default_rng(seed)
    flat = sums.reshape(num_units, -1)
    size = max(1, min(num_resamples, _CHUNK_ELEMENTS // max(num_units, 1)))
    chunks = [_draw(rng, min(size, num_resamples - start), num_units) @ flat for start in range(0, num_resamples, size)]
    return np.concatenate(chunks).reshape(num_resamples, *sums.shape[1:])


def _draw(rng: np.random.Generator, num_draws: int, num_units: int) -> FloatArray:
    drawn = rng.integers(num_units, size=(num_draws, num_units)) + np.arange(num_draws)[:, None] * num_units
    counts = np.bincount(drawn.ravel(), minlength=num_draws * num_units)
    return counts.reshape(num_draws, num_units).astype(np.float64)


def weights(num_units: int, seed: int, num_resamples: int = NUM_RESAMPLES) -> FloatArray:
    """Random weights of requests, (num_resamples, num_units), exponential with mean 1: the Bayesian bootstrap (Rubin,
    1981).

    For what spans several groups of cells, whose runs have not all the same requests: one request has the same weight
    in every group, and a group that has few of them is never without any, as it may be where requests are drawn.
    """
    return np.random.default_rng(seed).exponential(size=(num_resamples, num_units))


def values_of(sums: FloatArray) -> FloatArray:
    """`QUANTITIES` from their sums, (..., 3, 2) -> (..., 3); NaN where a denominator is zero."""
    values = request_metrics.quotient(sums[..., 0], sums[..., 1])
    values[..., 2] += 1.0  # the bonus token of an acceptance length
    return values


def interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The middle 95 % of resampled values; (NaN, NaN) where any of them is unknown."""
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(values, [tail, 100.0 - tail]) if len(values) else (np.nan, np.nan)
    return float(low), float(high)


def bootstrap_intervals(
    runs: Sequence[Run], num_trace_requests: int | None = None, seed: int = 0, num_resamples: int = NUM_RESAMPLES
) -> dict[str, tuple[float, float]]:
    """95 % intervals of `QUANTITIES` for one planner's runs (one per seed), pooled.

    `num_trace_requests` R folds repetitions (`request_id` + R, + 2R, ...) onto their request; None: ids are kept.
    """
    pooled = {name: np.concatenate([run.requests[name] for run in runs]) for name in runs[0].requests}
    if num_trace_requests is not None:
        pooled["request_id"] = pooled["request_id"] % num_trace_requests
    sums = sums_by_request(pooled, np.unique(pooled["request_id"]))
    if len(sums) < 2:
        return dict.fromkeys(QUANTITIES, (float("nan"), float("nan")))
    drawn, whole = values_of(resample(sums, seed, num_resamples)), values_of(sums.sum(axis=0))
    point = metrics.ratio(sum(r.totals.num_output_tokens for r in runs), sum(r.totals.elapsed_s for r in runs))
    drawn[:, 0] *= metrics.ratio(point, whole[0])
    return {name: interval(drawn[:, i]) for i, name in enumerate(QUANTITIES)}
