"""The target over ragged batches: every row's logits and hidden states are those of plain transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, LlamaConfig, MistralConfig, Qwen3Config

from lightspec_bench.core import BenchError
from lightspec_bench.runners.torch_cache import SlotCache
from lightspec_bench.runners.torch_model import TorchModel, load_model, out_of_memory, random_model, stop_tokens
from lightspec_bench.runners.torch_rows import group_requests, make_rows
from tests.runners.torch_support import VOCABULARY, plain, tiny_config, tiny_model

KINDS: list[tuple[type[Any], dict[str, Any]]] = [
    (LlamaConfig, {}),
    (LlamaConfig, {"num_key_value_heads": 4, "attention_bias": True}),
    (Qwen3Config, {}),
    (MistralConfig, {"sliding_window": 5}),
]


def read(
    model: TorchModel, cache: SlotCache, slots: list[int], starts: list[int], texts: list[Any], **kwargs: Any
) -> Any:
    counts = np.array([len(text) for text in texts])
    rows = make_rows(np.array(slots), np.array(starts), counts, model.device)
    return model.forward(torch.as_tensor(np.concatenate(texts)), rows, cache, **kwargs)


@pytest.mark.parametrize(("kind", "changes"), KINDS)
@torch.inference_mode()
def test_every_row_is_that_of_a_plain_forward(kind: type[Any], changes: dict[str, Any]) -> None:
    model = tiny_model(kind, **changes)
    reference = plain(model)
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, VOCABULARY, size) for size in (5, 17, 30, 9, 12)]
    slots, read_before, taps = [0, 1, 3, 6, 7], [3, 13, 28, 1, 11], (0, 1, 2)
    model.watch(taps)
    cache = SlotCache(8, 40, model.device)
    read(model, cache, slots, [0] * 5, [text[:size] for text, size in zip(texts, read_before, strict=True)])
    # Drafts that were rejected leave their keys behind; the rows that follow overwrite or never see them.
    read(model, cache, slots, read_before, [rng.integers(0, VOCABULARY, 7) for _ in texts])
    rest = [text[size:] for text, size in zip(texts, read_before, strict=True)]
    out = read(model, cache, slots, read_before, rest, taps=taps)
    whole = [reference(torch.as_tensor(text)[None], output_hidden_states=True) for text in texts]
    logits = torch.cat([each.logits[0, size:] for each, size in zip(whole, read_before, strict=True)])
    torch.testing.assert_close(out.logits, logits, atol=2e-5, rtol=1e-4)
    for column, tap in enumerate(taps[:2]):  # transformers norms the last one
        hidden = torch.cat([each.hidden_states[tap][0, size:] for each, size in zip(whole, read_before, strict=True)])
        torch.testing.assert_close(out.features[:, column], hidden, atol=2e-5, rtol=1e-4)
    normed = reference.model.norm(out.features[:, 2])
    torch.testing.assert_close(reference.lm_head(normed), logits, atol=2e-5, rtol=1e-4)


@torch.inference_mode()
def test_learned_positions_and_other_layouts_work_too() -> None:
    config = GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    model = random_model(config, "tiny gpt2")
    texts = [np.arange(6), np.arange(20, 31)]
    cache = SlotCache(2, 40, model.device)
    read(model, cache, [0, 1], [0, 0], [text[:-3] for text in texts])
    out = read(model, cache, [0, 1], [3, 8], [text[-3:] for text in texts])
    expected = torch.cat([plain(model)(torch.as_tensor(text)[None]).logits[0, -3:] for text in texts])
    torch.testing.assert_close(out.logits, expected, atol=2e-5, rtol=1e-4)


@torch.inference_mode()
def test_only_the_rows_asked_for_get_logits() -> None:
    model = tiny_model()
    cache = SlotCache(2, 16, model.device)
    everything = read(model, cache, [0, 1], [0, 0], [np.arange(4), np.arange(3)])
    some = read(model, cache, [0, 1], [0, 0], [np.arange(4), np.arange(3)], keep=torch.tensor([3, 6]))
    torch.testing.assert_close(some.logits, everything.logits[[3, 6]])
    assert some.features is None


@torch.inference_mode()
def test_rows_of_padding_change_nothing() -> None:
    model, device = tiny_model(), torch.device("cpu")
    cache = SlotCache(2, 16, device)
    plain_rows = make_rows(np.array([0, 1]), np.zeros(2, int), np.array([4, 3]), device)
    padded = make_rows(np.array([0, 1]), np.zeros(2, int), np.array([4, 3]), device, num_rows=10, scratch_slot=2)
    assert padded.slot.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert padded.position.tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 0, 0]
    tokens = torch.tensor([1, 2, 3, 4, 5, 6, 7])
    expected = model.forward(tokens, plain_rows, cache).logits
    out = model.forward(torch.cat((tokens, torch.zeros(3, dtype=torch.int64))), padded, cache).logits
    torch.testing.assert_close(out[:7], expected)


def test_neighbours_alike_in_shape_attend_together() -> None:
    alike = group_requests(np.arange(4), np.array([30, 31, 29, 30]), np.ones(4, int))
    assert [(group.first, group.last, group.max_keys) for group in alike] == [(0, 4, 32)]
    gap = group_requests(np.array([0, 1, 3]), np.array([30, 30, 30]), np.ones(3, int))
    assert [(group.first, group.last, group.first_slot) for group in gap] == [(0, 2, 0), (2, 3, 3)]
    long = group_requests(np.arange(3), np.array([30, 30, 4000]), np.ones(3, int))
    assert [(group.first, group.last) for group in long] == [(0, 2), (2, 3)]


def test_a_saved_checkpoint_loads_by_its_folder(tmp_path: Path) -> None:
    model = tiny_model(eos_token_id=7)
    model.model.save_pretrained(tmp_path)
    loaded = load_model(str(tmp_path), "bfloat16")
    assert (loaded.num_layers, loaded.hidden_size, loaded.vocab_size) == (2, 64, VOCABULARY)
    assert loaded.dtype is torch.bfloat16
    assert stop_tokens(loaded) == (7,)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("{tmp}", {}, "no config.json in this folder, expected a Hugging Face checkpoint"),
        ("{tmp}", {"dtype": "int3"}, "dtype is 'int3', expected one of float32, bfloat16, float16, float64"),
        ("{tmp}", {"device": "tpu"}, "device is 'tpu', expected cpu, cuda or cuda:N"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_a_sentence(
    tmp_path: Path, name: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BenchError, match=sentence):
        load_model(name.format(tmp=tmp_path), **options)


def test_a_model_whose_layers_are_not_attention_is_refused() -> None:
    config = tiny_config(Qwen3Config)
    model = tiny_model(Qwen3Config)
    model.model.config.layer_types = ["linear_attention", "full_attention"]
    assert config.num_hidden_layers == 2
    with pytest.raises(BenchError, match="its layers are linear_attention, expected attention only"):
        TorchModel(model.model, "hybrid")


def test_running_out_of_memory_says_what_to_lower() -> None:
    with pytest.raises(BenchError, match="out of memory while running 4 requests: lower concurrency"):  # noqa: SIM117
        with out_of_memory("running 4 requests: lower concurrency"):
            torch.empty(1 << 60, dtype=torch.uint8)
