"""vLLM's verify-adaptive controller: the verify budget of the best score among a few profiled levels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.fill import fill, prefix_survival
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.step_price import verify_s
from lightspec_bench.planners.verify_budget import gains, pending_slots, shown_confidence

NAME = "vllm-verify-adaptive"


class VllmVerifyAdaptive:
    """Always drafts D; verifies the level Q of rows with the highest (N + Q - N largest survivals) / cost(N, Q).

    Survival is the running product of the pending proposals' confidences. Levels are what was profiled at the next
    profiled batch size (the largest one above that): that size times `min_query_len`, then every `query_len_step` up to
    `max_query_len` rows per request (D + 1). Cost is the target's forward alone, at a context of
    `profile_context_tokens` each; drafting is not priced. Equal scores take fewer rows. Rows go to the highest
    survivals of the batch.

    With the default levels the least it verifies is one draft token per request on average, and K = 0 does not
    exist. Batch sizes are `batch_sizes`, or 2, 4, 6, ... and max_num_seqs.

    Source: a vLLM branch for DFlash and parallel draft models, `v1/spec_decode/verify_adaptive_controller.py` at
    6287a7d7. It copies the probabilities to the host right after drafting, so this planner declares current ones and
    an engine charges the wait. Raises `BenchError` for options that the branch refuses.
    """

    confidence: ClassVar[ConfidenceAge] = "current"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        batch_sizes: list[Any] | None = None,
        min_query_len: int = 2,
        query_len_step: int = 2,
        max_query_len: int | None = None,
        profile_context_tokens: int = 1024,
    ) -> None:
        self.depth = config.max_draft_tokens
        most = self.depth + 1 if max_query_len is None else min(max_query_len, self.depth + 1)
        expect(min_query_len >= 2, NAME, "min_query_len", min_query_len, "at least 2")
        expect(most >= min(min_query_len, self.depth + 1), NAME, "max_query_len", most, "at least min_query_len")
        expect(query_len_step >= 1, NAME, "query_len_step", query_len_step, "at least 1")
        expect(profile_context_tokens >= 1, NAME, "profile_context_tokens", profile_context_tokens, "at least 1")
        self.widths = np.array(sorted({*range(min_query_len, most, query_len_step), most}))
        self.sizes = levels(config.max_num_seqs, batch_sizes)
        context = self.sizes[:, None] * profile_context_tokens
        self.cost_s: FloatArray = np.asarray(verify_s(config, self.sizes[:, None], self.widths[None] - 1, context))

    def plan(self, batch: Batch) -> Plan:
        pending, number = np.minimum(batch.num_draft_tokens, self.widths[-1] - 1), batch.num_requests
        survival = prefix_survival(shown_confidence(batch, NAME))
        slots = survival[pending_slots(pending, self.depth)]
        verify = fill(survival, pending, number + self.budget(slots.astype(np.float64), number))
        return Plan(self.depth, num_verify_tokens=verify)

    def budget(self, survival: FloatArray, num_requests: int) -> int:
        """Draft tokens to verify, of those with these survivals, (M,)."""
        at = min(int(np.searchsorted(self.sizes, num_requests)), len(self.sizes) - 1)
        wanted = self.sizes[at] * self.widths - num_requests
        chosen = np.minimum(wanted[wanted >= 0], len(survival))
        if not len(chosen):
            return 0
        score = (num_requests + gains(survival)[chosen]) / self.cost_s[at][wanted >= 0]
        return int(chosen[np.argmax(score)])

    def observe(self, step: Step) -> None:
        pass


def levels(max_num_seqs: int, given: list[Any] | None) -> IntArray:
    """Profiled batch sizes, ascending."""
    if given is None:
        return np.array(sorted({*range(2, max_num_seqs, 2), max_num_seqs}))
    whole = bool(given) and all(type(size) is int and size >= 1 for size in given)
    expect(whole, NAME, "batch_sizes", given, "whole numbers from 1 up")
    return np.array(sorted(set(given)))
