"""The trained head that ships, inside vLLM: it drafts there what it drafts in the torch engine, under any plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightspec_bench.core import Drafter, EngineConfig, Run
from lightspec_bench.latency import HostCost, LinearLatency
from lightspec_bench.latency_curves import AffineCurve
from lightspec_bench.registry import make_planner
from tests.runners.vllm_support import NEEDS_VLLM, Adversary, Seen, engine

MODEL = Path("~/.cache/lightspec-bench/smollm2-135m-instruct").expanduser()
DEPTH, MAX_TOKENS = 3, 16
QUESTIONS = ("What is the capital of France?", "Count from one to ten.")

pytestmark = [
    *NEEDS_VLLM,
    pytest.mark.skipif(not MODEL.exists(), reason="no SmolLM2: lightspec-bench models get smollm2"),
]


@dataclass
class Played:
    """Both engines' outputs and counts."""

    ours: Run
    expected: list[list[int]]
    static: Seen
    random: Seen
    static_tokens: list[list[int]]
    random_tokens: list[list[int]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    from lightspec_bench.runners.vllm_eagle_layout import export_head

    head = export_head("smollm2-135m-eagle", MODEL, tmp_path_factory.mktemp("head") / "vllm")
    asked = _prompts()
    ours, expected = _torch_engine(asked)
    speculative = {"method": "eagle3", "model": str(head), "num_speculative_tokens": DEPTH}
    with pytest.MonkeyPatch.context() as patch, engine(patch, MODEL, speculative) as running:
        config = running.control.config
        static_outputs, static = running.run(asked, make_planner(f"static:k={DEPTH}", config), MAX_TOKENS)
        random_outputs, random = running.run(asked, Adversary(config, seed=2), MAX_TOKENS)
    return Played(ours, expected, static, random, _tokens(static_outputs), _tokens(random_outputs))


def _tokens(outputs: Any) -> list[list[int]]:
    return [list(output.outputs[0].token_ids) for output in outputs]


def _prompts() -> list[list[int]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    texts = [
        tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True)
        for text in QUESTIONS
    ]
    return [tokenizer(text)["input_ids"] for text in texts]


def _torch_engine(asked: list[list[int]]) -> tuple[Run, list[list[int]]]:
    from lightspec_bench.runners.requests import Request
    from lightspec_bench.runners.torch_eagle import EagleDrafter
    from lightspec_bench.runners.torch_runner import TorchRunner
    from lightspec_bench.runners.torch_targets import load_target

    line = AffineCurve(1e-3)
    price = LinearLatency(name="any", origin="modelled", source="none", target=line, draft=line, host=HostCost())
    config = EngineConfig(Drafter("autoregressive", DEPTH), price, len(asked))
    requests = [Request(prompt, MAX_TOKENS) for prompt in asked]
    drafter = EagleDrafter("smollm2-135m-eagle", DEPTH)
    runner = TorchRunner(load_target("smollm2-135m-instruct"), drafter, requests, config)
    run = runner.run(make_planner(f"static:k={DEPTH}", config))
    return run, [runner.outputs[row] for row in range(len(asked))]


def test_it_drafts_what_it_drafts_in_the_torch_engine(played: Played) -> None:
    """Step by step: neither engine has anything to verify in a request's first one."""
    found = sorted(played.static.requests, key=lambda gone: gone.request_id)
    order = np.argsort(played.ours.requests["request_id"])
    for name in ("num_steps", "num_accepted_tokens"):
        assert [getattr(gone, name) for gone in found] == played.ours.requests[name][order].tolist()
    assert sum(gone.num_accepted_tokens for gone in found) > 0
    assert played.static_tokens == played.expected


def test_it_shows_how_sure_it_is(played: Played) -> None:
    assert all(timed.step.confidence is not None for timed in played.random.steps)
    for timed in played.random.steps:
        confidence, verified = timed.step.confidence, timed.step.num_verify_tokens
        assert confidence is not None
        asked = np.arange(DEPTH) < verified[:, None]
        assert (confidence[asked] > 0).all()
        assert (confidence[asked] <= 1).all()


def test_every_planned_length_is_honoured_and_the_text_stays(played: Played) -> None:
    for timed in played.random.steps:
        np.testing.assert_array_equal(timed.step.num_verify_tokens, timed.step.plan.num_verify_tokens)
    assert {timed.depth for timed in played.random.steps} == set(range(DEPTH + 1))
    assert played.random_tokens == played.expected
