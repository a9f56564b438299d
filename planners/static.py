"""Static K: verify everything that is pending, draft the same number of tokens at every step."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, BenchError, ConfidenceAge, EngineConfig, IntArray, Plan, Step

DEFAULT_K = 3


class Static:
    """What an engine does with a fixed `num_speculative_tokens`; also LightLLM's fixed planner, at k = D.

    `k` is 0 to D; left out, it is 3, or D where the drafter cannot propose 3. At k = 0 the drafter stays loaded.
    Raises `BenchError` for a k outside that.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, k: int | None = None) -> None:
        most = config.max_draft_tokens
        self.k = min(DEFAULT_K, most) if k is None else k
        if not 0 <= self.k <= most:
            raise BenchError(f"static: k is {k}, expected 0 to {most} (the drafter's max_draft_tokens)")
        self._max_num_seqs = config.max_num_seqs

    @property
    def depth_by_load(self) -> IntArray:
        """K for 0 to `max_num_seqs` requests: all that `plan` ever looks at."""
        return np.full(self._max_num_seqs + 1, self.k)

    def plan(self, batch: Batch) -> Plan:
        return Plan(self.k, batch.num_requests + int(batch.num_draft_tokens.sum()))

    def observe(self, step: Step) -> None:
        pass
