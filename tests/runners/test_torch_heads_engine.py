"""Heads in the real engine: trained for a tiny target they are often right, and output stays the target's own."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")

from lightspec_bench.runners.torch_checkpoints import save_head  # noqa: E402
from lightspec_bench.runners.torch_drafter import TorchDrafter  # noqa: E402
from lightspec_bench.runners.torch_eagle import EagleDrafter  # noqa: E402
from lightspec_bench.runners.torch_features import Text, extract  # noqa: E402
from lightspec_bench.runners.torch_parallel import ParallelDrafter  # noqa: E402
from lightspec_bench.runners.torch_train import Trainer, TrainSettings  # noqa: E402
from lightspec_bench.runners.torch_train_head import HeadOptions, TrainRequest, new_head, target_parts  # noqa: E402
from tests.runners.torch_support import (  # noqa: E402
    VOCABULARY,
    Adversary,
    Fixed,
    check_sums,
    outputs_of,
    plain,
    runner,
    some_requests,
    tiny_model,
)

TAPS, DEPTH = (1, 2), 4


@cache
def sent() -> tuple[list[Any], dict[int, list[int]]]:
    """Requests and the target's own outputs for them."""
    found = some_requests(60)
    return found, outputs_of(plain(tiny_model()), found)


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an eagle and a parallel head, trained for a moment on the target's own outputs."""
    folder = tmp_path_factory.mktemp("heads")
    model = plain(tiny_model())
    requests, outputs = sent()
    made = [Text("made", str(row), (*requests[row].tokens, *outputs[row]), 0) for row in outputs]
    corpus = extract(model, made, TAPS, folder, lambda done, total: None)
    for kind in ("eagle", "parallel"):
        shape = HeadOptions(TAPS, intermediate_size=32, draft_vocab_size=VOCABULARY - 8, num_slots=DEPTH, rank=8)
        settings = TrainSettings(epochs=5, batch_texts=6, learning_rate=0.01, steps=DEPTH)
        request = TrainRequest(kind, "tiny", folder / kind, [], train=settings, head=shape)
        head = new_head(request, model, corpus, TAPS)
        parts = target_parts(model, TAPS)
        Trainer(head, parts, corpus, np.arange(len(made)), settings, folder / f"{kind}.pt").run(lambda now: None)
        save_head(head, folder / kind)
    _published(folder / "eagle3")
    return folder


def _published(folder: Path) -> None:
    """A random head in the published EAGLE-3 layout, for the tiny target."""
    size, layer, generator = 64, "midlayer", torch.Generator().manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {
        "fc": (size, 2 * size), f"{layer}.self_attn.q_proj": (size, 2 * size), "norm": (size,),
        f"{layer}.self_attn.k_proj": (32, 2 * size), f"{layer}.self_attn.v_proj": (32, 2 * size),
        f"{layer}.self_attn.o_proj": (size, size), f"{layer}.mlp.gate_proj": (96, size), "lm_head": (40, size),
        f"{layer}.mlp.up_proj": (96, size), f"{layer}.mlp.down_proj": (size, 96), f"{layer}.hidden_norm": (size,),
        f"{layer}.input_layernorm": (size,), f"{layer}.post_attention_layernorm": (size,),
    }  # fmt: skip
    weights = {f"{name}.weight": torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    weights["d2t"] = torch.arange(40) % 2 + 5
    folder.mkdir()
    config = {
        "hidden_size": size, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
        "eagle_aux_hidden_state_layer_ids": list(TAPS),
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.save_file(weights, folder / "model.safetensors")


def drafter(kind: str, folder: Path) -> TorchDrafter:
    return ParallelDrafter(folder / kind) if kind == "parallel" else EagleDrafter(folder / kind, DEPTH)


@pytest.mark.parametrize("lag_steps", [0, 1])
@pytest.mark.parametrize("kind", ["eagle", "parallel", "eagle3"])
def test_greedy_output_is_the_targets_own(kind: str, lag_steps: int, heads: Path) -> None:
    requests, expected = sent()
    real = runner(tiny_model(), drafter(kind, heads), requests, concurrency=12, lag_steps=lag_steps)
    run = real.run(Adversary(DEPTH, seed=lag_steps))
    assert real.outputs == expected
    check_sums(run)


@pytest.mark.parametrize("kind", ["eagle", "parallel"])
def test_a_trained_head_is_right_more_often_than_chance(kind: str, heads: Path) -> None:
    requests, expected = sent()
    real = runner(tiny_model(), drafter(kind, heads), requests, concurrency=12)
    run = real.run(Fixed([DEPTH]))
    assert real.outputs == expected
    outcomes = run.totals.outcomes
    assert outcomes[1:, 1:].sum() > 0.2 * outcomes[1:].sum()


@pytest.mark.parametrize("kind", ["eagle", "parallel"])
def test_acceptance_after_a_spell_of_depth_0_is_what_it_is_without_one(kind: str, heads: Path) -> None:
    requests, _ = sent()
    found = []
    for schedule in ([2], [0, 0, 0, 2, 0, 2, 0, 0, 1, 2] * 20):
        real = runner(tiny_model(), drafter(kind, heads), requests[:20], concurrency=20)
        planner = Fixed(schedule)
        real.run(planner)
        found.append(_accepted_at(planner))
    same = found[0].keys() & found[1].keys()
    assert len(same) >= 10
    assert {key: found[0][key] for key in same} == {key: found[1][key] for key in same}


def _accepted_at(planner: Fixed) -> dict[tuple[int, int], int]:
    """Accepted tokens by request and position, where two draft tokens were verified."""
    found = {}
    for batch, step in zip(planner.batches, planner.steps, strict=False):
        places = zip(
            step.request_id.tolist(), batch.num_output_tokens.tolist(), step.num_verify_tokens.tolist(),
            step.num_accepted_tokens.tolist(), strict=True,
        )  # fmt: skip
        found.update({(request, place): accepted for request, place, verified, accepted in places if verified == 2})
    return found
