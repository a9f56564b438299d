"""What draft heads are made of: their settings, norms, rotary tables and one Llama-style decoder layer.

Shapes: (..., H) hidden states; a layer is told how to attend, so that training and serving share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from lightspec_bench.core import BenchError

HeadKind = Literal["eagle", "parallel", "eagle3"]
HEAD_KINDS = ("eagle", "parallel", "eagle3")
# query, key and value (..., heads, head_dim) -> (..., heads, head_dim)
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """A head's shape. `kind`: eagle and parallel are ours, eagle3 the published layout.

    `taps` are hidden states of the target (i: the output of decoder layer i, before the final norm);
    `num_slots` and `rank` belong to parallel heads. `rope` holds transformers' rope parameters.
    """

    kind: HeadKind
    target: str
    taps: tuple[int, ...]
    hidden_size: int
    target_hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    draft_vocab_size: int
    rms_norm_eps: float = 1e-5
    rope: dict[str, Any] = field(default_factory=lambda: {"rope_type": "default", "rope_theta": 10000.0})
    num_slots: int = 1
    rank: int = 0
    attention_bias: bool = False
    qk_norm: bool = False
    norm_before_residual: bool = False
    norm_before_fc: bool = False

    def __post_init__(self) -> None:
        if self.kind not in HEAD_KINDS:
            raise BenchError(f"head kind is {self.kind!r}, expected one of {', '.join(HEAD_KINDS)}")
        for name in ("hidden_size", "intermediate_size", "num_heads", "num_kv_heads", "head_dim", "draft_vocab_size"):
            if getattr(self, name) < 1:
                raise BenchError(f"head: {name} is {getattr(self, name)}, expected at least 1")
        if self.num_heads % self.num_kv_heads:
            raise BenchError(f"head: num_heads is {self.num_heads}, expected a multiple of {self.num_kv_heads}")
        if not self.taps or min(self.taps) < 0:
            raise BenchError(f"head: taps are {self.taps}, expected at least one, none below 0")


class RmsNorm(nn.Module):
    """Root-mean-square norm, computed in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, hidden: Tensor) -> Tensor:
        wide = hidden.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * self.weight).to(hidden.dtype)


def rotary_table(settings: HeadSettings, length: int) -> Tensor:
    """Cosines and sines of positions 0..length - 1, (length, 2, head_dim) in float32."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=settings.num_heads * settings.head_dim,
        num_attention_heads=settings.num_heads,
        head_dim=settings.head_dim,
        max_position_embeddings=max(length, int(settings.rope.get("original_max_position_embeddings", 1))),
        rope_parameters=dict(settings.rope),
    )
    positions = torch.arange(length)[None]
    cosine, sine = LlamaRotaryEmbedding(config)(torch.zeros(1), positions)
    return torch.stack((cosine[0], sine[0]), dim=1)


def rotate(heads: Tensor, rotary: Tensor) -> Tensor:
    """Rotate (..., heads, head_dim) by the rotary rows (..., 2, head_dim) of their positions."""
    cosine, sine = rotary[..., None, 0, :].to(heads.dtype), rotary[..., None, 1, :].to(heads.dtype)
    first, second = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat((-second, first), dim=-1) * sine


class DraftLayer(nn.Module):
    """One decoder layer: grouped-query attention over what `attend` remembers, and a gated MLP."""

    def __init__(self, settings: HeadSettings, input_size: int | None = None) -> None:
        super().__init__()
        size, dim = settings.hidden_size, settings.head_dim
        self.shape = settings.num_heads, settings.num_kv_heads, dim
        entry, bias = input_size or size, settings.attention_bias
        self.q_proj = nn.Linear(entry, settings.num_heads * dim, bias=bias)
        self.k_proj = nn.Linear(entry, settings.num_kv_heads * dim, bias=bias)
        self.v_proj = nn.Linear(entry, settings.num_kv_heads * dim, bias=bias)
        self.o_proj = nn.Linear(settings.num_heads * dim, size, bias=bias and not settings.qk_norm)
        self.post_attention_norm = RmsNorm(size, settings.rms_norm_eps)
        self.gate_proj = nn.Linear(size, settings.intermediate_size, bias=False)
        self.up_proj = nn.Linear(size, settings.intermediate_size, bias=False)
        self.down_proj = nn.Linear(settings.intermediate_size, size, bias=False)
        self.q_norm = RmsNorm(dim, settings.rms_norm_eps) if settings.qk_norm else None
        self.k_norm = RmsNorm(dim, settings.rms_norm_eps) if settings.qk_norm else None

    def key_value(self, entry: Tensor, rotary: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (..., kv heads, head_dim) of normed inputs (..., input_size)."""
        _, kv_heads, dim = self.shape
        key = self.k_proj(entry).unflatten(-1, (kv_heads, dim))
        value = self.v_proj(entry).unflatten(-1, (kv_heads, dim))
        return rotate(key if self.k_norm is None else self.k_norm(key), rotary), value

    def forward(self, residual: Tensor, entry: Tensor, rotary: Tensor, attend: Attend) -> Tensor:
        """`residual` (..., H) runs past attention, `entry` (its normed form, or a wider input) goes into it."""
        heads, _, dim = self.shape
        query = self.q_proj(entry).unflatten(-1, (heads, dim))
        query = rotate(query if self.q_norm is None else self.q_norm(query), rotary)
        key, value = self.key_value(entry, rotary)
        hidden = residual + self.o_proj(attend(query, key, value).flatten(-2))
        normed = self.post_attention_norm(hidden)
        return hidden + self.down_proj(silu(self.gate_proj(normed)) * self.up_proj(normed))  # type: ignore[no-any-return]
