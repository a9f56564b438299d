"""Latency models: what verifying, drafting and the host cost for a batch shape, in seconds.

Three kinds share their terms: `TableLatency` (measured sizes), `RooflineLatency` (constants of a model and a device)
and `LinearLatency` (a fitted line). docs/latency.md has the terms, the file format and the tables that ship.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np

from lightspec_bench.core import BenchError, FloatArray, IntArray, Number
from lightspec_bench.latency_curves import SCALAR, AffineCurve, Curve, TableCurve, check_seconds
from lightspec_bench.latency_roofline import H200, QWEN3_14B, QWEN3_14B_EAGLE3, Device, ModelShape, RooflineCurve

__all__ = [
    "H200",
    "ORIGINS",
    "QWEN3_14B",
    "QWEN3_14B_EAGLE3",
    "VLLM_49548_TPOT_MS",
    "AffineCurve",
    "Device",
    "HostCost",
    "LinearLatency",
    "ModelShape",
    "RooflineCurve",
    "RooflineLatency",
    "TableCurve",
    "TableLatency",
    "vllm_49548",
]

Lines: TypeAlias = tuple[FloatArray, FloatArray]  # seconds at no context and per context token, by number of rows
ORIGINS = ("measured", "modelled", "quoted")
# TPOT (ms) of plain decoding and of a dynamic engine that never drafts, by concurrency: H100 NVL, gemma-4-31B FP8.
VLLM_49548_TPOT_MS = {2: (14.374, 15.317), 189: (77.164, 93.820)}


@dataclass(frozen=True, slots=True)
class HostCost:
    """Host seconds per step and per running request; the `drafter_*` terms only where a drafter is loaded.

    A loaded drafter costs the host something even at depth 0, so depth 0 and no speculation are different prices.
    """

    step_s: float = 0.0
    request_s: float = 0.0
    drafter_step_s: float = 0.0
    drafter_request_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("step_s", "request_s", "drafter_step_s", "drafter_request_s"):
            check_seconds(f"host {name}", getattr(self, name))

    def seconds(self, num_requests: Number, speculating: bool) -> float | FloatArray:
        step, request = self.step_s, self.request_s
        if speculating:
            step, request = step + self.drafter_step_s, request + self.drafter_request_s
        if isinstance(num_requests, SCALAR):
            return step + request * float(num_requests)
        return np.asarray(step + request * num_requests, dtype=np.float64)


def vllm_49548(host: HostCost) -> HostCost:
    """`host` with the drafter terms that vllm#49548 (comment of 2026-08-24) measured for a schedule that never drafts.

    The line through both differences of `VLLM_49548_TPOT_MS`. They hold whatever the idle drafter does, its pass over
    the step's rows included, so on top of a priced pass they are an upper bound.
    """
    (low, (low_off, low_on)), (high, (high_off, high_on)) = VLLM_49548_TPOT_MS.items()
    per_request_ms = ((high_on - high_off) - (low_on - low_off)) / (high - low)
    step_ms = (low_on - low_off) - low * per_request_ms
    return replace(host, drafter_step_s=step_ms / 1e3, drafter_request_s=per_request_ms / 1e3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Latency:
    """The terms that all kinds share; `sampling_row_s` and `draft_sampling_row_s` are paid per row of a pass."""

    name: str
    origin: str
    source: str
    target: Curve
    draft: Curve | None = None
    host: HostCost = field(default_factory=HostCost)
    sampling_row_s: float = 0.0
    draft_sampling_row_s: float = 0.0

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise BenchError(f"latency {self.name}: origin is {self.origin!r}, expected one of {', '.join(ORIGINS)}")
        for name in ("sampling_row_s", "draft_sampling_row_s"):
            check_seconds(f"latency {self.name}: {name}", getattr(self, name))

    @property
    def graph_sizes(self) -> IntArray:
        """Captured row counts of the target, ascending; empty where nothing is captured."""
        return self.target.graph_sizes

    def verify_s(self, num_target_tokens: Number, num_requests: Number, num_context_tokens: Number) -> FloatArray:
        """Seconds of one target forward over that many rows, sampling included."""
        cost = self.target.seconds(num_target_tokens, num_requests, num_context_tokens)
        return _float64(cost + self.sampling_row_s * num_target_tokens, num_requests)

    def draft_pass_s(self, num_rows: Number, num_context_tokens: Number) -> FloatArray:
        """Seconds of one drafter forward over that many rows. `BenchError` where the model prices no drafter."""
        if self.draft is None:
            raise BenchError(f"latency {self.name}: no cost of a drafter pass, expected a draft part")
        cost = self.draft.seconds(num_rows, self._draft_requests(num_rows), num_context_tokens)
        return _float64(cost + self.draft_sampling_row_s * num_rows)

    def verify_lines(self, num_target_tokens: IntArray) -> Lines | None:
        """`verify_s` as lines in the context tokens; None where it is no such line, or depends on the requests."""
        return _lines(self.target, num_target_tokens, self.sampling_row_s)

    def draft_lines(self, num_rows: IntArray) -> Lines | None:
        """`draft_pass_s` as lines in the context tokens; None where it is no such line, or drafting has no price."""
        return None if self.draft is None else _lines(self.draft, num_rows, self.draft_sampling_row_s)

    def host_s(self, num_requests: Number, speculating: bool) -> FloatArray:
        """Host seconds of a step of that many requests, with or without a drafter loaded."""
        return _float64(self.host.seconds(num_requests, speculating))

    def _draft_requests(self, num_rows: Number) -> Number:
        return num_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableLatency(_Latency):
    """Measured sizes: a staircase up to the largest captured size, an interpolated curve above it (`TableCurve`)."""

    target: TableCurve


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearLatency(_Latency):
    """`fixed + per row + per context token` (`AffineCurve`): a published fit; nothing is captured."""

    target: AffineCurve


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RooflineLatency(_Latency):
    """Constants of a model and a device (`RooflineCurve`).

    A drafter pass is not told its requests: it is taken to hold as many as it has rows, `max_num_seqs` at most. The
    float32 logits are part of the curve, so `sampling_row_s` is for anything beyond them.
    """

    target: RooflineCurve
    max_num_seqs: int = 256

    def __post_init__(self) -> None:
        # super() without arguments does not survive the class that slots=True makes anew.
        _Latency.__post_init__(self)
        if self.max_num_seqs < 1:
            raise BenchError(f"latency {self.name}: max_num_seqs is {self.max_num_seqs}, expected at least 1")

    def _draft_requests(self, num_rows: Number) -> Number:
        if isinstance(num_rows, SCALAR):
            return min(float(num_rows), self.max_num_seqs)
        return np.minimum(num_rows, self.max_num_seqs)


def _lines(curve: Curve, rows: IntArray, sampling_row_s: float) -> Lines | None:
    if not isinstance(curve, (AffineCurve, TableCurve)):
        return None
    base, per_token = curve.lines(rows)
    return base + sampling_row_s * rows, per_token


def _float64(cost: Any, broadcast: Any = None) -> FloatArray:
    """A float64 scalar or array of the common shape; NumPy's scalars are arrays of no dimension to every caller."""
    if isinstance(broadcast, np.ndarray):
        cost = cost + np.zeros(broadcast.shape)
    if isinstance(cost, np.ndarray) and cost.ndim:  # NumPy before 2.4 makes a scalar of an array of one entry
        return cost.astype(np.float64, copy=False)
    return cast(FloatArray, np.float64(cost))
