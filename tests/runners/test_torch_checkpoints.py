"""Heads on disk: our own folders, and the published layouts, on small random files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

from lightspec_bench.core import BenchError  # noqa: E402
from lightspec_bench.runners.torch_checkpoints import load_head, save_head, shipped_heads  # noqa: E402
from lightspec_bench.runners.torch_head_kinds import PublishedEagle3Head  # noqa: E402
from tests.runners import torch_tiny as tiny  # noqa: E402

SIZE, VOCAB, DRAFT_VOCAB = 16, 40, 10


def published(prefix: str, **more: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """Random weights of the EAGLE-3 layout: 2 heads of 8, 1 key head, 3 tapped layers."""
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (SIZE, 3 * SIZE),
        f"{prefix}.input_layernorm.weight": (SIZE,),
        f"{prefix}.hidden_norm.weight": (SIZE,),
        f"{prefix}.post_attention_layernorm.weight": (SIZE,),
        f"{prefix}.self_attn.q_proj.weight": (SIZE, 2 * SIZE),
        f"{prefix}.self_attn.k_proj.weight": (8, 2 * SIZE),
        f"{prefix}.self_attn.v_proj.weight": (8, 2 * SIZE),
        f"{prefix}.self_attn.o_proj.weight": (SIZE, SIZE),
        f"{prefix}.mlp.gate_proj.weight": (24, SIZE),
        f"{prefix}.mlp.up_proj.weight": (24, SIZE),
        f"{prefix}.mlp.down_proj.weight": (SIZE, 24),
        "norm.weight": (SIZE,),
        "lm_head.weight": (DRAFT_VOCAB, SIZE),
        **more,
    }
    torch.manual_seed(0)
    weights = {name: torch.randn(shape) for name, shape in shapes.items()}
    ids = torch.arange(DRAFT_VOCAB) * 3
    return {**weights, "d2t": ids - torch.arange(DRAFT_VOCAB), "t2d": torch.isin(torch.arange(VOCAB), ids)}


LAYER = {
    "hidden_size": SIZE, "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "vocab_size": VOCAB,
}  # fmt: skip
EAGLE3 = {**LAYER, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": DRAFT_VOCAB}
SPECULATORS: dict[str, Any] = {
    "speculators_model_type": "eagle3",
    "draft_vocab_size": DRAFT_VOCAB,
    "norm_before_residual": True,
    "eagle_aux_hidden_state_layer_ids": [2, 3, 6],
    "transformer_layer_config": {**LAYER, "model_type": "llama"},
    "speculators_config": {"verifier": {"name_or_path": "acme/target-8b"}},
}


def folder(path: Path, config: dict[str, Any], weights: dict[str, torch.Tensor]) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    safetensors.save_file(weights, path / "model.safetensors")
    return path


@pytest.mark.parametrize("kind", ["eagle", "parallel"])
@pytest.mark.parametrize(("num_bits", "error"), [(16, 1e-3), (8, 5e-3)])
def test_our_own_heads_come_back_as_they_were(kind: str, num_bits: int, error: float, tmp_path: Path) -> None:
    head = tiny.head(kind)
    save_head(head, tmp_path / "head", {"seconds": 1.5}, num_bits)
    found = load_head(tmp_path / "head")
    assert found.settings == head.settings
    assert json.loads((tmp_path / "head" / "training.json").read_text()) == {"seconds": 1.5}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["head"]
    for name, weight in head.state_dict().items():
        bound = error * max(1.0, float(weight.abs().max()))
        torch.testing.assert_close(found.state_dict()[name], weight, atol=bound, rtol=0)


def test_int8_takes_about_half_the_room(tmp_path: Path) -> None:
    head = tiny.head("eagle", intermediate_size=512)
    sizes = []
    for num_bits in (8, 16):
        save_head(head, tmp_path / str(num_bits), num_bits=num_bits)
        sizes.append((tmp_path / str(num_bits) / "model.safetensors").stat().st_size)
    assert sizes[0] < 0.65 * sizes[1]


def test_a_published_eagle3_head(tmp_path: Path) -> None:
    weights = published("midlayer")
    head = load_head(folder(tmp_path / "eagle3", EAGLE3, weights), num_target_layers=32)
    assert isinstance(head, PublishedEagle3Head)
    assert head.settings.taps == (2, 16, 29)
    assert head.settings.rope == {"rope_type": "default", "rope_theta": 500000.0}
    assert head.draft_token_ids.tolist() == list(range(0, 30, 3))
    assert not head.settings.norm_before_residual
    assert torch.equal(head.layer.q_proj.weight, weights["midlayer.self_attn.q_proj.weight"])
    assert torch.equal(head.embedding_norm.weight, weights["midlayer.input_layernorm.weight"])


def test_one_step_of_the_published_layout_by_hand(tmp_path: Path) -> None:
    """One entry sees itself only, so attention is its value: residual + o(v), then + MLP, then norm and output."""
    weights = published("midlayer")
    head = load_head(folder(tmp_path / "eagle3", EAGLE3, weights), num_target_layers=32)
    assert isinstance(head, PublishedEagle3Head)
    taps, embedding = torch.randn(1, 3, SIZE), torch.randn(1, SIZE)

    def norm(hidden: torch.Tensor, name: str) -> torch.Tensor:
        return hidden / (hidden.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weights[name]

    def times(hidden: torch.Tensor, name: str) -> torch.Tensor:
        return hidden @ weights[f"midlayer.{name}_proj.weight"].T

    feature = taps.flatten(1) @ weights["fc.weight"].T
    both = [norm(embedding, "midlayer.input_layernorm.weight"), norm(feature, "midlayer.hidden_norm.weight")]
    value = times(torch.cat(both, -1), "self_attn.v")
    hidden = feature + times(value.repeat(1, 2), "self_attn.o")
    normed = norm(hidden, "midlayer.post_attention_layernorm.weight")
    gate = torch.nn.functional.silu(times(normed, "mlp.gate"))
    hidden = hidden + times(gate * times(normed, "mlp.up"), "mlp.down")
    logits = norm(hidden, "norm.weight") @ weights["lm_head.weight"].T

    rotary = torch.stack((torch.ones(1, 8), torch.zeros(1, 8)), dim=1)
    output = head(head.fuse(taps), embedding, rotary, lambda query, key, value: value.repeat_interleave(2, dim=1))
    torch.testing.assert_close(head.logits(output, torch.empty(0)), logits)


def test_a_speculators_head(tmp_path: Path) -> None:
    weights = published("layers.0", **{"embed_tokens.weight": (VOCAB, SIZE), "layers.0.self_attn.q_norm.weight": (8,)})
    weights["layers.0.self_attn.k_norm.weight"] = torch.ones(8)
    head = load_head(folder(tmp_path / "speculator", SPECULATORS, weights))
    assert isinstance(head, PublishedEagle3Head)
    assert (head.settings.taps, head.settings.target) == ((2, 3, 6), "acme/target-8b")
    assert head.settings.norm_before_residual
    assert head.settings.qk_norm
    assert head.embed_tokens is not None
    assert torch.equal(head.embed_tokens.weight, weights["embed_tokens.weight"])


@pytest.mark.parametrize(
    ("config", "change", "sentence"),
    [
        ({**SPECULATORS, "speculators_model_type": "dflash"}, {}, "a Speculators head of type 'dflash'"),
        (SPECULATORS, {"layers.1.mlp.up_proj.weight": (24, SIZE)}, "weight 'layers.1.mlp.up_proj.weight' is not of"),
        (SPECULATORS, {"norm.weight": (SIZE + 1,)}, r"weight norm.weight has shape \(17,\), expected \(16,\)"),
        (SPECULATORS, {"fc.bias": (SIZE,)}, "weight fc.bias is not part of this kind of head"),
        (SPECULATORS, {"fc.weight": (SIZE, 2 * SIZE)}, "fc.weight reads 2 hidden states"),
    ],
)
def test_what_does_not_match_is_refused_in_one_sentence(
    config: dict[str, Any], change: dict[str, tuple[int, ...]], sentence: str, tmp_path: Path
) -> None:
    weights = published("layers.0", **change)
    with pytest.raises(BenchError, match=sentence):
        load_head(folder(tmp_path / "head", config, weights))


def test_missing_parts_are_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"no folder with a config\.json, expected one or a shipped head"):
        load_head(tmp_path / "nowhere")
    weights = published("midlayer")
    del weights["norm.weight"]
    with pytest.raises(BenchError, match=r"weight norm.weight is missing"):
        load_head(folder(tmp_path / "no-norm", EAGLE3, weights), 32)
    with pytest.raises(BenchError, match="does not name the layers it reads, so the target's depth must be given"):
        load_head(folder(tmp_path / "no-depth", EAGLE3, published("midlayer")))
    with pytest.raises(BenchError, match="not an EAGLE-3 head"):
        load_head(folder(tmp_path / "other", EAGLE3, {"norm.weight": torch.ones(SIZE)}), 32)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "config.json").write_text(json.dumps(EAGLE3))
    (tmp_path / "bin" / "pytorch_model.bin").touch()
    with pytest.raises(BenchError, match="convert it to safetensors first"):
        load_head(tmp_path / "bin", 32)


@pytest.mark.parametrize("name", shipped_heads())
def test_shipped_heads_load_and_are_small(name: str) -> None:
    head = load_head(name)
    assert head.settings.target == "smollm2-135m-instruct"
    size = sum(weight.numel() for weight in head.parameters())
    assert 1_000_000 < size < 10_000_000
