"""A planner whose wishes are written down, and which remembers what it was shown: what wrappers are tested around."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, Plan, Step


class Wishes:
    """Wishes `depths[t]` in step t, a number or a list per request, and verifies everything pending."""

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset({"entropy"})
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, depths: list[Any], counts: bool = False) -> None:
        self.depths, self.counts = depths, counts
        self.batches: list[Batch] = []
        self.steps: list[Step] = []

    def plan(self, batch: Batch) -> Plan:
        wish = self.depths[len(self.batches)]
        self.batches.append(batch)
        depth = np.array(wish, dtype=np.int64) if isinstance(wish, list) else wish
        if self.counts:
            return Plan(depth, num_verify_tokens=batch.num_draft_tokens.copy())
        return Plan(depth, batch.num_requests + int(batch.num_draft_tokens.sum()))

    def observe(self, step: Step) -> None:
        self.steps.append(step)


def around(depths: list[Any], counts: bool = False) -> str:
    """The spec of such a planner, as a wrapper takes it."""
    return f"{__name__}:Wishes:depths={depths},counts={str(counts).lower()}".replace(" ", "")
