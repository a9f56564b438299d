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
from lightspec_bench.planners.time_to_go import Operation, draft_passes_s, row_s, time_to_go

# Steps after which the operating point has been followed long enough to plan the time to go anew.
_REPLAN_AT = (16, 64, 256, 1024, 4096)
_NUM_PRICES = 10


class Oracle:
    """Drafts and verifies what will be accepted, as far as it pays at the long-run price.

    Maximising tokens minus lambda times seconds, lambda at its fixed point (the rate achieved), is minimising the
    time until everything is out. `time_to_go` gives that time from every position of the trace at the batch's
    running price. Each step then chooses draft tokens per request to minimise
    `T(N + sum x) + passes(x) + sum time_to_go(next position)`, over row prices and depth caps. Rows that will be
    rejected are drafted only where a cost table makes more rows cheaper. For one request this is the exact optimum;
    for a batch, a step's own cost is exact and later steps' are averages.

    Reads the trace: requests are known by `request_id` modulo the trace's length. Its own time is not charged.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, trace: Trace) -> None:
        self._config, self._trace = config, trace
        self._width = int(trace.num_output_tokens.max()) + config.max_draft_tokens + 2
        depth = config.max_draft_tokens
        caps = {0, 1, 2, 3, 4, 5, 6, 8, 11, depth} if config.max_num_seqs > 16 else set(range(depth + 1))
        self._caps = np.array(sorted(c for c in caps if c <= depth))
        accepted = trace.num_accepted.astype(np.float64)
        passes = np.array([(accepted >= j).mean() for j in range(1, depth + 1)])
        context = float((trace.num_prompt_tokens + trace.num_output_tokens / 2).mean())
        self._operation = Operation(config.max_num_seqs, float(accepted.mean()), passes, context)
        self._seen = 0
        self._replan()

    def plan(self, batch: Batch) -> Plan:
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
        depth = step.num_verify_tokens
        passes = np.array([(depth >= j).mean() for j in range(1, self._config.max_draft_tokens + 1)])
        context = step.num_context_tokens / step.num_requests
        self._operation = self._operation.after(step.num_requests, float(depth.mean()), passes, context, self._seen)
        if self._seen in _REPLAN_AT:
            self._replan()

    def _replan(self) -> None:
        self._to_go = time_to_go(self._trace, self._config, self._operation).ravel()
        self._to_go_width = len(self._to_go) // self._trace.num_requests

    def _choose(self, row: IntArray, position: IntArray, context: int) -> IntArray:
        """Draft tokens per request (n,) for its next step, by the cheapest of many prices and depth caps."""
        max_depth = self._config.max_draft_tokens
        accepted = self._trace.num_accepted[self._trace.offsets[row] + position].astype(np.int64)
        limit = np.full(len(row), max_depth)
        if self._trace.num_draft_tokens is not None:
            limit = self._trace.num_draft_tokens[self._trace.offsets[row] + position].astype(np.int64)
        drafted = np.minimum(np.arange(max_depth + 1), limit[:, None])
        reached = position[:, None] + np.minimum(drafted, accepted[:, None]) + 1
        to_go = self._to_go[row[:, None] * self._to_go_width + reached]
        gain = to_go[:, :1] - to_go
        chosen = _best_by_price(gain, self._prices(gain), self._caps)
        chosen = np.minimum(chosen, limit)
        num_requests = len(row)
        spent = row_s(self._config, num_requests + chosen.sum(axis=1), num_requests, context)
        spent = spent + draft_passes_s(self._config, _requests_per_pass(chosen, max_depth), context)
        saved = np.take_along_axis(gain[None], chosen[:, :, None], axis=2)[:, :, 0].sum(axis=1)
        return np.asarray(chosen[np.argmin(spent - saved)])

    def _prices(self, gain: FloatArray) -> FloatArray:
        """Candidate prices of a row: quantiles of what a row saves, and a negative one for tables that fall."""
        per_row = (gain[:, 1:] / np.arange(1, gain.shape[1])).max(axis=1)
        quantiles = np.quantile(per_row, np.linspace(0.0, 1.0, _NUM_PRICES)) if len(per_row) > 1 else per_row
        return np.unique(np.concatenate(([-1e-9, 0.0, 1e-9], quantiles - 1e-12, [quantiles.max() + 1e-9])))


def _best_by_price(gain: FloatArray, prices: FloatArray, caps: IntArray) -> IntArray:
    """Per combination of cap and price, each request's best draft count: (caps * prices, n)."""
    depth = np.arange(gain.shape[1])
    net = gain[None] - prices[:, None, None] * depth
    best = np.empty((len(caps), len(prices), len(gain)), dtype=np.int64)
    for i, cap in enumerate(caps):
        best[i] = net[:, :, : cap + 1].argmax(axis=2)
    return best.reshape(-1, len(gain))


def _requests_per_pass(chosen: IntArray, max_depth: int) -> IntArray:
    """(combinations, D): requests that draft at least j + 1 tokens."""
    combinations = len(chosen)
    flat = chosen + np.arange(combinations)[:, None] * (max_depth + 1)
    counts = np.bincount(flat.ravel(), minlength=combinations * (max_depth + 1)).reshape(combinations, -1)
    return np.asarray(counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])
