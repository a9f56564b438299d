"""Roofline: the cost of a forward pass from the constants of a dense transformer and of a device.

    T(B, N, C) = hyp(W / bw, F B / peak)                    weights of the layers and the output matrix
               + hyp(kv C / bw, B a C / (N peak_attention)) KV cache of C context tokens, read once per request
               + layers (layer_s + layer_row_s B) + pass_s  kernels that are neither
               + logits_passes * 4 bytes * vocab * B / bw   float32 logits of the sampler
    hyp(x, y) = sqrt(x^2 + y^2)

B rows, N requests, C context tokens summed over them; W bytes of weights, F = 2 FLOP per weight and row, kv bytes of
cache per token, a FLOP of attention per row and context token. hyp fits the per-layer GEMMs that microsoft/vidur
measured on an H100 (d = 5120) within 6 % at 2.75 TB/s and 730 TFLOP/s. Mixtures of experts are not priced.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from lightspec_bench.core import BenchError, FloatArray, IntArray, Number
from lightspec_bench.latency_curves import NO_SIZES, SCALAR, check_seconds


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A dense decoder with grouped-query attention and a gated feed-forward, or a drafter made of such layers.

    `input_multiple` widens the input of the q, k and v projections (2 for EAGLE3, which reads token and feature).
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    input_multiple: int = 1
    weight_bytes: float = 2.0
    kv_bytes: float = 2.0

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if not getattr(self, name) > 0:
                raise BenchError(f"model shape: {name} is {getattr(self, name)}, expected above 0")

    @property
    def num_weights(self) -> int:
        """Weights that every row multiplies: all layers and the output matrix."""
        attention = self.num_heads * self.head_dim
        qkv = self.input_multiple * self.hidden_size * (attention + 2 * self.num_kv_heads * self.head_dim)
        layer = qkv + attention * self.hidden_size + 3 * self.hidden_size * self.ffn_size
        return self.num_layers * layer + self.hidden_size * self.vocab_size

    @property
    def kv_bytes_per_token(self) -> float:
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.kv_bytes

    @property
    def attention_flop(self) -> int:
        """FLOP of one row against one context token: two products of all heads."""
        return 4 * self.num_layers * self.num_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class Device:
    """What a device reaches in practice: bytes/s, FLOP/s of matrices and of attention, and small kernels."""

    bandwidth: float
    peak_flops: float
    attention_flops: float
    layer_s: float = 0.0
    layer_row_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("bandwidth", "peak_flops", "attention_flops"):
            if not 0 < getattr(self, name) < float("inf"):
                raise BenchError(f"device: {name} is {getattr(self, name)}, expected above 0")
        check_seconds("layer_s", self.layer_s)
        check_seconds("layer_row_s", self.layer_row_s)


@dataclass(frozen=True, slots=True, eq=False)
class RooflineCurve:
    """The formula above. With `graph_sizes`, rows are padded to the next captured size; attention is not."""

    shape: ModelShape
    device: Device
    pass_s: float = 0.0
    logits_passes: float = 4.0
    graph_sizes: IntArray = field(default_factory=lambda: NO_SIZES)
    _factors: tuple[float, ...] = field(init=False, repr=False)
    _sizes: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_seconds("pass_s", self.pass_s)
        check_seconds("logits_passes", self.logits_passes)
        object.__setattr__(self, "_factors", self._seconds_per_unit())
        object.__setattr__(self, "_sizes", self.graph_sizes.tolist())

    def _seconds_per_unit(self) -> tuple[float, ...]:
        shape, device = self.shape, self.device
        return (
            shape.num_weights * shape.weight_bytes / device.bandwidth,
            2 * shape.num_weights / device.peak_flops,
            shape.kv_bytes_per_token / device.bandwidth,
            shape.attention_flop / device.attention_flops,
            shape.num_layers * device.layer_s + self.pass_s,
            shape.num_layers * device.layer_row_s + self.logits_passes * 4 * shape.vocab_size / device.bandwidth,
        )

    def seconds(self, rows: Number, requests: Number, context: Number) -> float | FloatArray:
        read, multiply, read_kv, attend, fixed, per_row = self._factors
        if isinstance(rows, SCALAR) and isinstance(requests, SCALAR) and isinstance(context, SCALAR):
            padded: Number = self._pad_scalar(float(rows))
            rows, context, requests = float(rows), float(context), max(float(requests), 1.0)
        else:
            rows, context, requests = np.asarray(rows), np.asarray(context), np.maximum(requests, 1)
            padded = self._pad(rows)
        matrices = (read**2 + (multiply * padded) ** 2) ** 0.5
        attention = context * (read_kv**2 + (attend * rows / requests) ** 2) ** 0.5
        return matrices + attention + fixed + per_row * padded

    def _pad(self, rows: IntArray | FloatArray) -> FloatArray | IntArray:
        if not self._sizes:
            return rows
        at = np.minimum(np.searchsorted(self.graph_sizes, rows), len(self._sizes) - 1)
        return np.maximum(self.graph_sizes[at], rows)

    def _pad_scalar(self, rows: float) -> float:
        at = bisect_left(self._sizes, rows)
        return self._sizes[at] if at < len(self._sizes) else rows


QWEN3_14B = ModelShape(40, 5120, 40, 8, 128, 17408, 151936)
# One layer whose q, k and v read twice the width, and a vocabulary of 32,000 draft tokens.
QWEN3_14B_EAGLE3 = ModelShape(1, 5120, 40, 8, 128, 17408, 32000, input_multiple=2)
# 4.8 TB/s on the datasheet, 4.3 measured as a copy; the effective figures are an assumption.
H200 = Device(bandwidth=4.0e12, peak_flops=730e12, attention_flops=250e12, layer_s=12e-6, layer_row_s=0.08e-6)
