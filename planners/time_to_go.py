"""Time to go: the least time from every position of a trace to its request's end, at a batch's running price.

A request in a batch of N pays its share of a step's fixed time and the whole of what its own rows and passes add.
With those prices the requests are independent, and each one's best path is a shortest path over its positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lightspec_bench.core import EngineConfig, FloatArray, IntArray, Number, Trace


@dataclass(frozen=True, slots=True)
class Operation:
    """A batch's operating point: requests, draft tokens verified per request, share of requests in each drafter
    pass (D,), context tokens per request."""

    num_requests: float
    depth: float
    passes: FloatArray
    context: float


def requests_per_pass(drafted: IntArray, max_draft_tokens: int) -> IntArray:
    """(combinations, N) -> (combinations, D): requests that draft at least j + 1 tokens."""
    width = max_draft_tokens + 1
    flat = drafted + np.arange(len(drafted))[:, None] * width
    counts = np.bincount(flat.ravel(), minlength=len(drafted) * width).reshape(-1, width)
    return np.asarray(counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])


def operations(trace: Trace, config: EngineConfig, rounds: int = 6) -> list[Operation]:
    """Operating points of a full batch whose requests all follow their best paths, closing in on the one where these
    paths make the prices they follow: the more is verified, the dearer is a row and the less is drafted. Where costs
    jump there is none, so all that were tried are given, and some that draft less.
    """
    depth = config.max_draft_tokens
    context = float((trace.num_prompt_tokens + trace.num_output_tokens / 2).mean())
    accepted = np.minimum(trace.num_accepted, depth).astype(np.int64)
    passes = requests_per_pass(accepted[None], depth)[0] / len(accepted)
    least, most = 0.0, float(accepted.mean())
    tried = [Operation(config.max_num_seqs, most, passes, context)]
    for _ in range(rounds):
        here = tried[-1]
        drafted = _follow(trace, config, here)
        mean = float(drafted.mean()) if len(drafted) else 0.0
        least, most = (here.depth, most) if mean > here.depth else (least, here.depth)
        passes = requests_per_pass(drafted[None], depth)[0] / max(len(drafted), 1)
        tried.append(replace(here, depth=(least + most) / 2, passes=(here.passes + passes) / 2))
    # Below a cliff the others' rows, which are known only roughly, make a row look too dear: cheaper points as well.
    return [*tried, *(replace(tried[-1], depth=share * tried[-1].depth) for share in (0.75, 0.5, 0.25))]


def _follow(trace: Trace, config: EngineConfig, operation: Operation) -> IntArray:
    """Draft tokens of every step of every request along its best path, one after another."""
    cost, to_go = _cost_by_depth(config, operation), time_to_go(trace, config, operation)
    row = np.flatnonzero(trace.num_output_tokens > 1)
    position = np.ones(len(row), dtype=np.int64)
    taken = []
    while len(row):
        at = trace.offsets[row] + position
        limit = drafter_limit(trace, at, config.max_draft_tokens)
        drafted = np.minimum(np.arange(config.max_draft_tokens + 1), limit[:, None])
        reached = position[:, None] + np.minimum(drafted, trace.num_accepted[at].astype(np.int64)[:, None]) + 1
        best = (cost[drafted] + to_go[row[:, None], reached]).argmin(axis=1)
        taken.append(drafted[np.arange(len(row)), best])
        position = reached[np.arange(len(row)), best]
        going = position < trace.num_output_tokens[row]
        row, position = row[going], position[going]
    return np.concatenate(taken) if taken else np.zeros(0, dtype=np.int64)


def drafter_limit(trace: Trace, at: IntArray, max_draft_tokens: int) -> IntArray:
    """What the drafter can propose at flat positions `at`, (n,)."""
    if trace.num_draft_tokens is None:
        return np.full(len(at), max_draft_tokens)
    return trace.num_draft_tokens[at].astype(np.int64)


def row_s(config: EngineConfig, rows: Number, num_requests: Number, context: Number) -> FloatArray:
    """Seconds that a step's target rows cost: the target, and the drafter's own pass over them where it has one."""
    seconds = config.latency.verify_s(rows, num_requests, context)
    if config.drafter.kind in ("autoregressive", "parallel"):
        seconds = seconds + config.latency.draft_pass_s(rows, context)
    return seconds


def draft_passes_s(config: EngineConfig, requests_per_pass: IntArray | FloatArray, context: Number) -> FloatArray:
    """Seconds of the drafter's passes beyond the one over the target's rows; (..., D) -> (...)."""
    kind = config.drafter.kind
    if kind == "ngram":
        return np.zeros(requests_per_pass.shape[:-1])
    if kind == "parallel":
        rows = requests_per_pass[..., :1] * config.max_draft_tokens
    else:
        rows = requests_per_pass[..., 1:] if kind == "autoregressive" else requests_per_pass
    seconds = np.where(rows > 0, config.latency.draft_pass_s(np.maximum(rows, 1), context), 0.0)
    return np.asarray(seconds.sum(axis=-1))


def time_to_go(trace: Trace, config: EngineConfig, operation: Operation) -> FloatArray:
    """(R, longest + D + 2) seconds from each position to the end; 0 at and past the end."""
    cost = _cost_by_depth(config, operation)
    max_depth, lengths = config.max_draft_tokens, trace.num_output_tokens
    longest = int(lengths.max())
    to_go = np.zeros((trace.num_requests, longest + max_depth + 2))
    depth, rows = np.arange(max_depth + 1), np.arange(trace.num_requests)
    for position in range(longest - 1, 0, -1):
        running = rows[lengths > position]
        at = trace.offsets[running] + position
        limit = drafter_limit(trace, at, max_depth)
        drafted = np.minimum(depth, limit[:, None])
        accepted = trace.num_accepted[at].astype(np.int64)[:, None]
        reached = position + np.minimum(drafted, accepted) + 1
        to_go[running, position] = (cost[drafted] + to_go[running[:, None], reached]).min(axis=1)
    return to_go


def _cost_by_depth(config: EngineConfig, operation: Operation) -> FloatArray:
    """(D + 1,) seconds that a request adds to the batch's time by a step with that many draft tokens."""
    number = max(operation.num_requests, 1.0)
    context = operation.context * number
    others, weight = _others(number, operation.depth)
    depth = np.arange(config.max_draft_tokens + 1)
    rows = others[:, None] + 1.0 + depth
    if number > 1.0:
        mine = weight @ _convex_row_s(config, rows, number, context)
    else:  # alone, a request meets every step of a staircase
        mine = weight @ row_s(config, rows, number, context)
    usual = np.interp(operation.depth, depth, mine)
    shared = (usual + float(config.latency.host_s(number, True))) / number
    return np.asarray(shared + (mine - usual) + _pass_shares(config, operation, number, context))


