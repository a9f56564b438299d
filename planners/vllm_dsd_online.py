"""vLLM's online goodput manager: a table of inter-token latency by batch size and K, acceptance counted for ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import by_batch_size, expect
from lightspec_bench.planners.position_counts import position_counts
from lightspec_bench.planners.step_price import step_grid_s

NAME = "vllm-dsd-online"
# Anchors and acceptance of the manager's own example (Llama-3.1-8B with EAGLE).
BATCH_SIZES, DEPTHS = (1, 4, 16, 32, 64, 128), (0, 1, 3, 4, 5, 7)
ACCEPTANCE = (0.68, 0.39, 0.20, 0.10, 0.06, 0.03, 0.02)


class VllmDsdOnline:
    """Drafts the K of the highest (1 + sum of acceptance of the first K positions) / ITL(N, K); ties keep the shorter.

    ITL is a step's time, measured at anchor batch sizes and anchor K and interpolated linearly in both. `table` gives
    it in milliseconds, {batch size: {K: ms}}: 1 and `max_num_seqs` requests must be there, K = 0 and 1 each,
    and the same K everywhere; K never exceeds the deepest. Left out, the latency model is asked at the anchors of
    vLLM's example (1, 4, 16, 32, 64, 128 requests and max_num_seqs; K 0, 1, 3, 4, 5, 7 and D) at a context of
    `profile_context_tokens` each.

    Acceptance per position (unconditional) is `acceptance` for the first `warmup_steps` steps, the example's values
    when left out, positions past its end 0; then accepted over verified since the start, in every step anew, 0 where a
    position was never verified. So K cannot rise above what was drafted while warming up, and lifetime counts forget
    nothing: both are the published behaviour.

    Source: first form of vLLM's dynamic SD (#32374), `v1/spec_decode/dynamic/manager.py`. Not known: the context of
    its measurements (1024 is ours). Raises `BenchError` for a table or acceptance that vLLM refuses.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        table: dict[Any, Any] | None = None,
        acceptance: list[Any] | None = None,
        warmup_steps: int = 10,
        profile_context_tokens: int = 1024,
    ) -> None:
        expect(warmup_steps >= 0, NAME, "warmup_steps", warmup_steps, "at least 0")
        expect(profile_context_tokens >= 0, NAME, "profile_context_tokens", profile_context_tokens, "at least 0")
        if table is None:
            sizes, depths, itl = profile(config, profile_context_tokens)
        else:
            sizes, depths, itl = read_table(table, config.max_num_seqs)
        most = min(config.max_draft_tokens, int(depths[-1]))
        self.itl = bilinear(sizes, depths, itl, np.arange(config.max_num_seqs + 1), np.arange(most + 1))
        self.acceptance = prior(acceptance, most)
        self.warmup_steps, self._steps = warmup_steps, 0
        self._verified, self._accepted = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)

    def plan(self, batch: Batch) -> Plan:
        size = min(max(batch.num_requests, 1), len(self.itl) - 1)
        expected = 1.0 + np.concatenate(([0.0], np.cumsum(self.acceptance)))
        return verify_all(batch, int(np.argmax(expected / self.itl[size])))

    def observe(self, step: Step) -> None:
        counts = position_counts(step, len(self._verified))
        self._verified += counts.verified
        self._accepted += counts.accepted
        self._steps += 1
        if self._steps > self.warmup_steps:
            self.acceptance = self._accepted / np.maximum(self._verified, 1)


def profile(config: EngineConfig, context: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Anchor batch sizes (M,), anchor K (K,) and the latency model's step times there, (M, K)."""
    most, depth = config.max_num_seqs, config.max_draft_tokens
    sizes = np.array(sorted({*(s for s in BATCH_SIZES if s < most), 1, most}))
    depths = np.array(sorted({*(k for k in DEPTHS if k < depth), depth}))
    return sizes, depths, step_grid_s(config, sizes, depths, context)


def read_table(table: Mapping[Any, Any], max_num_seqs: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Anchors and times of a table, checked as vLLM checks it."""
    rows = [(size, _row(size, row)) for size, row in by_batch_size(NAME, "table", table)]
    sizes, depths = [size for size, _ in rows], sorted(rows[0][1])
    expect(1 in sizes, NAME, "table", f"for {sizes} requests", "1 request among them")
    expect(max_num_seqs in sizes, NAME, "table", f"for {sizes} requests", f"max_num_seqs ({max_num_seqs}) among them")
    for size, row in rows:
        same = sorted(row) == depths
        expect(same, NAME, f"table[{size}]", f"at K {sorted(row)}", f"the K of {sizes[0]} requests, {depths}")
    return np.array(sizes), np.array(depths), np.array([[row[k] for k in depths] for _, row in rows], dtype=np.float64)


def _row(size: int, row: Any) -> dict[int, float]:
    """K -> ms of one batch size."""
    expect(isinstance(row, Mapping), NAME, f"table[{size}]", row, "a mapping of K to milliseconds")
    for k, milliseconds in row.items():
        expect(type(k) is int and k >= 0, NAME, f"table[{size}] K", repr(k), "a whole number from 0 up")
        number = isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool) and milliseconds > 0
        expect(number, NAME, f"table[{size}][{k}]", repr(milliseconds), "milliseconds above 0")
    expect(0 in row and 1 in row, NAME, f"table[{size}]", f"at K {sorted(row)}", "0 and 1 among them")
    return dict(row)


def prior(acceptance: list[Any] | None, depth: int) -> FloatArray:
    """Acceptance per position before anything is counted, (depth,), 0 past the end of what is given."""
    values = list(ACCEPTANCE if acceptance is None else acceptance)
    rates = all(isinstance(value, (int, float)) and 0.0 < value < 1.0 for value in values)
    expect(bool(values) and rates, NAME, "acceptance", values, "rates above 0 and below 1")
    return np.array((values + [0.0] * depth)[:depth], dtype=np.float64)


def bilinear(sizes: IntArray, depths: IntArray, itl: FloatArray, at_size: IntArray, at_depth: IntArray) -> FloatArray:
    """Times interpolated linearly in both directions and held past the ends, (len(at_size), len(at_depth))."""
    by_depth = np.stack([np.interp(at_depth, depths, row) for row in itl])
    return np.stack([np.interp(at_size, sizes, column) for column in by_depth.T], axis=1)
