"""Tiny targets and heads with random weights, shared by the tests of heads."""

from __future__ import annotations

from typing import Any

import torch

from lightspec_bench.core import BenchError as BenchError
from lightspec_bench.runners.torch_head_kinds import EagleHead, ParallelHead, build_head
from lightspec_bench.runners.torch_heads import HeadSettings
from lightspec_bench.runners.torch_model import TorchModel

VOCAB, SIZE, LAYERS = 50, 24, 4


def llama(seed: int = 0, **changes: Any) -> Any:
    """A LlamaForCausalLM of a few thousand weights, in float32."""
    from transformers import LlamaConfig, LlamaForCausalLM

    settings: dict[str, Any] = {
        "vocab_size": VOCAB, "hidden_size": SIZE, "intermediate_size": 32, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 128,
        "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
        "initializer_range": 0.5,
    }  # fmt: skip
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(**{**settings, **changes})).eval()


def target(seed: int = 0) -> TorchModel:
    return TorchModel(llama(seed), "tiny")


def head(kind: str, seed: int = 0, **changes: Any) -> EagleHead | ParallelHead:
    """A head for the tiny target; its draft vocabulary leaves out every fifth token."""
    ids = torch.tensor([token for token in range(VOCAB) if token % 5])
    settings: dict[str, Any] = {
        "kind": kind, "target": "tiny", "taps": (1, 2, LAYERS), "hidden_size": SIZE, "target_hidden_size": SIZE,
        "intermediate_size": 16, "num_heads": 4, "num_kv_heads": 2, "head_dim": 8, "draft_vocab_size": len(ids),
        "num_slots": 5, "rank": 6,
    }  # fmt: skip
    torch.manual_seed(seed)
    made = build_head(HeadSettings(**{**settings, **changes}))
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
        made.draft_token_ids.copy_(ids)  # type: ignore[operator]
    return made.eval()
