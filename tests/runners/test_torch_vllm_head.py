"""A chain head in vLLM's layout: names, draft vocabulary and output rows, and signals of its logits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lightspec_bench.core import BenchError
from lightspec_bench.runners.torch_checkpoints import save_head
from lightspec_bench.runners.vllm_eagle_layout import export_head
from lightspec_bench.runners.vllm_signals import Signals, by_request, signals
from tests.runners.torch_tiny import LAYERS, SIZE, head, llama


@pytest.fixture
def target(tmp_path: Path) -> Path:
    llama().save_pretrained(tmp_path / "target")
    return tmp_path / "target"


def test_a_head_is_written_as_vllm_names_it(tmp_path: Path, target: Path) -> None:
    made = head("eagle")
    save_head(made, tmp_path / "ours", num_bits=32)
    weights = load_file(export_head(tmp_path / "ours", target, tmp_path / "theirs") / "model.safetensors")
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert config["eagle_aux_hidden_state_layer_ids"] == [1, 2, LAYERS]
    assert config["architectures"] == ["Eagle3LightspecForCausalLM"]
    assert sorted(weights) == [
        "d2t", "embedding_norm.weight", "fc.weight", "feature_norm.weight", "layers.0.input_layernorm.weight",
        "layers.0.mlp.down_proj.weight", "layers.0.mlp.gate_proj.weight", "layers.0.mlp.up_proj.weight",
        "layers.0.post_attention_layernorm.weight", "layers.0.self_attn.k_proj.weight",
        "layers.0.self_attn.o_proj.weight", "layers.0.self_attn.q_proj.weight", "layers.0.self_attn.v_proj.weight",
        "lm_head.weight", "mix.weight", "norm.weight", "tap_norms.0.weight", "tap_norms.1.weight",
        "tap_norms.2.weight",
    ]  # fmt: skip
    ids = torch.arange(len(weights["d2t"])) + weights["d2t"]
    torch.testing.assert_close(ids, made.draft_token_ids)
    torch.testing.assert_close(weights["lm_head.weight"], llama().model.embed_tokens.weight[ids].detach())
    assert weights["fc.weight"].shape == (SIZE, 3 * SIZE)


def test_heads_that_do_not_fit_are_refused(tmp_path: Path, target: Path) -> None:
    save_head(head("parallel"), tmp_path / "parallel")
    with pytest.raises(BenchError, match="a head of kind parallel, expected eagle"):
        export_head(tmp_path / "parallel", target, tmp_path / "out")
    llama(hidden_size=32).save_pretrained(tmp_path / "wide")
    save_head(head("eagle"), tmp_path / "eagle")
    with pytest.raises(BenchError, match=f"hidden size {SIZE} for a target of {SIZE}, expected 32, as"):
        export_head(tmp_path / "eagle", tmp_path / "wide", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_signals_are_of_the_distribution_and_not_of_a_token() -> None:
    inf = float("inf")
    confidence, entropy = signals(torch.tensor([[0.0, 0.0, -inf], [5.0, -inf, -inf]]))
    torch.testing.assert_close(confidence, torch.tensor([0.5, 1.0]))
    torch.testing.assert_close(entropy, torch.tensor([0.6931472, 0.0]))


def test_signals_by_request_of_several_passes_or_of_one() -> None:
    class Drafter:
        class model:
            @staticmethod
            def compute_logits(rows: torch.Tensor) -> torch.Tensor:
                return rows

    drafter = Drafter()
    drafter.model = Drafter.model()  # type: ignore[misc,assignment]
    watched = Signals(drafter)
    sure, unsure = torch.tensor([9.0, -99.0]), torch.tensor([1.0, 1.0])
    drafter.model.compute_logits(torch.stack((sure, unsure)))
    assert watched.take() == []  # nobody asked
    watched.wanted = True
    watched.begin()
    drafter.model.compute_logits(torch.stack((sure, unsure)))
    drafter.model.compute_logits(torch.stack((unsure, unsure)))
    found = by_request(watched.take(), 2)
    assert found is not None
    torch.testing.assert_close(found[0], torch.tensor([[1.0, 0.5], [0.5, 0.5]]))
    drafter.model.compute_logits(torch.stack((sure, unsure, unsure, sure)))
    found = by_request(watched.take(), 2)
    assert found is not None
    torch.testing.assert_close(found[0], torch.tensor([[1.0, 0.5], [0.5, 1.0]]))
    assert by_request([], 2) is None
