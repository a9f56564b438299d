"""Verify budget: the gain of n draft tokens taken by falling survival, and confidences of an earlier proposal.

Every policy here pools prefix survival over the batch. Survival never rises along a draft, so the n best tokens of a
batch are a prefix of every request.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from lightspec_bench.core import Batch, BenchError, BoolArray, Confidence, FloatArray, IntArray


def survival_of(confidence: Confidence | FloatArray) -> FloatArray:
    """Running product of confidences along each draft, (N, D); NaN counts as 1: nothing is known against it."""
    return np.multiply.accumulate(np.where(np.isnan(confidence), 1.0, confidence).astype(np.float64), axis=1)


def pending_slots(num_draft_tokens: IntArray, max_draft_tokens: int) -> BoolArray:
    """(N, D): whether a request has a pending draft token at that position."""
    return np.arange(max_draft_tokens) < num_draft_tokens[:, None]


def gains(survival: FloatArray) -> FloatArray:
    """(M + 1,) sums of the n largest of M survivals, n from 0 to M."""
    total = np.zeros(survival.size + 1)
    np.cumsum(np.sort(survival, axis=None)[::-1], out=total[1:])
    return total


def shown_confidence(batch: Batch, planner: str) -> Confidence:
    """The batch's confidences; `BenchError` where the engine shows none."""
    if batch.confidence is None:
        raise BenchError(f"{planner}: the batch has no confidences, expected a trace or engine that records them")
    return batch.confidence


class EarlierConfidences:
    """Confidences of the proposals that were verified one step earlier, whatever the engine shows.

    Engines that copy confidences to the host in the background know them one proposal late. Under lag 1 a batch shows
    just those; under lag 0 it shows the pending proposals', so the ones of `delay` batches before are kept, by request.
    """

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._kept: deque[tuple[IntArray, Confidence]] = deque(maxlen=max(delay, 1))

    def of(self, request_id: IntArray, confidence: Confidence) -> Confidence:
        """(N, D) in the order of `request_id`, NaN where a request had no proposal then; remembers what is given."""
        if not self._delay:
            return confidence
        found = np.full_like(confidence, np.nan)
        if len(self._kept) == self._delay:
            known_id, known = self._kept[0]
            if len(known_id):
                at = np.minimum(np.searchsorted(known_id, request_id), len(known_id) - 1)
                same = known_id[at] == request_id
                found[same] = known[at[same]]
        order = np.argsort(request_id)
        self._kept.append((request_id[order], confidence[order]))
        return found
