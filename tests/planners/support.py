"""Tiny engines, batches and steps for planner tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lightspec_bench.core import Batch, Drafter, DrafterKind, EngineConfig, FloatArray, IntArray, Number, Plan, Step


@dataclass(frozen=True)
class TableModel:
    """A latency model that reads exact dictionaries, in seconds, and rounds up to the next key."""

    verify: dict[int, float] = field(default_factory=lambda: {1: 1.0})
    draft: dict[int, float] = field(default_factory=lambda: {1: 0.1})
    name: str = "table"
    origin: str = "modelled"
    source: str = "made by hand"

    @property
    def graph_sizes(self) -> IntArray:
        return np.array(sorted(self.verify))

    def verify_s(self, num_target_tokens: Number, num_requests: Number, num_context_tokens: Number) -> FloatArray:
        return _look_up(self.verify, num_target_tokens)

    def draft_pass_s(self, num_rows: Number, num_context_tokens: Number) -> FloatArray:
        return _look_up(self.draft, num_rows)

    def host_s(self, num_requests: Number, speculating: bool) -> FloatArray:
        return np.zeros(np.shape(num_requests))


def _look_up(table: dict[int, float], rows: Number) -> FloatArray:
    keys = np.array(sorted(table))
    at = np.minimum(np.searchsorted(keys, rows), len(keys) - 1)
    return np.array([table[key] for key in sorted(table)])[at]


def engine(
    max_draft_tokens: int = 3,
    kind: DrafterKind = "autoregressive",
    latency: TableModel | None = None,
    max_num_seqs: int = 256,
    lag_steps: int = 0,
) -> EngineConfig:
    return EngineConfig(Drafter(kind, max_draft_tokens), latency or TableModel(), max_num_seqs, lag_steps)


def batch(
    num_draft_tokens: Sequence[int],
    step: int = 0,
    confidence: Sequence[Sequence[float]] | None = None,
    num_output_tokens: Sequence[int] | None = None,
) -> Batch:
    """A batch of requests that are past their first decode step when they have pending draft tokens."""
    pending = np.array(num_draft_tokens, dtype=np.int64)
    out = np.where(pending > 0, 5, 1) if num_output_tokens is None else np.array(num_output_tokens)
    shown = None if confidence is None else np.array(confidence, dtype=np.float32)
    return Batch(step, 0.0, np.arange(len(pending)), pending, out, out + 100, shown, None)


def step(
    plan: Plan,
    num_draft_tokens: Sequence[int],
    num_verify_tokens: Sequence[int],
    num_accepted_tokens: Sequence[int],
    index: int = 0,
) -> Step:
    n = len(num_draft_tokens)
    return Step(
        index=index, plan=plan, request_id=np.arange(n), num_draft_tokens=np.array(num_draft_tokens, dtype=np.int64),
        num_verify_tokens=np.array(num_verify_tokens, dtype=np.int64),
        num_accepted_tokens=np.array(num_accepted_tokens, dtype=np.int64), confidence=None, entropy=None,
        num_context_tokens=100 * n, num_prefill_tokens=0, verify_s=1.0, draft_s=0.1, host_s=0.0, prefill_s=0.0,
        planner_s=0.0, exposed_planner_s=0.0,
    )  # fmt: skip
