"""Draft heads with random weights, in the shape a trained one would have: for measuring what drafting costs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from lightspec_bench.runners.torch_checkpoints import save_head
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_eagle import EagleDrafter
from lightspec_bench.runners.torch_head_kinds import build_head
from lightspec_bench.runners.torch_heads import HeadKind, HeadSettings
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_parallel import ParallelDrafter

DRAFT_VOCABULARY = 32000  # what published EAGLE-3 heads have
RANK = 128


def dummy_drafter(kind: HeadKind, target: TorchModel, max_draft_tokens: int = 8, seed: int = 0) -> TorchDrafter:
    """An `eagle` or `parallel` drafter with random weights: one decoder layer of the target's shape, hidden states of
    three layers as EAGLE-3 taps them, a draft vocabulary of 32,000. What it proposes means nothing."""
    torch.manual_seed(seed)
    head = build_head(_settings(kind, target, max_draft_tokens))
    head.draft_token_ids.copy_(torch.arange(head.settings.draft_vocab_size))  # type: ignore[operator]
    with tempfile.TemporaryDirectory(prefix="lightspec-bench-") as folder:
        place = Path(folder) / f"random {kind} head"
        save_head(head, place, num_bits=16)
        del head
        if kind == "parallel":
            return ParallelDrafter(place, max_draft_tokens)
        return EagleDrafter(place, max_draft_tokens)


def _settings(kind: HeadKind, target: TorchModel, max_draft_tokens: int) -> HeadSettings:
    config, layers = target.config, target.num_layers
    heads = int(config.num_attention_heads)
    rope = dict(getattr(config, "rope_parameters", None) or {})
    rope.setdefault("rope_type", "default")
    rope.setdefault("rope_theta", float(getattr(config, "rope_theta", 10000.0)))
    return HeadSettings(
        kind=kind,
        target=target.name,
        taps=tuple(sorted({min(2, layers), max(layers // 2, 1), max(layers - 3, 1)})),
        hidden_size=target.hidden_size,
        target_hidden_size=target.hidden_size,
        intermediate_size=int(config.intermediate_size),
        num_heads=heads,
        num_kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        head_dim=int(getattr(config, "head_dim", None) or target.hidden_size // heads),
        draft_vocab_size=min(DRAFT_VOCABULARY, target.vocab_size),
        rope=rope,
        num_slots=max_draft_tokens,
        rank=RANK,
    )
