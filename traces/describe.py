"""What a trace is like: lengths, acceptance per position, heterogeneity, and how good its confidences are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import BoolArray, FloatArray, IntArray, Trace

ECE_BINS = 10


def describe(trace: Trace) -> dict[str, Any]:
    """Figures of a trace as JSON values (None where a figure has no data).

    Acceptance and confidence figures are over the entries and draft tokens that `known_depth` counts. `served`
    figures are over those of them that a static drafter verifying all it can would step on; they are lower wherever
    a rejection makes the next one likelier.
    """
    known = known_depth(trace)
    counted = known > 0
    negated = None if trace.entropy is None else -trace.entropy
    return {
        "name": trace.info.name,
        "indexing": trace.info.indexing,
        "origin": trace.info.origin,
        "max_draft_tokens": trace.max_draft_tokens,
        "num_requests": trace.num_requests,
        "num_positions": trace.num_positions,
        "num_counted_positions": int(counted.sum()),
        "num_looping_requests": int((trace.repeats_from < trace.num_output_tokens).sum()),
        "categories": _categories(trace, counted),
        "num_prompt_tokens": _spread(trace.num_prompt_tokens),
        "num_output_tokens": _spread(trace.num_output_tokens),
        "mean_accepted_plus_one": _mean(trace.num_accepted[counted] + 1.0),
        "acceptance_rate_per_pos": _numbers(survival(trace, known)),
        "conditional_acceptance_rate_per_pos": _numbers(conditional_acceptance(trace, known)),
        "served": served(trace, known),
        "confidence": _signal_quality(trace, known, trace.confidence, calibrated=True),
        "entropy": _signal_quality(trace, known, negated, calibrated=False),
    }


def positions(trace: Trace) -> IntArray:
    """Output position of every entry, (P,)."""
    return np.arange(trace.num_positions) - np.repeat(trace.offsets[:-1], trace.num_output_tokens)


def known_depth(trace: Trace) -> IntArray:
    """Draft tokens of each entry whose outcome counts in the figures here, (P,).

    Position-indexed: D where all D fit before the request's last token, else 0, so that the end of a request does not
    look like a rejection (a token that was not proposed does count as not accepted). Step-indexed: what was verified
    there. The placeholder entry 0 never counts.
    """
    position, depth = positions(trace), trace.max_draft_tokens
    ahead = np.repeat(trace.num_output_tokens, trace.num_output_tokens) - 1 - position
    if trace.info.indexing == "step" and trace.num_draft_tokens is not None:
        known = np.minimum(trace.num_draft_tokens, ahead)
    else:
        known = np.where(ahead >= depth, depth, 0)
    return np.where(position >= 1, known, 0)


def conditional_acceptance(trace: Trace, known: IntArray) -> FloatArray:
    """P(draft token k + 1 is accepted, given that k were), (D,); NaN where it was never tried."""
    accepted, depth = trace.num_accepted, trace.max_draft_tokens
    tries = np.array([np.count_nonzero((accepted >= k) & (known > k)) for k in range(depth)])
    hits = np.array([np.count_nonzero((accepted > k) & (known > k)) for k in range(depth)])
    rates: FloatArray = np.divide(hits, tries, out=np.full(depth, np.nan), where=tries > 0)
    return rates


def survival(trace: Trace, known: IntArray) -> FloatArray:
    """P(the first k + 1 draft tokens are all accepted), (D,): the running product of the conditionals."""
    rates: FloatArray = np.cumprod(conditional_acceptance(trace, known), dtype=np.float64)
    return rates


def served_entries(trace: Trace, counted: BoolArray) -> IntArray:
    """The `counted` entries, (P,), that a static drafter steps on when it verifies all it can; ascending.

    Requests advance together, so the loop is over steps.
    """
    position = np.ones(trace.num_requests, np.int64)
    running = np.flatnonzero(trace.num_output_tokens > 1)
    visited = [running[:0]]
    while len(running):
        entry = trace.offsets[running] + position[running]
        visited.append(entry)
        position[running] += trace.num_accepted[entry].astype(np.int64) + 1
        running = running[position[running] < trace.num_output_tokens[running]]
    entries = np.sort(np.concatenate(visited))
    return entries[counted[entries]]


def served(trace: Trace, known: IntArray) -> dict[str, Any]:
    """Figures over the steps of a static drafter, what an engine's own counters would show."""
    entries = served_entries(trace, known > 0)
    request = np.repeat(np.arange(trace.num_requests), trace.num_output_tokens)[entries]
    here = np.zeros_like(known)
    here[entries] = known[entries]
    return {
        **heterogeneity(request, trace.num_accepted[entries].astype(np.int64) + 1),
        "acceptance_rate_per_pos": _numbers(survival(trace, here)),
    }


