"""A batch-size schedule: vLLM's dynamic speculative decoding, K looked up by the number of requests in the step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from lightspec_bench.core import Batch, BenchError, ConfidenceAge, EngineConfig, IntArray, Plan, Step

# The example of the pull request that brought schedules to vLLM (#32374, Llama-3.1-8B with EAGLE).
DEFAULT_RANGES: list[list[int]] = [[1, 16, 3], [64, 128, 2], [256, 256, 0]]


class Schedule:
    """Verifies everything pending and drafts K tokens, K by batch size (`num_speculative_tokens_per_batch_size`).

    `ranges` is a list of [lo, hi, K] or a mapping "lo-hi" -> K, both ends included, in any order. A size between
    two ranges takes the K of the range below it, a size above the last that of the last, and K never exceeds D.
    Raises `BenchError` where vLLM raises: the first range does not start at 1, ranges overlap, lo > hi, K < 0.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, ranges: list[Any] | dict[str, Any] | None = None) -> None:
        parsed = parse_ranges(DEFAULT_RANGES if ranges is None else ranges)
        self.table = lookup_table(parsed, config.max_num_seqs, config.max_draft_tokens)

    def plan(self, batch: Batch) -> Plan:
        size = min(batch.num_requests, len(self.table) - 1)
        return Plan(int(self.table[size]), batch.num_requests + int(batch.num_draft_tokens.sum()))

    def observe(self, step: Step) -> None:
        pass


def parse_ranges(ranges: Sequence[Any] | Mapping[Any, Any]) -> list[tuple[int, int, int]]:
    """Sorted, checked (lo, hi, K) triples from either spelling."""
    rows = [_from_key(*item) for item in ranges.items()] if isinstance(ranges, Mapping) else list(ranges)
    triples = sorted(_triple(row) for row in rows)
    if not triples:
        raise BenchError("schedule: ranges is empty, expected at least one [lo, hi, K]")
    if triples[0][0] != 1:
        raise BenchError(f"schedule: the first range {list(triples[0])} starts at {triples[0][0]}, expected 1")
    for below, above in pairwise(triples):
        if above[0] <= below[1]:
            raise BenchError(
                f"schedule: ranges {list(below)} and {list(above)} overlap, expected a start above {below[1]}"
            )
    return triples


def lookup_table(triples: Sequence[tuple[int, int, int]], max_num_seqs: int, max_draft_tokens: int) -> IntArray:
    """K for 0 to `max_num_seqs` requests, shape (max_num_seqs + 1,); an empty step takes the K of one request."""
    starts = np.array([lo for lo, _, _ in triples])
    depths = np.minimum([k for _, _, k in triples], max_draft_tokens).astype(np.int64)
    sizes = np.maximum(np.arange(max_num_seqs + 1), 1)
    return depths[np.searchsorted(starts, sizes, side="right") - 1]


def _from_key(key: Any, depth: Any) -> list[Any]:
    match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", str(key))
    if match is None:
        raise BenchError(f"schedule: range {key!r} is not a batch-size range, expected 'lo-hi' such as '1-16'")
    return [int(match[1]), int(match[2] or match[1]), depth]


def _triple(row: Any) -> tuple[int, int, int]:
    whole = isinstance(row, Sequence) and len(row) == 3 and all(type(value) is int for value in row)
    if not whole:
        raise BenchError(f"schedule: range {row!r} is not three whole numbers, expected [lo, hi, K]")
    lo, hi, depth = row
    if not 1 <= lo <= hi:
        raise BenchError(f"schedule: range {list(row)} goes from {lo} to {hi}, expected 1 <= lo <= hi")
    if depth < 0:
        raise BenchError(f"schedule: range {list(row)} has K {depth}, expected at least 0")
    return lo, hi, depth
