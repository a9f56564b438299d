"""Oracle: knows what will be accepted and spends the least time; a bound for planners, not a planner to deploy."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import (
    Batch,
    ConfidenceAge,
    EngineConfig,
    FloatArray,
    IntArray,
    Plan,
    Step,
    Trace,
)
from lightspec_bench.planners.time_to_go import (
    draft_passes_s,
    drafter_limit,
    requests_per_pass,
    row_s,
    settled,
    time_to_go,
)

# Steps after which the operating point has been followed long enough to plan the time to go anew.
_REPLAN_AT = (32, 128, 512, 2048)
_NUM_PRICES, _NUM_REFINED, _MAX_SHARES = 6, 2, 32


class Oracle:
    """Drafts and verifies what will be accepted, as far as it pays at the long-run price.

    Maximising tokens minus lambda times seconds, lambda at its fixed point (the rate achieved), is minimising the
    time until everything is out. `time_to_go` gives that time from every position of the trace at the batch's
    running price. Each step then chooses draft tokens per request to minimise
    `T(N + sum x) + passes(x) + sum time_to_go(next position)`, over row prices, depth caps and how many requests
    draft at all. Rows that will be rejected are drafted only where a cost table makes more rows cheaper. For one
    request this is the exact optimum; for a batch, a step's own cost is exact and later steps' are averages. Where
    even that does not pay for a loaded drafter, it runs without one.

    Reads the trace: requests are known by `request_id` modulo the trace's length. Its own time is not charged.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter = True

    def __init__(self, config: EngineConfig, trace: Trace) -> None:
        self._config, self._trace = config, trace
        depth = config.max_draft_tokens
        caps = {1, 2, 3, 4, 6, 8, depth} if config.max_num_seqs > 16 else set(range(1, depth + 1))
        self._caps = np.array(sorted(c for c in caps if c <= depth))
        self._operation = settled(trace, config)
        self._seen = 0
        self._replan()
        self.uses_drafter = self._drafter_pays()

    def plan(self, batch: Batch) -> Plan:
        if not self.uses_drafter:
            return Plan(num_draft_tokens=0, num_target_tokens=batch.num_requests)
        row = batch.request_id % self._trace.num_requests
        start = self._trace.offsets[row]
        accepted = np.minimum(batch.num_draft_tokens, self._trace.num_accepted[start + batch.num_output_tokens])
        position = batch.num_output_tokens + accepted + 1
        depth = np.zeros(batch.num_requests, dtype=np.int64)
        alive = position < self._trace.num_output_tokens[row]
        if alive.any():
            context = int(batch.num_context_tokens.sum())
            depth[alive] = self._choose(row[alive], position[alive], context)
        return Plan(num_draft_tokens=depth, num_verify_tokens=batch.num_draft_tokens)

    def observe(self, step: Step) -> None:
        """Follow the batch's operating point and replan the time to go at growing intervals."""
        if not step.num_requests:
            return
        self._seen += 1
        context = step.num_context_tokens / step.num_requests
        self._operation = self._operation.after(step.num_verify_tokens, context)
        if self._seen in _REPLAN_AT:
            self._replan()

    def _replan(self) -> None:
        to_go = time_to_go(self._trace, self._config, self._operation)
        self._to_go, self._to_go_width = to_go.ravel(), to_go.shape[1]

    def _drafter_pays(self) -> bool:
        """Whether the trace takes less time with the drafter than with one token a step and no drafter."""
        number, context = self._config.max_num_seqs, self._operation.context * self._config.max_num_seqs
        latency = self._config.latency
        step_s = float(latency.verify_s(number, number, context) + latency.host_s(number, False))
        without_s = step_s / number * float((self._trace.num_output_tokens - 1).sum())
        first = np.arange(self._trace.num_requests) * self._to_go_width + 1
        return float(self._to_go[first].sum()) < without_s

    def _choose(self, row: IntArray, position: IntArray, context: int) -> IntArray:
        """Draft tokens per request (n,) for its next step: the cheapest of many prices, caps and shares of drafters."""
        limit = drafter_limit(self._trace, self._trace.offsets[row] + position, self._config.max_draft_tokens)
        accepted = self._trace.num_accepted[self._trace.offsets[row] + position].astype(np.int64)
        drafted = np.minimum(np.arange(self._config.max_draft_tokens + 1), limit[:, None])
        reached = position[:, None] + np.minimum(drafted, accepted[:, None]) + 1
        to_go = self._to_go[row[:, None] * self._to_go_width + reached]
        gain = to_go[:, :1] - to_go
        chosen = np.minimum(_best_by_price(gain, _prices(gain), self._caps), limit)
        best = np.argsort(self._spent_s(chosen, gain, context), kind="stable")[:_NUM_REFINED]
        chosen = np.concatenate([chosen[best[:1]], *(_by_share(chosen[i], gain) for i in best)])
        return np.asarray(chosen[np.argmin(self._spent_s(chosen, gain, context))])

    def _spent_s(self, chosen: IntArray, gain: FloatArray, context: int) -> FloatArray:
        """(combinations,) seconds of the next step less what its tokens save later."""
        number = chosen.shape[1]
        passes = requests_per_pass(chosen, self._config.max_draft_tokens)
        spent = row_s(self._config, number + chosen.sum(axis=1), number, context)
        saved = gain[np.arange(number), chosen].sum(axis=1)
        return np.asarray(spent + draft_passes_s(self._config, passes, context) - saved)


def _prices(gain: FloatArray) -> FloatArray:
    """Candidate prices of a row: quantiles of what a row saves, and a negative one for tables that fall."""
    per_row = (gain[:, 1:] / np.arange(1, gain.shape[1])).max(axis=1)
    quantiles = np.quantile(per_row, np.linspace(0.0, 1.0, _NUM_PRICES)) if len(per_row) > 1 else per_row
    return np.unique(np.concatenate(([-1e-9, 0.0, 1e-9], quantiles - 1e-12, [quantiles.max() + 1e-9])))


def _by_share(chosen: IntArray, gain: FloatArray) -> IntArray:
    """(shares, n): some requests draft as chosen, most saved per row first, and the others not at all."""
    number = len(chosen)
    per_row = gain[np.arange(number), chosen] / np.maximum(chosen, 1)
    rank = np.empty(number, dtype=np.int64)
    rank[np.argsort(-per_row, kind="stable")] = np.arange(number)
    shares = np.linspace(0, number, min(number, _MAX_SHARES) + 1).astype(np.int64)
    return np.where(rank < shares[:, None], chosen, 0)


def _best_by_price(gain: FloatArray, prices: FloatArray, caps: IntArray) -> IntArray:
    """Per combination of cap and price, each request's best draft count: (caps * prices, n)."""
    depth = np.arange(gain.shape[1])
    net = gain[None] - prices[:, None, None] * depth
    best = np.empty((len(caps), len(prices), len(gain)), dtype=np.int64)
    for i, cap in enumerate(caps):
        best[i] = net[:, :, : cap + 1].argmax(axis=2)
    return best.reshape(-1, len(gain))