def heterogeneity(request: IntArray, emitted: IntArray) -> dict[str, float | int | None]:
    """Variance of accepted + 1 within and between requests, and its lag-1 autocorrelation; arrays of shape (S,).

    Variances are those of a one-way analysis of variance with unequal group sizes; `lag_1` pools the deviations from
    each request's own mean, which biases it down by one over the steps per request.
    """
    _, group, sizes = np.unique(request, return_inverse=True, return_counts=True)
    if len(sizes) < 2 or len(emitted) <= len(sizes):
        return {
            "num_steps": len(emitted), "mean_acceptance_length": _mean(emitted), "within_request_variance": None,
            "between_request_variance": None, "lag_1": None, "request_mean_p5": None, "request_mean_p50": None,
            "request_mean_p95": None,
        }  # fmt: skip
    means = np.bincount(group, emitted) / sizes
    deviation = emitted - means[group]
    total = float((deviation**2).sum())
    within = total / (len(emitted) - len(sizes))
    between_square = float((sizes * (means - emitted.mean()) ** 2).sum()) / (len(sizes) - 1)
    effective = (len(emitted) - float((sizes**2).sum()) / len(emitted)) / (len(sizes) - 1)
    pairs = group[1:] == group[:-1]
    p5, p50, p95 = (float(x) for x in np.percentile(means, [5, 50, 95]))
    return {
        "num_steps": len(emitted),
        "mean_acceptance_length": _mean(emitted),
        "within_request_variance": within,
        "between_request_variance": max(0.0, (between_square - within) / effective),
        "lag_1": float((deviation[1:] * deviation[:-1])[pairs].sum()) / total if total else None,
        "request_mean_p5": p5,
        "request_mean_p50": p50,
        "request_mean_p95": p95,
    }


def auc(score: npt.NDArray[Any], hit: BoolArray) -> float | None:
    """P(an accepted token scores above a rejected one), ties counting half; None unless both kinds are there."""
    hits = int(hit.sum())
    misses = len(hit) - hits
    if not hits or not misses:
        return None
    _, level, counts = np.unique(score, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2.0  # mean rank of equal scores, from 1
    return float((rank[level][hit].sum() - hits * (hits + 1) / 2.0) / (hits * misses))


def ece(confidence: npt.NDArray[Any], hit: BoolArray, bins: int = ECE_BINS) -> float | None:
    """Expected calibration error over equal-width bins: mean of |confidence - accepted| per bin, weighted by size."""
    if not len(hit):
        return None
    index = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gap = np.bincount(index, confidence, bins) - np.bincount(index, hit, bins)
    return float(np.abs(gap).sum() / len(hit))


def _signal_quality(
    trace: Trace, known: IntArray, score: npt.NDArray[Any] | None, calibrated: bool
) -> dict[str, list[float | None]] | None:
    """AUC per position, given that the prefix was accepted; with ECE and bias where the score is a probability."""
    if score is None:
        return None
    accepted = trace.num_accepted
    out: dict[str, list[float | None]] = {"auc": [], "ece": [], "bias": []} if calibrated else {"auc": []}
    for k in range(trace.max_draft_tokens):
        tried = (accepted >= k) & (known > k) & ~np.isnan(score[:, k])
        values, hit = score[tried, k], accepted[tried] > k
        out["auc"].append(auc(values, hit))
        if calibrated:
            out["ece"].append(ece(values, hit))
            out["bias"].append(float(values.mean() - hit.mean()) if len(hit) else None)
    return out


def _categories(trace: Trace, rows: BoolArray) -> dict[str, dict[str, float | int | None]]:
    of_entry = np.repeat(trace.category, trace.num_output_tokens)
    return {
        str(name): {
            "num_requests": int((trace.category == name).sum()),
            "mean_accepted_plus_one": _mean(trace.num_accepted[rows & (of_entry == name)] + 1.0),
        }
        for name in dict.fromkeys(trace.category.tolist())
    }


def _spread(values: IntArray) -> dict[str, float]:
    p5, p50, p95 = np.percentile(values, [5, 50, 95])
    return {"mean": float(values.mean()), "p5": float(p5), "p50": float(p50), "p95": float(p95)}


def _mean(values: npt.NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def _numbers(values: FloatArray) -> list[float | None]:
    return [None if np.isnan(x) else float(x) for x in values]