def _convex_row_s(config: EngineConfig, rows: FloatArray, number: float, context: float) -> FloatArray:
    """`row_s` from below, by the convex curve that touches it: beyond a cliff rows cost what going there costs, so
    that nobody's rows look cheap because the others' are already over it."""
    grid = np.arange(np.floor(rows.min()), np.ceil(rows.max()) + 1.0)
    seconds = row_s(config, grid, number, context)
    corners = [0]
    for i in range(1, len(grid)):
        while len(corners) > 1 and _above(grid, seconds, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(i)
    return np.interp(rows, grid[corners], seconds[corners])


def _others(number: float, depth: float) -> tuple[FloatArray, FloatArray]:
    """Rows of the other requests in a step and their weights. They differ from step to step, and a staircase's price
    at one row count says little about the next, so a normal spread of a tenth and two rows a request is taken."""
    mean = (number - 1.0) * (1.0 + depth)
    spread = 2.0 * np.sqrt(number - 1.0) + 0.1 * mean
    if not spread:
        return np.zeros(1), np.ones(1)
    rows = np.arange(max(np.rint(mean - 2.5 * spread), np.rint(number - 1.0)), np.rint(mean + 2.5 * spread) + 1.0)
    weight = np.exp(-0.5 * ((rows - mean) / spread) ** 2)
    return rows, weight / weight.sum()


def _above(x: FloatArray, y: FloatArray, a: int, b: int, c: int) -> bool:
    """Whether point b lies on or above the line from a to c."""
    return bool((y[b] - y[a]) * (x[c] - x[a]) >= (y[c] - y[a]) * (x[b] - x[a]))


def _pass_shares(config: EngineConfig, operation: Operation, number: float, context: float) -> FloatArray:
    """(D + 1,) a request's share of the drafter's passes up to each depth."""
    users = np.maximum(operation.passes * number, 1.0)
    kind = config.drafter.kind
    if kind == "ngram":
        return np.zeros(config.max_draft_tokens + 1)
    if kind == "parallel":
        share = float(config.latency.draft_pass_s(users[0] * config.max_draft_tokens, context)) / users[0]
        return np.concatenate(([0.0], np.full(config.max_draft_tokens, share)))
    shares = config.latency.draft_pass_s(users, context) / users
    if kind == "autoregressive":
        shares = np.concatenate(([0.0], shares[1:]))
    return np.concatenate(([0.0], np.cumsum(shares)))
