"""Bounds of one plan, and what a planner requires of a trace; whole planners: `lightspec_bench.conformance`."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Batch, BenchError, EarlyExit, IntArray, Plan, PlanError, Trace


def check_plan(plan: Plan, batch: Batch, max_draft_tokens: int, planner: str) -> None:
    """Raise `PlanError`, naming the planner and the value, unless the plan is inside its bounds.

    Verify: exactly one of a budget in [N, N + pending] and counts in [0, pending] per request.
    Draft: one depth, or one per request, in [0, max_draft_tokens].
    """
    if not isinstance(plan, Plan):
        raise PlanError(f"planner {planner}: plan() returned {plan!r}, expected a Plan")
    budget, counts = plan.num_target_tokens, plan.num_verify_tokens
    if (budget is None) == (counts is None):
        raise PlanError(
            f"planner {planner}: a plan has either num_target_tokens or num_verify_tokens, "
            f"got {'neither' if budget is None else 'both'}"
        )
    num_requests = batch.num_requests
    if budget is not None:
        most = num_requests + int(batch.num_draft_tokens.sum())
        if isinstance(budget, bool) or not isinstance(budget, (int, np.integer)):
            raise PlanError(f"planner {planner}: num_target_tokens is {budget!r}, expected a whole number")
        if not num_requests <= budget <= most:
            raise PlanError(
                f"planner {planner}: num_target_tokens is {budget}, expected {num_requests} to {most} "
                f"({num_requests} requests and {most - num_requests} pending draft tokens)"
            )
    else:
        _check_counts("num_verify_tokens", counts, batch.num_draft_tokens, num_requests, planner)
    depth = plan.num_draft_tokens
    if isinstance(depth, (int, np.integer)) and not isinstance(depth, bool):
        if not 0 <= depth <= max_draft_tokens:
            raise PlanError(f"planner {planner}: num_draft_tokens is {depth}, expected 0 to {max_draft_tokens}")
    else:
        _check_counts("num_draft_tokens", depth, max_draft_tokens, num_requests, planner)
    rule = plan.early_exit
    if rule is not None and not isinstance(rule, EarlyExit):
        raise PlanError(f"planner {planner}: early_exit is {rule!r}, expected an EarlyExit or None")
    if rule is not None and np.shape(rule.threshold) not in ((), (num_requests,)):
        raise PlanError(
            f"planner {planner}: early_exit.threshold has shape {list(np.shape(rule.threshold))}, "
            f"expected one number or {num_requests}"
        )


def check_requires(requires: frozenset[str], trace: Trace, planner: str) -> None:
    """Raise `BenchError` unless the trace has what a planner requires; `planner` begins the sentence."""
    for needed in sorted(requires):
        if getattr(trace, needed, None) is None:
            raise BenchError(f"{planner} needs {needed}, which trace {trace.info.name} does not have")


def _check_counts(name: str, counts: object, most: int | IntArray, num_requests: int, planner: str) -> None:
    if (
        not isinstance(counts, np.ndarray)
        or counts.shape != (num_requests,)
        or not np.issubdtype(counts.dtype, np.integer)
    ):
        shown = f"{counts.dtype}{list(counts.shape)}" if isinstance(counts, np.ndarray) else repr(counts)
        raise PlanError(f"planner {planner}: {name} is {shown}, expected {num_requests} whole numbers")
    wrong = (counts < 0) | (counts > most)
    if wrong.any():
        row = int(np.argmax(wrong))
        bound = int(np.broadcast_to(most, counts.shape)[row])
        raise PlanError(f"planner {planner}: {name}[{row}] is {counts[row]}, expected 0 to {bound}")
