"""No speculation: the engine runs without a drafter, one token per request and step."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, IntArray, Plan, Step


class NoSpeculation:
    """Verifies nothing, drafts nothing. Not the same as drafting depth 0: no drafter is loaded, so none is paid for."""

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = False

    def __init__(self, config: EngineConfig) -> None:
        self._max_num_seqs = config.max_num_seqs

    @property
    def depth_by_load(self) -> IntArray:
        """0 for 0 to `max_num_seqs` requests: all that `plan` ever looks at."""
        return np.zeros(self._max_num_seqs + 1, dtype=np.int64)

    def plan(self, batch: Batch) -> Plan:
        return Plan(num_draft_tokens=0, num_target_tokens=batch.num_requests)

    def observe(self, step: Step) -> None:
        pass
