"""A trained chain head of ours as a folder that vLLM loads with method `eagle3`, where this plug-in is installed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lightspec_bench.core import BenchError
from lightspec_bench.runners.torch_checkpoints import load_head
from lightspec_bench.runners.torch_head_kinds import EagleHead

ARCHITECTURE = "Eagle3LightspecForCausalLM"
_NAMES = {"fusion.": "", "input_norm.": "layers.0.input_layernorm.", "layer.": "layers.0."}
_INSIDE = {"post_attention_norm.": "post_attention_layernorm."}
_ATTENTION, _MLP = ("q_proj.", "k_proj.", "v_proj.", "o_proj."), ("gate_proj.", "up_proj.", "down_proj.")


def register_head() -> None:
    """Tell vLLM of the architecture; its module is imported when a model of it is loaded."""
    from vllm import ModelRegistry

    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, f"lightspec_bench.runners.vllm_eagle:{ARCHITECTURE}")


def export_head(name: str | Path, target: Path, out: Path) -> Path:
    """Write the head `name` (one that ships, or a folder) for the checkpoint in `target`; whole or not at all.

    Raises `BenchError` for a head of another kind or another target.
    """
    from safetensors.torch import save_file

    head = load_head(name)
    if not isinstance(head, EagleHead):
        raise BenchError(f"{name}: a head of kind {head.settings.kind}, expected eagle")
    settings = json.loads((target / "config.json").read_text(encoding="utf-8"))
    if (
        head.settings.target_hidden_size != settings["hidden_size"]
        or head.settings.hidden_size != settings["hidden_size"]
    ):
        raise BenchError(
            f"{name}: hidden size {head.settings.hidden_size} for a target of {head.settings.target_hidden_size}, "
            f"expected {settings['hidden_size']}, as {target} has"
        )
    work = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    work.mkdir(parents=True)
    try:
        save_file(_weights(head, _output_rows(target)), work / "model.safetensors")
        text = json.dumps(_config(head, settings), indent=2)
        (work / "config.json").write_text(text + "\n", encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        work.rename(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out


def _output_rows(target: Path) -> Tensor:
    """(V, H): the target's output matrix, or its embedding where the two are one."""
    from safetensors import safe_open

    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        for path in sorted(target.glob("*.safetensors")):
            with safe_open(path, framework="pt") as file:
                if name in file.keys():  # noqa: SIM118 (no mapping)
                    rows: Tensor = file.get_tensor(name)
                    return rows
    raise BenchError(f"{target}: no output matrix, expected a safetensors checkpoint")


def _weights(head: EagleHead, output_rows: Tensor) -> dict[str, Tensor]:
    ids: Tensor = head.draft_token_ids  # type: ignore[assignment]
    weights = {
        _renamed(name): tensor.float().contiguous()
        for name, tensor in head.state_dict().items()
        if name != "draft_token_ids"
    }
    weights["lm_head.weight"] = output_rows[ids].float().contiguous()
    weights["d2t"] = ids - torch.arange(len(ids))
    return weights


def _renamed(name: str) -> str:
    for prefix, instead in _NAMES.items():
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            for inside, of in _INSIDE.items():
                rest = rest.replace(inside, of)
            group = "self_attn." if rest.startswith(_ATTENTION) else "mlp." if rest.startswith(_MLP) else ""
            return instead + group + rest if prefix == "layer." else instead + rest
    return name


def _config(head: EagleHead, target: dict[str, Any]) -> dict[str, Any]:
    settings = head.settings
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "hidden_size": settings.hidden_size,
        "intermediate_size": settings.intermediate_size,
        "num_attention_heads": settings.num_heads,
        "num_key_value_heads": settings.num_kv_heads,
        "head_dim": settings.head_dim,
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "rms_norm_eps": settings.rms_norm_eps,
        "rope_parameters": dict(settings.rope),
        "max_position_embeddings": target["max_position_embeddings"],
        "vocab_size": target["vocab_size"],
        "draft_vocab_size": settings.draft_vocab_size,
        "eagle_aux_hidden_state_layer_ids": list(settings.taps),
        "num_aux_hidden_states": len(settings.taps),
        "tie_word_embeddings": False,
        "dtype": "float32",
    }
