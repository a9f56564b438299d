"""Tiny random models, plain generation to compare with, and a planner that tries everything a plan may say."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from transformers import LlamaConfig, Qwen3Config

from lightspec_bench.core import Batch, ConfidenceAge, Drafter, EarlyExit, EngineConfig, Plan, Run, Step
from lightspec_bench.runners.requests import Request
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_model import TorchModel, random_model
from lightspec_bench.runners.torch_runner import TorchOptions, TorchRunner
from tests.support import RoundLatency

torch.set_num_threads(1)  # tiny matrices: threads would only wait for one another
VOCABULARY = 61


def tiny_config(kind: type[Any] = LlamaConfig, **changes: Any) -> Any:
    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256,
        "initializer_range": 0.1, "eos_token_id": None, "bos_token_id": None, "pad_token_id": 0,
    }  # fmt: skip
    return kind(**(shape | changes))


def tiny_model(kind: type[Any] = LlamaConfig, seed: int = 0, dtype: str = "float32", **changes: Any) -> TorchModel:
    return random_model(tiny_config(kind, **changes), f"tiny {kind.__name__}", seed=seed, dtype=dtype)


def qwen_model(seed: int = 0) -> TorchModel:
    return tiny_model(Qwen3Config, seed=seed)


def plain(target: TorchModel) -> Any:
    """The same weights with transformers' own attention."""
    model = copy.deepcopy(target.model)
    model.set_attn_implementation("sdpa")
    return model


def outputs_of(model: Any, requests: Sequence[Request]) -> dict[int, list[int]]:
    """transformers' greedy outputs by request, prompts of one length at a time so that nothing is padded."""
    found: dict[int, list[int]] = {}
    for size in sorted({len(request.tokens) for request in requests}):
        rows = [row for row, request in enumerate(requests) if len(request.tokens) == size]
        prompts = torch.tensor([list(requests[row].tokens) for row in rows])
        longest = max(requests[row].max_tokens for row in rows)
        out = model.generate(
            prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=longest, min_new_tokens=longest,
            do_sample=False, pad_token_id=0,
        )  # fmt: skip
        for row, tokens in zip(rows, out[:, size:].tolist(), strict=True):
            found[row] = tokens[: requests[row].max_tokens]
    return found


def some_requests(number: int, seed: int = 0, longest_prompt: int = 24, most_tokens: int = 20) -> list[Request]:
    """Prompts of all lengths, of which some repeat themselves, and outputs from a single token on."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        size = int(rng.integers(1, longest_prompt + 1))
        tokens = rng.integers(0, VOCABULARY, size).tolist()
        if rng.random() < 0.5:
            tokens = (tokens[:5] * 5)[:longest_prompt]
        found.append(Request(tokens, int(rng.integers(1, most_tokens + 1))))
    return found


class Adversary:
    """Any legal plan: budgets and counts, one depth or many, with and without early exits of every kind."""

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, max_draft_tokens: int, seed: int = 0) -> None:
        self.rng, self.most, self.steps = np.random.default_rng(seed), max_draft_tokens, list[Step]()

    def plan(self, batch: Batch) -> Plan:
        rng, number = self.rng, batch.num_requests
        pending = int(batch.num_draft_tokens.sum())
        depth: Any = int(rng.integers(0, self.most + 1))
        if rng.random() < 0.5:
            depth = rng.integers(0, self.most + 1, number)
        if rng.random() < 0.5:
            return Plan(depth, int(rng.integers(number, number + pending + 1)), None, self._exit(number))
        return Plan(depth, None, rng.integers(0, batch.num_draft_tokens + 1), self._exit(number))

    def _exit(self, number: int) -> EarlyExit | None:
        rng = self.rng
        if rng.random() < 0.5:
            return None
        scope: Any = rng.choice(["request", "mean", "all"])
        threshold: Any = float(rng.random())
        if scope != "mean" and rng.random() < 0.5:
            threshold = rng.random(number)
        signal: Any = rng.choice(["confidence", "product", "entropy"])
        least = [int(value) for value in rng.integers(0, 3, 2)]
        return EarlyExit(signal, threshold, bool(rng.integers(2)), scope, *least)

    def observe(self, step: Step) -> None:
        self.steps.append(step)


class Fixed:
    """Drafts the depth that its schedule gives for the step, and verifies all that is pending."""

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, schedule: Sequence[int]) -> None:
        self.schedule, self.batches, self.steps = schedule, list[Batch](), list[Step]()

    def plan(self, batch: Batch) -> Plan:
        self.batches.append(batch)
        depth = self.schedule[min(batch.step, len(self.schedule) - 1)]
        return Plan(depth, num_verify_tokens=batch.num_draft_tokens)

    def observe(self, step: Step) -> None:
        self.steps.append(step)


def runner(
    target: TorchModel,
    drafter: TorchDrafter | None,
    requests: Sequence[Request],
    concurrency: int = 4,
    lag_steps: int = 0,
    max_draft_tokens: int = 4,
    **options: Any,
) -> TorchRunner:
    shape = drafter.shape if drafter is not None else Drafter("ngram", max_draft_tokens)
    config = EngineConfig(shape, RoundLatency(), concurrency, lag_steps)
    return TorchRunner(target, drafter, requests, config, TorchOptions(**options))


def check_sums(run: Run) -> None:
    """Steps, requests and totals tell the same story."""
    assert run.steps is not None
    outcomes = run.totals.outcomes
    assert run.steps["num_requests"].sum() == outcomes.sum() == run.requests["num_steps"].sum()
    for name in ("num_draft_tokens", "num_verify_tokens", "num_accepted_tokens"):
        assert run.steps[name].sum() == run.requests[name].sum()
    emitted = run.requests["num_accepted_tokens"] + run.requests["num_steps"] + 1
    assert emitted.tolist() == run.requests["num_output_tokens"].tolist()
