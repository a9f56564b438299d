"""A batch-size schedule: vLLM's dynamic speculative decoding, K looked up by the number of requests in the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.schedule_grid import parse_grid

# The example of the pull request that brought schedules to vLLM (#32374, Llama-3.1-8B with EAGLE).
DEFAULT_RANGES: list[list[int]] = [[1, 16, 3], [64, 128, 2], [256, 256, 0]]
ContextKey: TypeAlias = Literal["mean", "median", "max"]
_CONTEXT_OF_BATCH: dict[ContextKey, Callable[[IntArray], Any]] = {"mean": np.mean, "median": np.median, "max": np.max}


class Schedule:
    """Verifies everything pending and drafts K tokens, K by batch size (`num_speculative_tokens_per_batch_size`).

    `ranges` is a list of [lo, hi, K] or a mapping "lo-hi" -> K, both ends included, in any order. A size between
    two ranges takes the K of the range below it, a size above the last that of the last, and K never exceeds D.
    Entries [lo, hi, ctx_lo, ctx_hi, K] add the context length: every batch range is paired with every context range,
    these start at 1 and follow one another, and the last one has no end. `context` says which length stands for the
    batch, rounded down: the mean, median or maximum over its requests. Raises `BenchError` where vLLM raises: see
    `schedule_grid.parse_grid`.

    `count_prefills` adds one to the size wherever prompt tokens share the step. vLLM as merged counts every scheduled
    request, prefills included; near an end of a range K then flips as prompts come and go (#49548). A batch does not
    say how many prompts share its step, so one is the least that a real engine would count.

    Source: vLLM 0.32, `v1/spec_decode/dynamic/utils.py` (#32374); the context axis is that of #48944, which is open,
    with its `ctx_agg`, mean by default. What is pending when K changes is verified whole. Not checked: how #48944
    rounds a mean, and whether prompts that are being prefilled enter it (here they do not).
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        ranges: list[Any] | dict[str, Any] | None = None,
        context: ContextKey = "mean",
        count_prefills: bool = False,
    ) -> None:
        grid = parse_grid(DEFAULT_RANGES if ranges is None else ranges)
        self.depths = grid.table(config.max_num_seqs, config.max_draft_tokens)
        self.table: IntArray = self.depths[:, 0]  # K for 0 to max_num_seqs requests of the shortest contexts
        self.context_starts = grid.context_starts
        self.context, self.count_prefills = context, count_prefills

    @property
    def depth_by_load(self) -> IntArray | None:
        """K for 0 to `max_num_seqs` requests, where that is all that `plan` looks at."""
        return self.table if len(self.context_starts) == 1 and not self.count_prefills else None

    def plan(self, batch: Batch) -> Plan:
        size = batch.num_requests + (self.count_prefills and batch.num_prefill_tokens > 0)
        return verify_all(batch, int(self.depths[min(size, len(self.depths) - 1), self._context_range(batch)]))

    def observe(self, step: Step) -> None:
        pass

    def _context_range(self, batch: Batch) -> int:
        if len(self.context_starts) == 1 or not batch.num_requests:
            return 0
        length = int(_CONTEXT_OF_BATCH[self.context](batch.num_context_tokens))
        return max(int(np.searchsorted(self.context_starts, length, side="right")) - 1, 0)
