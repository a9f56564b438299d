"""Acceptance target: the verify budget that keeps target efficiency at a set point, whatever steps cost."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, BenchError, ConfidenceAge, EngineConfig, Plan, Step


class AcceptanceTarget:
    """Steers target rows per request until emitted tokens / target rows is `target`; drafts `k` (None: D) always.

    The idea of LightLLM's planners of July 2026 (before `lightspec-reference`), which steered to a requested
    acceptance instead of the cheapest token; their probes, warm-up and floor are left out. After every step seen,
    rows per request are multiplied by exp(`rate` * (reached - target)), between 1 and k + 1. Latency is never asked.
    Raises `BenchError` for a target outside 0 to 1, a rate that is not positive, or a k outside 0 to D.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, target: float = 0.8, rate: float = 0.2, k: int | None = None) -> None:
        most = config.max_draft_tokens
        self.k = most if k is None else k
        if not 0.0 < target < 1.0:
            raise BenchError(f"acceptance-target: target is {target}, expected above 0 and below 1")
        if not 0.0 < rate < np.inf:
            raise BenchError(f"acceptance-target: rate is {rate}, expected above 0")
        if not 0 <= self.k <= most:
            raise BenchError(f"acceptance-target: k is {k}, expected 0 to {most} (the drafter's max_draft_tokens)")
        self.target, self.rate = target, rate
        self.rows_per_request = 1.0 + self.k

    def plan(self, batch: Batch) -> Plan:
        number = batch.num_requests
        most = number + int(batch.num_draft_tokens.sum())
        return Plan(self.k, min(max(round(number * self.rows_per_request), number), most))

    def observe(self, step: Step) -> None:
        """Learn from a step; one in which no request had a proposal says nothing."""
        if not step.num_draft_tokens.any():
            return
        rows = step.num_requests + int(step.num_verify_tokens.sum())
        reached = (step.num_requests + int(step.num_accepted_tokens.sum())) / rows
        moved = self.rows_per_request * np.exp(self.rate * (reached - self.target))
        self.rows_per_request = float(np.clip(moved, 1.0, 1.0 + self.k))
