"""No speculation: the engine runs without a drafter, one token per request and step."""

from __future__ import annotations

from typing import ClassVar

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, Plan, Step


class NoSpeculation:
    """Verifies nothing, drafts nothing. Not the same as drafting depth 0: no drafter is loaded, so none is paid for."""

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = False

    def __init__(self, config: EngineConfig) -> None:
        pass

    def plan(self, batch: Batch) -> Plan:
        return Plan(num_draft_tokens=0, num_target_tokens=batch.num_requests)

    def observe(self, step: Step) -> None:
        pass
