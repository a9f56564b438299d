"""Drafters for vLLM: what each spec becomes in its `speculative_config`. vLLM itself is not needed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from lightspec_bench.core import BenchError, Drafter
from lightspec_bench.runners.layer_skip import config_without, layer_skip_folder, renamed
from lightspec_bench.runners.vllm_drafters import vllm_drafter
from lightspec_bench.runners.vllm_launch import Launch, engine_arguments
from tests.runners.torch_checkpoint import save_checkpoint


@pytest.mark.parametrize(
    ("spec", "config", "name", "kind"),
    [
        ("ngram", {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 4}, "ngram 1-4", "ngram"),
        ("ngram:max_n=3", {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 3}, "ngram 1-3", "ngram"),
        ("model:/m/small", {"method": "draft_model", "model": "/m/small"}, "model small", "autoregressive"),
        ("eagle:/m/head", {"method": "eagle", "model": "/m/head"}, "eagle head", "autoregressive"),
        ("eagle3:/m/head", {"method": "eagle3", "model": "/m/head"}, "eagle3 head", "autoregressive"),
        ("mtp", {"method": "mtp"}, "mtp", "autoregressive"),
        ("dflash:/m/d", {"method": "dflash", "model": "/m/d"}, "dflash d", "parallel"),
        ("medusa:/m/h", {"method": "medusa", "model": "/m/h"}, "medusa h", "parallel"),
        ("custom:pkg.mod.Class", {"method": "custom_class", "model": "pkg.mod.Class"}, "custom pkg.mod.Class", "ngram"),
    ],
)  # fmt: skip
def test_a_spec_becomes_a_speculative_config(spec: str, config: dict[str, Any], name: str, kind: Any) -> None:
    found = vllm_drafter(spec, "target", 5)
    assert found.config == config | {"num_speculative_tokens": 5}
    assert (found.name, found.shape) == (name, Drafter(kind, 5))


def test_suffix_takes_vllms_own_options() -> None:
    found = vllm_drafter("suffix:max_spec_factor=2", "target")
    assert found.config == {
        "method": "suffix", "num_speculative_tokens": 8, "suffix_decoding_max_tree_depth": 24,
        "suffix_decoding_max_cached_requests": 10_000, "suffix_decoding_max_spec_factor": 2.0,
        "suffix_decoding_min_token_prob": 0.1,
    }  # fmt: skip
    assert found.signals == frozenset()
    assert vllm_drafter("eagle:/m/head", "target").signals == {"confidence", "entropy"}


def test_json_is_passed_on_whole() -> None:
    text = '{"method": "draft_model", "model": "a/b", "num_speculative_tokens": 3, "parallel_drafting": true}'
    found = vllm_drafter(text, "target")
    assert found.config == json.loads(text)
    assert (found.name, found.shape) == ("draft_model b", Drafter("parallel", 3))
    assert vllm_drafter(text, "target", 2).config["num_speculative_tokens"] == 2


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ngrm", "unknown drafter 'ngrm' for vLLM, did you mean 'ngram'"),
        ("ngram:min_n=5", "min_n is 5 and max_n 4, expected 1 <= min_n <= max_n"),
        ("ngram:depth=3", "drafter ngram: unknown option 'depth'"),
        ("eagle", "drafter 'eagle' names no checkpoint, expected eagle:FOLDER"),
        ("layer-skip:first=1,last=2", "target nowhere is no folder, expected a checkpoint"),
        ('{"method": "magic"}', "method is 'magic', expected one of ngram"),
        ("{method}", "is no JSON"),
    ],
)
def test_specs_that_make_no_drafter_say_why(spec: str, message: str) -> None:
    with pytest.raises(BenchError, match=re.escape(message)):
        vllm_drafter(spec, "nowhere")


def test_a_checkpoint_without_layers_is_one_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors import safe_open

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    target = save_checkpoint(tmp_path / "model")
    number = json.loads((target / "config.json").read_text())["num_hidden_layers"]
    folder = layer_skip_folder(str(target), 1, 1)
    assert layer_skip_folder(str(target), 1, 1) == folder
    assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == number - 1
    assert (folder / "tokenizer.json").exists()
    with (
        safe_open(str(target / "model.safetensors"), "pt") as whole,
        safe_open(str(folder / "model.safetensors"), "pt") as less,
    ):
        assert less.get_tensor("model.embed_tokens.weight").equal(whole.get_tensor("model.embed_tokens.weight"))
        for layer in range(1, number - 1):
            name = "model.layers.{}.mlp.up_proj.weight"
            assert less.get_tensor(name.format(layer)).equal(whole.get_tensor(name.format(layer + 1)))
    found = vllm_drafter("layer-skip:first=1,last=1", str(target), 3)
    assert (found.config["model"], found.shape.kind) == (str(folder), "autoregressive")
    for first, last in ((0, number - 1), (2, 1), (0, number)):
        with pytest.raises(BenchError, match="expected some of 0 to"):
            layer_skip_folder(str(target), first, last)


def test_names_and_settings_of_a_checkpoint_with_fewer_layers() -> None:
    names = [f"model.layers.{layer}.w" for layer in range(4)]
    assert [renamed(name, 1, 2) for name in names] == ["model.layers.0.w", None, None, "model.layers.1.w"]
    assert renamed("model.norm.weight", 1, 2) == "model.norm.weight"
    config = {"num_hidden_layers": 3, "layer_types": ["a", "b", "c"], "sizes": [1, 2, 3]}
    assert config_without(config, 1, 1) == {"num_hidden_layers": 2, "layer_types": ["a", "c"], "sizes": [1, 2, 3]}


def test_arguments_of_the_engine(tmp_path: Path) -> None:
    target = save_checkpoint(tmp_path / "model")
    launch = Launch(str(target), "float32", "cpu", 4, 100, engine={"seed": 3, "enforce_eager": False})
    drafter = vllm_drafter("ngram", str(target), 3)
    found = engine_arguments(launch, drafter, is_cpu=True)
    assert found["speculative_config"] == drafter.config
    assert (found["max_num_seqs"], found["max_model_len"], found["max_num_batched_tokens"]) == (4, 100, 2048 + 16)
    assert (found["seed"], found["enforce_eager"], found["async_scheduling"]) == (3, False, False)
    assert found["additional_config"] == {"lightspec": {"planner": "static"}}
    assert found["kv_cache_memory_bytes"] >= 1 << 28
    plain = engine_arguments(launch, None, is_cpu=False)
    assert plain["speculative_config"] is None
    assert plain["additional_config"] == {"lightspec": {"planner": "none"}}
    assert "kv_cache_memory_bytes" not in plain
    with pytest.raises(BenchError, match="dtype is 'int8'"):
        Launch(str(target), "int8", "cpu", 4, 100)
