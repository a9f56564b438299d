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
    Operation,
    draft_passes_s,
    drafter_limit,
    operations,
    requests_per_pass,
    row_s,
    time_to_go,
)

_NUM_PRICES, _NUM_REFINED, _MAX_SHARES = 6, 2, 32
# A rehearsal counts so many steps, and more where few requests run: a dozen steps of one request tell nothing.
_COUNTED_STEPS, _COUNTED_REQUEST_STEPS, _UNCOUNTED_STEPS = 16, 256, 8


class Oracle:
    """Drafts and verifies what will be accepted, as far as it pays at the long-run price.

    Maximising tokens minus lambda times seconds, lambda at its fixed point (the rate achieved), is minimising the
    time until everything is out. `time_to_go` gives that time from every position of the trace at the prices of an
    operating point; of several points the one is kept that does best in a rehearsal on the trace. Each step then
    chooses draft tokens per request to minimise `T(N + sum x) + passes(x) + sum time_to_go(next position)`, over row
    prices, depth caps and how many requests draft at all. Rows that will be rejected are drafted only where a cost
    table makes more rows cheaper. For one request this is the exact optimum; for a batch, a step's own cost is exact
    and later steps' are averages. Where even that does not pay for a loaded drafter, it runs without one.

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
        self._to_go, self._to_go_width = np.zeros(0), 0
        tried = operations(trace, config)
        per_token = [self._rehearsed_s(operation) for operation in tried]
        best = int(np.argmin(per_token))
        self._follow(tried[best])
        self.uses_drafter = per_token[best] < self._without_drafter_s(tried[best].context)

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
            full = batch.num_requests == self._config.max_num_seqs  # then newcomers take the places that come free
            joining = int((~alive).sum()) if full else 0
            depth[alive] = self._choose(row[alive], position[alive], context, joining)
        return Plan(num_draft_tokens=depth, num_verify_tokens=batch.num_draft_tokens)

    def observe(self, step: Step) -> None:
        pass

    def _follow(self, operation: Operation) -> None:
        to_go = time_to_go(self._trace, self._config, operation)
        self._to_go, self._to_go_width = to_go.ravel(), to_go.shape[1]

    def _rehearsed_s(self, operation: Operation) -> float:
        """Seconds per token of a full batch, begun anywhere in its requests, at the prices of the operating point."""
        self._follow(operation)
        config, trace, number = self._config, self._trace, self._config.max_num_seqs
        rng = np.random.default_rng(config.seed)
        long_enough = np.flatnonzero(trace.num_output_tokens > 1)
        if not len(long_enough):
            return np.inf
        row = rng.choice(long_enough, number)
        position = rng.integers(1, trace.num_output_tokens[row])
        context = int(operation.context * number)
        host_s, spent_s, tokens = float(config.latency.host_s(number, True)), 0.0, 0
        for step in range(_UNCOUNTED_STEPS + max(_COUNTED_STEPS, _COUNTED_REQUEST_STEPS // number)):
            drafted = self._choose(row, position, context)
            passes = requests_per_pass(drafted[None], config.max_draft_tokens)
            emitted = np.minimum(drafted, trace.num_accepted[trace.offsets[row] + position]) + 1
            if step >= _UNCOUNTED_STEPS:
                target_s = float(row_s(config, number + int(drafted.sum()), number, context))
                spent_s += target_s + float(draft_passes_s(config, passes, context)[0]) + host_s
                tokens += int(emitted.sum())
            position = position + emitted
            done = position >= trace.num_output_tokens[row]
            row = np.where(done, rng.choice(long_enough, number), row)
            position = np.where(done, 1, position)
        return spent_s / tokens

    def _without_drafter_s(self, context: float) -> float:
        """Seconds per token of a full batch with no drafter loaded."""
        number, latency = self._config.max_num_seqs, self._config.latency
        step_s = latency.verify_s(number, number, context * number) + latency.host_s(number, False)
        return float(step_s) / number

    def _choose(self, row: IntArray, position: IntArray, context: int, joining: int = 0) -> IntArray:
        """Draft tokens per request (n,) for its next step: the cheapest of many prices, caps and shares of drafters.
        `joining` requests will share that step without a draft."""
        limit = drafter_limit(self._trace, self._trace.offsets[row] + position, self._config.max_draft_tokens)
        accepted = self._trace.num_accepted[self._trace.offsets[row] + position].astype(np.int64)
        drafted = np.minimum(np.arange(self._config.max_draft_tokens + 1), limit[:, None])
        reached = position[:, None] + np.minimum(drafted, accepted[:, None]) + 1
        to_go = self._to_go[row[:, None] * self._to_go_width + reached]
        gain = to_go[:, :1] - to_go
        chosen = np.minimum(_best_by_price(gain, _prices(gain), self._caps), limit)
        best = np.argsort(self._spent_s(chosen, gain, context, joining), kind="stable")[:_NUM_REFINED]
        chosen = np.concatenate([chosen[best[:1]], *(_by_share(chosen[i], gain) for i in best)])
        return np.asarray(chosen[np.argmin(self._spent_s(chosen, gain, context, joining))])

    def _spent_s(self, chosen: IntArray, gain: FloatArray, context: int, joining: int) -> FloatArray:
        """(combinations,) seconds of the next step less what its tokens save later."""
        number = chosen.shape[1]
        passes = requests_per_pass(chosen, self._config.max_draft_tokens)
        spent = row_s(self._config, number + joining + chosen.sum(axis=1), number + joining, context)
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
