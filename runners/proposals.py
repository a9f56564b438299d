"""Proposals in replay: how many draft tokens a drafter produces at a position, in how many passes, at what price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import BenchError, BoolArray, EarlyExit, IntArray, Trace


@dataclass(frozen=True, slots=True)
class Proposals:
    """Draft tokens kept and drafter passes spent per request, both (N,)."""

    num_draft_tokens: IntArray
    num_passes: IntArray


def propose(trace: Trace, position: IntArray, depth: IntArray, early_exit: EarlyExit | None) -> Proposals:
    """What the recorded drafter proposes at `position` (N,) when asked for `depth` (N,) tokens under an exit rule."""
    limit = depth
    if trace.num_draft_tokens is not None:
        limit = np.minimum(limit, trace.num_draft_tokens[position])
    if early_exit is None:
        return Proposals(limit, limit)
    tripped = _tripped(trace, position, early_exit)
    first = np.where(tripped.any(axis=1), tripped.argmax(axis=1), trace.max_draft_tokens)
    kept = first + 1 if early_exit.keep_last else first
    return Proposals(np.minimum(limit, kept), np.minimum(limit, first + 1))


def _tripped(trace: Trace, position: IntArray, rule: EarlyExit) -> BoolArray:
    recorded = trace.entropy if rule.signal == "entropy" else trace.confidence
    if recorded is None:
        needed = "entropies" if rule.signal == "entropy" else "confidences"
        raise BenchError(f"early exit by {rule.signal} needs {needed}, which trace {trace.info.name} does not have")
    signal = recorded[position]
    if rule.signal == "entropy":
        return np.asarray(signal > rule.threshold)
    if rule.signal == "product":
        signal = np.multiply.accumulate(signal, axis=1)
    return np.asarray(signal < rule.threshold)


def rows_per_pass(num_passes: IntArray) -> IntArray:
    """How many requests still draft in each pass, (deepest,): a uniform depth d gives d times N."""
    if not len(num_passes):
        return np.zeros(0, dtype=np.int64)
    ended = np.bincount(num_passes)
    return np.asarray(ended[::-1].cumsum()[::-1][1:])
