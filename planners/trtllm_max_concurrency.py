"""TensorRT-LLM's max_concurrency: a fixed draft length up to a number of requests, none above; AUTO sets both."""

from __future__ import annotations

from typing import ClassVar

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import expect

NAME = "trtllm-max-concurrency"
SMALL_BATCH = 4  # up to this max_batch_size AUTO drafts deeper


class TrtLlmMaxConcurrency:
    """Speculates where min(requests, max_batch_size, max_num_tokens / (1 + k)) is at most `max_concurrency`.

    The last of the three, rounded down, is how many requests fit into the engine's token budget when each takes a
    proposal and its own token. Where it is small the condition holds at every batch size: the cut-off is never met.

    Left out, `k` and `max_concurrency` are those of AUTO: 32 requests, and 5 draft tokens where `max_batch_size` is up
    to 4, else 3, all cut to D. AUTO also chooses the drafter, n-grams of 3 and of 5 tokens; a trace has its own.
    `max_batch_size` left out is the engine's `max_num_seqs`; `max_num_tokens` 8192 is TensorRT-LLM's default. An empty
    batch does not speculate. All that is pending is verified; at depth 0 the drafter stays loaded.

    Source: `should_use_spec_decode` in `_torch/speculative/drafter.py`; since #10860 one-model drafters turn the number
    into a schedule instead: `trtllm-schedule:meaning=upper,draft_len_schedule={32: 3}`. Not checked: AUTO's values in
    the source itself (they are taken from a description of it), and the default of max_num_tokens in every version.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        max_concurrency: int = 32,
        k: int | None = None,
        max_batch_size: int | None = None,
        max_num_tokens: int = 8192,
    ) -> None:
        most = config.max_draft_tokens
        batch_size = config.max_num_seqs if max_batch_size is None else max_batch_size
        expect(max_concurrency >= 0, NAME, "max_concurrency", max_concurrency, "at least 0")
        expect(batch_size >= 1, NAME, "max_batch_size", batch_size, "at least 1")
        expect(max_num_tokens >= 1, NAME, "max_num_tokens", max_num_tokens, "at least 1")
        self.k = min(5 if batch_size <= SMALL_BATCH else 3, most) if k is None else k
        expect(0 <= self.k <= most, NAME, "k", k, f"0 to {most} (the drafter's max_draft_tokens)")
        self.max_concurrency = max_concurrency
        self.most_effective = min(batch_size, max_num_tokens // (1 + self.k))  # 0: no proposal fits at all

    def speculates(self, num_requests: int) -> bool:
        """Whether a batch of that size drafts."""
        effective = min(num_requests, self.most_effective)
        return 0 < effective <= self.max_concurrency

    def plan(self, batch: Batch) -> Plan:
        return verify_all(batch, self.k if self.speculates(batch.num_requests) else 0)

    def observe(self, step: Step) -> None:
        pass
