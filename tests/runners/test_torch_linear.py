"""Packed linear layers: the same products, in bfloat16 on processors that have them, and nowhere else."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from lightspec_bench.runners.torch_linear import PackedLinear, can_pack, pack_linears
from lightspec_bench.runners.torch_lm import without_layers
from lightspec_bench.runners.torch_model import TorchModel
from tests.runners.torch_support import tiny_config, tiny_model

HALF = torch.bfloat16
packs_here = pytest.mark.skipif(
    not can_pack(torch.zeros(8, 8, dtype=HALF)), reason="oneDNN has no bfloat16 products on this processor"
)


def linears(model: nn.Module, kind: type[nn.Module]) -> list[str]:
    return [name for name, module in model.named_modules() if type(module) is kind]


@packs_here
@pytest.mark.parametrize("bias", [False, True])
@torch.inference_mode()
def test_products_are_those_of_the_plain_layer(bias: bool) -> None:
    plain = nn.Linear(40, 24, bias=bias, dtype=HALF)
    packed = PackedLinear(plain, keeps_weight=False)
    for num_rows in (1, 3, 64):
        hidden = torch.randn(1, num_rows, 40, dtype=HALF)
        torch.testing.assert_close(packed(hidden), plain(hidden))
    assert (packed.weight.numel(), packed.weight.dtype) == (0, HALF)


@packs_here
def test_a_bfloat16_target_is_packed_and_only_its_head_keeps_a_plain_weight() -> None:
    target = tiny_model(LlamaConfig, dtype="bfloat16")
    assert linears(target.model, nn.Linear) == []
    kept = [name for name in linears(target.model, PackedLinear) if target.model.get_submodule(name).weight.numel()]
    assert kept == ["lm_head"]
    assert target.head.weight.shape == target.embedding.weight.shape


@packs_here
def test_a_copy_without_layers_shares_the_packed_ones() -> None:
    target = tiny_model(LlamaConfig, dtype="bfloat16")
    shallow = without_layers(target, [0])
    assert shallow.layers[0] is target.layers[1]


def test_a_float32_target_is_left_alone() -> None:
    target = tiny_model(LlamaConfig)
    assert linears(target.model, PackedLinear) == []


@packs_here
@torch.inference_mode()
def test_logits_are_those_of_the_plain_model() -> None:
    torch.manual_seed(0)
    plain = LlamaForCausalLM(tiny_config(LlamaConfig)).to(HALF).eval()
    packed = copy.deepcopy(plain)
    pack_linears(packed, packed.lm_head)
    tokens = torch.arange(12)[None]
    torch.testing.assert_close(packed(tokens).logits, plain(tokens).logits, atol=2e-2, rtol=2e-2)
    assert isinstance(TorchModel(packed, "packed").head, PackedLinear)
