"""TensorRT-LLM's draft_len_schedule: draft length by batch size, with its keys read as either version does."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import by_batch_size, expect, is_whole

NAME = "trtllm-schedule"
# The examples of TensorRT-LLM's own documentation of the option, before and since #10860.
EXAMPLES: dict[str, dict[int, int]] = {"lower": {1: 4, 4: 2, 8: 0}, "upper": {4: 4, 8: 2, 32: 1}}


class TrtLlmSchedule:
    """Draft length by the number of requests, as `speculative_config.draft_len_schedule` says.

    `meaning` has no default, because two versions read the same mapping differently. "lower" (1.2 and before): keys
    are the smallest sizes, {1: 4, 4: 2, 8: 0} is 4 from 1 request, 2 from 4, none from 8; key 1 has to be there.
    "upper" (since #10860, March 2026): keys are the largest sizes, {4: 4, 8: 2, 32: 1} is 4 for 1 to 4 requests, 2 for
    5 to 8, 1 for 9 to 32, none above. The smallest key has to map to `max_draft_len`, where that is given, and no
    length may exceed it (left out: the smallest key's). Lengths are cut to D.

    `floor` raises every length: #16888 (open) sets 1 for one-engine drafters, whose KV cache goes stale at 0. Here a
    drafter that resumes after 0 proposes as well as ever, as the trace has it, so what the floor repairs is not seen.

    With "lower" all that is pending is verified: two-model drafters draft and verify in one iteration. With "upper"
    the length is fixed as an iteration begins and longer proposals are cut to it; shorter ones are padded there, rows
    that are not charged here. Source: TensorRT-LLM `llmapi/llm_args.py` and `_torch/speculative`, #8194, #10860,
    #16888. Not checked: which releases carry the floor. Raises `BenchError` where the validators raise.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        meaning: Literal["lower", "upper"],
        draft_len_schedule: dict[Any, Any] | None = None,
        max_draft_len: int | None = None,
        floor: int = 0,
    ) -> None:
        most = config.max_draft_tokens
        expect(0 <= floor <= most, NAME, "floor", floor, f"0 to {most} (the drafter's max_draft_tokens)")
        given = EXAMPLES[meaning] if draft_len_schedule is None else draft_len_schedule
        lengths = checked_lengths(given, meaning, max_draft_len)
        self.meaning = meaning
        self._keys: IntArray = np.array(list(lengths), dtype=np.int64)
        cut = np.minimum(list(lengths.values()), most)
        beyond = cut if meaning == "lower" else np.append(cut, 0)
        self._lengths: IntArray = np.maximum(beyond, floor).astype(np.int64)

    def draft_len(self, num_requests: int) -> int:
        """The schedule's length for a batch size; an empty batch counts as one request."""
        size = max(num_requests, 1)
        if self.meaning == "lower":
            return int(self._lengths[np.searchsorted(self._keys, size, side="right") - 1])
        return int(self._lengths[np.searchsorted(self._keys, size, side="left")])

    def plan(self, batch: Batch) -> Plan:
        length = self.draft_len(batch.num_requests)
        if self.meaning == "lower":
            return verify_all(batch, length)
        return Plan(length, num_verify_tokens=np.minimum(batch.num_draft_tokens, length))

    def observe(self, step: Step) -> None:
        pass


def checked_lengths(schedule: dict[Any, Any], meaning: str, max_draft_len: int | None) -> dict[int, int]:
    """Draft length by ascending key, after the checks of the version that `meaning` stands for."""
    lengths = dict(by_batch_size(NAME, "draft_len_schedule", schedule))
    for size, length in lengths.items():
        ok = is_whole(length) and length >= 0
        expect(ok, NAME, f"draft_len_schedule[{size}]", length, "a whole number from 0 up")
    expect(meaning == "upper" or 1 in lengths, NAME, "draft_len_schedule", lengths, "a key 1 (meaning lower)")
    smallest = next(iter(lengths))
    if max_draft_len is not None:
        expect(max_draft_len >= 1, NAME, "max_draft_len", max_draft_len, "at least 1")
        ok, wanted = lengths[smallest] == max_draft_len, f"{max_draft_len}, which is max_draft_len"
        expect(ok, NAME, f"draft_len_schedule[{smallest}]", lengths[smallest], wanted)
    for size, length in lengths.items():
        wanted = f"at most {lengths[smallest]}, which is max_draft_len"
        expect(length <= lengths[smallest], NAME, f"draft_len_schedule[{size}]", length, wanted)
    return lengths
