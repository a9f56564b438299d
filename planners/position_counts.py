"""Position counts: what one step says about acceptance at each draft position.

Position j (from 0) of a request counts as verified when at least j + 1 of its draft tokens were, as accepted when that
many were kept. Given a reached prefix it was at risk when it was verified and all before it were accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import FloatArray, IntArray, Step


@dataclass(frozen=True, slots=True)
class PositionCounts:
    """Requests of a step per draft position, all (D,): verified there, accepted there, at risk there."""

    verified: IntArray
    accepted: IntArray
    at_risk: IntArray

    def survival(self) -> FloatArray:
        """Share of verified that was accepted, (D,), unconditional; NaN where nothing was verified."""
        return _share(self.accepted, self.verified)

    def conditional(self) -> FloatArray:
        """Share accepted given that everything before was, (D,); NaN where nothing was at risk."""
        return _share(self.accepted, self.at_risk)


def position_counts(step: Step, max_draft_tokens: int) -> PositionCounts:
    """Counts of one step, each (D,)."""
    verify, accepted = step.num_verify_tokens, step.num_accepted_tokens
    return PositionCounts(
        _reaching(verify, max_draft_tokens),
        _reaching(accepted, max_draft_tokens),
        _reaching(np.minimum(verify, accepted + 1), max_draft_tokens),
    )


def _reaching(counts: IntArray, depth: int) -> IntArray:
    """How many requests have a count above j, for j from 0 to `depth - 1`."""
    return np.asarray(np.bincount(counts, minlength=depth + 1)[::-1].cumsum()[::-1][1 : depth + 1])


def _share(part: IntArray, whole: IntArray) -> FloatArray:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
