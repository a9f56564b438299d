"""Proposals in replay: how many draft tokens a drafter produces at a position, in how many passes, at what price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import BenchError, EarlyExit, IntArray, Trace
from lightspec_bench.early_exit import stopped_drafts
from lightspec_bench.runners.slots import Slots


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
    recorded = trace.entropy if early_exit.signal == "entropy" else trace.confidence
    if recorded is None:
        needed = "entropies" if early_exit.signal == "entropy" else "confidences"
        name = trace.info.name
        raise BenchError(f"early exit by {early_exit.signal} needs {needed}, which trace {name} does not have")
    return Proposals(*stopped_drafts(early_exit, recorded[position], limit))


def propose_first(trace: Trace, slots: Slots, before: int, depth: int) -> None:
    """The requests in the places from `before` on have just read their prompts: they propose `depth` tokens at once."""
    if slots.num_running > before and depth:
        slots.planned[before:] = depth
        asked = slots.planned[before:]
        slots.pending[before:] = propose(trace, slots.position[before:], asked, None).num_draft_tokens


def rows_per_pass(num_passes: IntArray) -> IntArray:
    """How many requests still draft in each pass, (deepest,): a uniform depth d gives d times N."""
    if not len(num_passes):
        return np.zeros(0, dtype=np.int64)
    ended = np.bincount(num_passes)
    return np.asarray(ended[::-1].cumsum()[::-1][1:])
