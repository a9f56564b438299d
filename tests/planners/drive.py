"""Drives a planner through steps in which proposals are as long as planned and acceptance is a given number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np

from lightspec_bench.core import Batch, Confidence, IntArray, Plan, Planner, Step


def drive(
    planner: Planner,
    sizes: Iterable[int],
    acceptable: Callable[[int], int | list[int]],
    entropy: Callable[[int], float] | None = None,
    max_draft_tokens: int = 7,
) -> list[int | list[int]]:
    """The planned depths, one a step. Requests 0, 1, ... run; those past the size of a step leave.

    `acceptable(t)` is how many draft tokens the target would accept in step t, of every request or of each. With
    `entropy`, all draft tokens of step t have that entropy.
    """
    depths: list[int | list[int]] = []
    pending = np.zeros(0, dtype=np.int64)
    for t, size in enumerate(sizes):
        pending = np.concatenate((pending[:size], np.zeros(max(size - len(pending), 0), dtype=np.int64)))
        ids = np.arange(size)
        signal = None if entropy is None else masked(entropy(t), pending, max_draft_tokens)
        batch = Batch(t, 0.0, ids, pending, np.full(size, 5), np.full(size, 100), None, signal)
        plan = planner.plan(batch)
        depths.append(plain(plan.num_draft_tokens))
        verify = pending if plan.num_verify_tokens is None else np.asarray(plan.num_verify_tokens)
        accepted = np.minimum(verify, np.broadcast_to(acceptable(t), verify.shape))
        planner.observe(made(t, plan, ids, pending, verify, accepted, signal))
        pending = np.broadcast_to(plan.num_draft_tokens, (size,)).astype(np.int64)
    return depths


def made(
    index: int,
    plan: Plan,
    request_id: IntArray,
    drafted: IntArray,
    verified: IntArray,
    accepted: IntArray,
    entropy: Confidence | None = None,
) -> Step:
    """A step with those outcomes; its times say nothing."""
    return Step(
        index, plan, request_id, drafted, verified, accepted, None, entropy,
        100 * len(drafted), 0, 1.0, 0.1, 0.0, 0.0, 0.0, 0.0,
    )  # fmt: skip


def masked(value: float, pending: IntArray, width: int) -> Confidence:
    return np.where(np.arange(width) < pending[:, None], np.float32(value), np.float32(np.nan))


def plain(depth: int | IntArray) -> int | list[int]:
    return depth.tolist() if isinstance(depth, np.ndarray) else int(depth)


def switches(depths: list[int | list[int]]) -> int:
    """How often the depth changes from one step to the next."""
    return sum(one != other for one, other in pairwise(depths))
