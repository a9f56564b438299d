"""History: survival without confidences, from what each request's last verified proposals brought.

For n-gram drafters and logs. A request's level is a short average of the share of its proposal that was accepted; per
level and depth, censored survival is kept (at risk: verified that far) and how often a proposal is that long at all.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import Batch, FloatArray, IntArray, Step

NUM_LEVELS = 8  # 0: nothing known yet
MEMORY_TOKENS, MEMORY_STEPS = 3000.0, 100.0
POOL_WEIGHT = 20.0
MAX_AGE = 8  # steps without verification after which nothing is known of a request
PRIOR_ACCEPTANCE, PRIOR_WEIGHT = 0.6, 10.0


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels that a plan was made with."""

    step: int
    level: IntArray  # (N,)
    planned: IntArray  # (N,)


class History:
    """Levels of the running requests, and survival per level."""

    def __init__(self, max_draft_tokens: int) -> None:
        self._depth = np.arange(max_draft_tokens)
        shape = (NUM_LEVELS, max_draft_tokens)
        self._asked, self._there = np.zeros(shape), np.zeros(shape)
        self._at_risk, self._kept = np.zeros(shape), np.zeros(shape)
        self._ids, self._share = np.zeros(0, dtype=np.int64), np.zeros(0)
        self._age = np.zeros(0, dtype=np.int64)  # steps since the request was last verified
        self._plans: deque[Levels] = deque()
        self.refresh()

    def levels(self, batch: Batch) -> IntArray:
        """Level of every request, (N,); noted, so that the step's outcome teaches the level it was planned with."""
        level = np.zeros(batch.num_requests, dtype=np.int64)
        place, known = self._find(batch.request_id)
        known &= self._age[place] < MAX_AGE if len(self._ids) else known
        level[known] = 1 + np.minimum(self._share[place[known]] * (NUM_LEVELS - 1), NUM_LEVELS - 2).astype(np.int64)
        self._plans.append(Levels(batch.step, level, batch.num_draft_tokens.copy()))
        return level

    def observe(self, step: Step) -> None:
        """Learn survival per level, then bring the levels up to date."""
        while self._plans and self._plans[0].step < step.index:
            self._plans.popleft()
        if self._plans and self._plans[0].step == step.index:
            self._learn(self._plans.popleft(), step)
        place, known = self._find(step.request_id)
        share = np.where(known, self._share[place] if len(self._share) else 0.0, 0.0)
        tried = step.num_verify_tokens > 0
        seen = step.num_accepted_tokens / np.maximum(step.num_verify_tokens, 1)
        empty = step.num_draft_tokens == 0
        fresh = np.where(known, 0.4 * share + 0.6 * seen, seen)
        age = np.where(known & ~tried & ~empty, (self._age[place] if len(self._age) else 0) + 1, 0)
        order = np.argsort(step.request_id)
        self._ids, self._age = step.request_id[order], age[order]
        self._share = np.where(tried | empty, fresh, share)[order]

    def _find(self, request_id: IntArray) -> tuple[IntArray, IntArray]:
        if not len(self._ids):
            return np.zeros(len(request_id), dtype=np.int64), np.zeros(len(request_id), dtype=bool)
        place = np.minimum(np.searchsorted(self._ids, request_id), len(self._ids) - 1)
        return place, self._ids[place] == request_id

    def _learn(self, plan: Levels, step: Step) -> None:
        keep = max(np.exp(-step.num_requests / MEMORY_TOKENS), np.exp(-1.0 / MEMORY_STEPS))
        at_risk = np.minimum(step.num_verify_tokens, step.num_accepted_tokens + 1)
        reached = ((self._asked, plan.planned), (self._there, step.num_draft_tokens))
        outcomes = ((self._at_risk, at_risk), (self._kept, step.num_accepted_tokens))
        width = len(self._depth) + 1
        for counts, until in (*reached, *outcomes):
            each = np.bincount(plan.level * width + until, minlength=NUM_LEVELS * width).reshape(NUM_LEVELS, width)
            counts *= keep
            counts += each[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]  # requests that got beyond each depth

    def refresh(self) -> None:
        """Fit P(a proposal is that long) and P(so far all accepted | that long), per level and depth, to the counts."""
        self._length = np.minimum.accumulate(_shrunk(self._there, self._asked, 1.0), axis=1)
        acceptance = _shrunk(self._kept, self._at_risk, PRIOR_ACCEPTANCE)
        self._survival: FloatArray = np.asarray(np.cumprod(acceptance, axis=1))
        self._order = np.argsort(-self._survival, axis=None, kind="stable")

    def curves(self, level: IntArray, offsets: IntArray) -> FloatArray:
        """(D + 1, K) expected accepted tokens of the best `offsets` (K,) rows, by draft depth, for these levels."""
        share, survival, depth = self._sorted(level)
        curves = np.zeros((len(self._depth) + 1, len(offsets)))
        for depth_limit in range(1, len(curves)):
            rows = np.where(depth < depth_limit, share, 0.0)
            curves[depth_limit] = np.interp(offsets, np.cumsum(rows), np.cumsum(rows * survival), left=0.0)
        return curves

    def shallow_curves(self, level: IntArray, offsets: IntArray) -> FloatArray:
        """The same when a budget takes shallow tokens first, whosever they are: less is gained, but it is kept to
        exactly, which counts where cost jumps."""
        requests = np.bincount(level, minlength=NUM_LEVELS)[:, None]
        rows = (requests * self._length).sum(axis=0)
        kept = (requests * self._length * self._survival).sum(axis=0)
        curves = np.zeros((len(self._depth) + 1, len(offsets)))
        for depth in range(1, len(curves)):
            at = np.concatenate(([0.0], np.cumsum(rows[:depth])))
            curves[depth] = np.interp(offsets, at, np.concatenate(([0.0], np.cumsum(kept[:depth]))))
        return curves

    def spread(self, level: IntArray, offsets: IntArray) -> FloatArray:
        """(K,) standard deviation of `offsets` (K,) expected rows: requests either have a proposal or have none."""
        proposals = float(self._length[level, 0].sum())
        return np.asarray(offsets / np.sqrt(max(proposals, 1.0)))

    def verify(self, level: IntArray, num_draft_tokens: IntArray, rows: float) -> IntArray:
        """Tokens per request, (N,), worth about that many rows: those above one survival."""
        share, survival, depth = self._sorted(level)
        total = np.cumsum(np.where(depth < num_draft_tokens.max(initial=0), share, 0.0))
        cut = int(np.searchsorted(total, rows + 1e-6, side="right"))
        least = survival[cut - 1] if cut else np.inf
        return np.asarray(np.minimum((self._survival >= least).sum(axis=1)[level], num_draft_tokens))

    def _sorted(self, level: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """Expected rows, survival and depth of every (level, depth), surest first."""
        requests = np.bincount(level, minlength=NUM_LEVELS)[:, None]
        share = (requests * self._length).ravel()[self._order]
        return np.asarray(share), self._survival.ravel()[self._order], self._order % len(self._depth)


def _shrunk(hits: FloatArray, trials: FloatArray, prior: float) -> FloatArray:
    """Share per level and depth, shrunk to that of all levels, that to the depth before, the first to a prior."""
    pooled = np.empty(hits.shape[1])
    for depth, (hit, trial) in enumerate(zip(hits.sum(axis=0), trials.sum(axis=0), strict=True)):
        prior = (hit + PRIOR_WEIGHT * prior) / (trial + PRIOR_WEIGHT)
        pooled[depth] = prior
    return (hits + POOL_WEIGHT * pooled) / (trials + POOL_WEIGHT)
