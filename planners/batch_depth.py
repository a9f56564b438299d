"""Batch depth: shared by planners that decide one depth for the whole batch, as most engines do.

A request without a proposal (its first decode step, or a step after depth 0) says nothing about acceptance.
"""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Batch, IntArray, Plan, Step


def verify_all(batch: Batch, num_draft_tokens: int | IntArray) -> Plan:
    """Verify everything that is pending, then draft: what engines do that decide only a depth."""
    return Plan(num_draft_tokens, batch.num_requests + int(batch.num_draft_tokens.sum()))


def mean_accepted(step: Step) -> float | None:
    """Accepted draft tokens per request that verified any, the bonus token not counted; None where nobody did."""
    judged = int((step.num_verify_tokens > 0).sum())
    return int(step.num_accepted_tokens.sum()) / judged if judged else None


class DraftedBy:
    """By how many requests, and to which planned depth, the proposals of each observed step were drafted.

    Where draft and verification belong to one iteration, as in SGLang, an outcome is credited to the setting that
    drafted it. Here the plan of the step before drafted what a step verifies, so that step is remembered.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None

    def follow(self, step: Step) -> tuple[int, int] | None:
        """(requests, depth) behind this step's proposals, None for the first step; to be called once per step."""
        drafted = self._last
        depth = step.plan.num_draft_tokens
        deepest = int(depth.max(initial=0)) if isinstance(depth, np.ndarray) else int(depth)
        self._last = (step.num_requests, deepest)
        return drafted
