"""TETRIS: a fixed capacity of draft tokens per step, spent on the most likely ones of the batch."""

from __future__ import annotations

from typing import ClassVar

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, Plan, Step
from lightspec_bench.planners.option_checks import expect


class Tetris:
    """Drafts `k` + `extra` tokens per request and verifies the C draft tokens of the highest survival.

    C is `capacity`, or `k` per request when left out: what plain speculation at `k` would verify. The choice is a
    greedy heap over the products of draft probabilities, one draft after another; as survival never rises along a
    draft, that is the same as taking the C largest over the batch, which is what Fill does with a budget. So a plan
    needs no confidences itself, and Fill uses current ones. Neither acceptance nor latency is looked at: the capacity
    is right at one load only.

    Source: arXiv 2502.15197, second hand: `k` 3 and `extra` 1 are settings of ours, not the paper's. `k` + `extra` is
    cut to D. Raises `BenchError` for options out of range.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, k: int = 3, extra: int = 1, capacity: int | None = None) -> None:
        for option, value in (("k", k), ("extra", extra), ("capacity", 0 if capacity is None else capacity)):
            expect(value >= 0, "tetris", option, value, "at least 0")
        self.k, self.capacity = k, capacity
        self.depth = min(k + extra, config.max_draft_tokens)

    def plan(self, batch: Batch) -> Plan:
        capacity = batch.num_requests * self.k if self.capacity is None else self.capacity
        return Plan(self.depth, batch.num_requests + min(capacity, int(batch.num_draft_tokens.sum())))

    def observe(self, step: Step) -> None:
        pass
