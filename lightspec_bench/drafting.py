"""Price of drafting: which passes a drafter runs in a step, by its kind, and what they cost together.

D(r) is one drafter pass over r rows. B target rows were verified, N requests draft to depth d:

    autoregressive                D(B) at d = 0, else D(B) + (d - 1) D(N)
    autoregressive_no_attention   d D(N)
    parallel                      D(B) at d = 0, else D(B) + D(N block)
    ngram                         0 (its time is host time)

A drafter with attention follows the target in every step, so it pays D(B) even where it drafts nothing. Its first draft
token comes out of that pass. Formulas: LightLLM's lightspec branch at 414c39b, depth 0 added.
"""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Drafter, FloatArray, IntArray, LatencyModel, Number


def draft_s(
    latency: LatencyModel,
    drafter: Drafter,
    num_target_tokens: Number,
    num_requests: Number,
    depth: Number,
    num_context_tokens: Number,
) -> FloatArray:
    """Seconds of drafting when every request drafts to the same depth; broadcasts over all its numbers.

    `num_target_tokens` are the rows verified in this step (B), `num_context_tokens` is summed over the batch.
    """
    if drafter.kind == "ngram":
        given = (num_target_tokens, num_requests, depth, num_context_tokens)
        return np.zeros(np.broadcast_shapes(*map(np.shape, given)))
    if drafter.kind == "autoregressive_no_attention":
        return _broadcast(depth * latency.draft_pass_s(num_requests, num_context_tokens), num_target_tokens)
    extend = latency.draft_pass_s(num_target_tokens, num_context_tokens)
    if drafter.kind == "parallel":
        block = latency.draft_pass_s(num_requests * drafter.max_draft_tokens, num_context_tokens)
        return extend + np.greater(depth, 0) * block
    later = np.maximum(depth - 1, 0) if isinstance(depth, np.ndarray) else max(depth - 1, 0)
    return extend + later * latency.draft_pass_s(num_requests, num_context_tokens)


def _broadcast(cost: FloatArray, other: Number) -> FloatArray:
    return cost + np.zeros(other.shape) if isinstance(other, np.ndarray) else cost


def ragged_draft_s(
    latency: LatencyModel,
    drafter: Drafter,
    num_extend_tokens: int,
    rows_per_pass: IntArray,
    num_context_tokens: int,
) -> float:
    """Seconds of drafting when requests stop at different depths; equal to `draft_s` where they do not.

    `rows_per_pass[j]`, shape (depth,), is how many requests still draft in pass j: it never rises, empty means depth 0.
    Pass 0 of a drafter with attention runs over `num_extend_tokens` rows: the rows verified and any it missed
    while it slept; 0 means that it does not follow the target in this step. A later pass reads the context of the
    requests that are left, taken as their share of those that began. `num_context_tokens` is summed over the batch.
    """
    rows = rows_per_pass[rows_per_pass > 0]
    if drafter.kind == "ngram":
        return 0.0
    if drafter.kind == "autoregressive_no_attention":
        return _passes_s(latency, rows, rows, num_context_tokens)
    extend = float(latency.draft_pass_s(num_extend_tokens, num_context_tokens)) if num_extend_tokens else 0.0
    if not len(rows):
        return extend
    if drafter.kind == "parallel":
        return extend + float(latency.draft_pass_s(int(rows[0]) * drafter.max_draft_tokens, num_context_tokens))
    return extend + _passes_s(latency, rows, rows[1:] if num_extend_tokens else rows, num_context_tokens)


def _passes_s(latency: LatencyModel, rows: IntArray, passes: IntArray, num_context_tokens: int) -> float:
    """The sum of D over `passes`; equal passes, the usual case, are priced once."""
    if not len(passes):
        return 0.0
    first = int(rows[0])
    if int(passes[-1]) == first:
        return len(passes) * float(latency.draft_pass_s(first, num_context_tokens))
    context = np.asarray(passes * (num_context_tokens / first), dtype=np.float64)
    return float(latency.draft_pass_s(passes, context).sum())
