"""Small engines for tests of learners: one that pays each depth a rate, and steps with chosen requests and signals."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lightspec_bench.core import Batch, Plan, Planner, Step

from .support import batch, step


def depths_played(
    planner: Planner,
    rate: Callable[[int, int], float],
    steps: int,
    *,
    lag_steps: int = 0,
    num_requests: int = 1,
) -> list[int]:
    """Depths planned by a batch that stays. Step t, if it verifies depth k, emits `rate(k, t)` tokens per second.

    Nothing is accepted, so a request emits one token a step and the rate is a matter of the step's seconds.
    """
    planned: list[int] = []
    pending = 0
    unseen: deque[Step] = deque()
    for t in range(steps):
        plan = planner.plan(batch([pending] * num_requests, t))
        happened = step(plan, [pending] * num_requests, [pending] * num_requests, [0] * num_requests, index=t)
        unseen.append(replace(happened, verify_s=num_requests / rate(pending, t), draft_s=0.0))
        while len(unseen) > lag_steps:
            planner.observe(unseen.popleft())
        pending = int(plan.num_draft_tokens)
        planned.append(pending)
    return planned


def outcome(
    request_id: Sequence[int],
    verified: Sequence[int],
    accepted: Sequence[int],
    *,
    index: int = 0,
    confidence: Sequence[Sequence[float]] | None = None,
    entropy: Sequence[Sequence[float]] | None = None,
) -> Step:
    """A step of these requests that verified everything pending."""
    shown = [None if s is None else np.array(s, dtype=np.float32) for s in (confidence, entropy)]
    happened = step(Plan(0, 0), verified, verified, accepted, index=index)
    return replace(happened, request_id=np.array(request_id), confidence=shown[0], entropy=shown[1])


def batch_of(request_id: Sequence[int], pending: int = 0) -> Batch:
    """A batch of these requests."""
    return replace(batch([pending] * len(request_id)), request_id=np.array(request_id))
