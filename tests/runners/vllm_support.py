"""Tiny models for vLLM, engines of it in this process, and a planner that plans at random and keeps what came of it."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from lightspec_bench.core import Batch, EngineConfig, Plan, Step
from lightspec_bench.runners.vllm_outcomes import Observer
from lightspec_bench.runners.vllm_requests import FinishedRequest
from lightspec_bench.runners.vllm_steps import TimedStep

SCHEDULER = "lightspec_bench.runners.vllm_scheduler.PlannedScheduler"
NEEDS_VLLM = [
    pytest.mark.vllm,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: make test-vllm"),
    pytest.mark.filterwarnings("ignore"),
]
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_PLUGINS": "lightspec",
}  # fmt: skip
VOCABULARY = 320


class Adversary:
    """Plans anything that is allowed: each request's verify tokens and depth at random, every depth from 0 to D.

    `log` is a file that each step's plan and outcome is appended to, for engines in a process of their own.
    """

    confidence: ClassVar[str] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, seed: int = 0, log: str | None = None) -> None:
        self.config, self.log = config, log
        self.rng = np.random.default_rng(seed)
        self.batches: list[Batch] = []

    def plan(self, batch: Batch) -> Plan:
        self.batches.append(batch)
        most = self.config.max_draft_tokens
        verify = self.rng.integers(0, batch.num_draft_tokens + 1)
        depth = self.rng.integers(0, self.rng.integers(0, most + 1) + 1, batch.num_requests)
        return Plan(depth, num_verify_tokens=verify)

    def observe(self, step: Step) -> None:
        if self.log is not None:
            with Path(self.log).open("a", encoding="utf-8") as file:
                file.write(json.dumps(_plain(step)) + "\n")


class RepeatLast:
    """A proposer for vLLM's method custom_class: as many copies of the newest token as there were tokens in the step
    before, so that drafts are ragged; it is never told a depth."""

    def __init__(self, vllm_config: Any) -> None:
        self.most = vllm_config.speculative_config.num_speculative_tokens

    def load_model(self, *_: Any, **__: Any) -> None:
        pass

    def propose(self, sampled: list[list[int]], *_: Any, **__: Any) -> list[list[int]]:
        return [tokens[-1:] * min(1 + len(tokens), self.most) for tokens in sampled]


class Failing(Adversary):
    """Fails in its fourth step."""

    def plan(self, batch: Batch) -> Plan:
        if batch.step == 3:
            raise ZeroDivisionError("no rate")
        return super().plan(batch)


def _plain(step: Step) -> dict[str, Any]:
    assert isinstance(step.plan.num_draft_tokens, np.ndarray)
    assert step.plan.num_verify_tokens is not None
    return {
        "request_id": step.request_id.tolist(),
        "depth": step.plan.num_draft_tokens.tolist(),
        "planned": step.plan.num_verify_tokens.tolist(),
        "pending": step.num_draft_tokens.tolist(),
        "verified": step.num_verify_tokens.tolist(),
        "accepted": step.num_accepted_tokens.tolist(),
    }


@dataclass
class Seen(Observer):
    """Everything an observer is told."""

    wants_confidences: bool = False
    steps: list[TimedStep] = field(default_factory=list)
    requests: list[FinishedRequest] = field(default_factory=list)

    def emitted(self, *what: Any) -> None:
        pass

    def stepped(self, timed: TimedStep) -> None:
        self.steps.append(timed)

    def finished(self, slot: int, request: FinishedRequest) -> None:
        self.requests.append(request)


@dataclass
class Engine:
    """vLLM in this process, and our control of its scheduler."""

    llm: Any
    control: Any

    def run(
        self, prompts: list[list[int]], planner: Any, max_tokens: int = 24, strict: bool = True, **sampling: Any
    ) -> tuple[Any, Seen]:
        """vLLM's outputs and what was seen of the steps."""
        from vllm import SamplingParams

        seen = Seen()
        self.control.set_planner(planner, strict=strict)
        self.control.observers.append(seen)
        settings = {"temperature": 0.0, "ignore_eos": True, "detokenize": False, **sampling}
        try:
            given = [{"prompt_token_ids": prompt} for prompt in prompts]
            outputs = self.llm.generate(given, SamplingParams(max_tokens=max_tokens, **settings), use_tqdm=False)
        finally:
            self.control.observers.remove(seen)
        return outputs, seen


@contextmanager
def engine(monkeypatch: pytest.MonkeyPatch, model: Path, speculative: Any = None, **options: Any) -> Iterator[Engine]:
    """An engine with these options of ours (`options["vllm"]` are vLLM's own)."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # for good: numba takes no other number once it has begun
    for name, value in {**ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}.items():
        if name != "NUMBA_NUM_THREADS":
            monkeypatch.setenv(name, value)
    from vllm import LLM

    own = {"planner": "none"} if speculative is None else {}
    settings = options.pop("vllm", {})
    llm = LLM(
        str(model),
        speculative_config=speculative,
        scheduler_cls=SCHEDULER,
        additional_config={"lightspec": {**own, **options}},
        **{
            "dtype": "float32", "enforce_eager": True, "max_model_len": 256, "max_num_seqs": 8,
            "max_num_batched_tokens": 256, "enable_prefix_caching": False, "disable_log_stats": False,
            "skip_tokenizer_init": True, **settings,
        },
    )  # fmt: skip
    running = Engine(llm, llm.llm_engine.engine_core.engine_core.scheduler.lightspec)
    try:
        yield running
    finally:
        llm.llm_engine.engine_core.shutdown()
        running.llm = running.control = llm = None
        gc.unfreeze()  # vLLM freezes what an engine is made of; left to itself it would take the next one down with it
        gc.collect()


def force_overlapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let vLLM schedule asynchronously on a CPU, which it does not offer; its CPU code has stand-ins for streams."""
    from vllm.platforms.cpu import CpuPlatform

    settle = CpuPlatform.check_and_update_config.__func__

    def forced(cls: Any, vllm_config: Any) -> None:
        settle(cls, vllm_config)
        vllm_config.scheduler_config.async_scheduling = True

    monkeypatch.setattr(CpuPlatform, "check_and_update_config", classmethod(forced))


def tiny_target(folder: Path) -> Path:
    """A random Llama of two layers whose greedy output falls into loops, which n-grams then find."""
    return _save(_llama(seed=1), folder)


def tiny_drafter(target: Path, folder: Path) -> Path:
    """The target with noise on its weights: right about some tokens and wrong about others."""
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(target)
    torch.manual_seed(2)
    with torch.no_grad():
        for weight in model.model.layers.parameters():
            weight += 0.1 * weight.std() * torch.randn_like(weight)
    return _save(model, folder)


def tiny_head(target: Path, folder: Path) -> Path:
    """A random chain head of ours in the layout that vLLM loads."""
    import torch

    from lightspec_bench.runners.torch_checkpoints import save_head
    from lightspec_bench.runners.torch_head_kinds import EagleHead
    from lightspec_bench.runners.torch_heads import HeadSettings
    from lightspec_bench.runners.vllm_eagle_layout import export_head

    torch.manual_seed(3)
    head = EagleHead(HeadSettings("eagle", "tiny", (1, 2), 64, 64, 96, 2, 1, 32, 40))
    head.draft_token_ids.copy_(torch.arange(40) * 7)
    save_head(head, folder / "ours")
    return export_head(folder / "ours", target, folder / "vllm")


def _llama(seed: int) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, max_position_embeddings=256, initializer_range=0.1, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    return LlamaForCausalLM(config).float()


def _save(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def prompts(number: int = 6) -> list[list[int]]:
    """Prompts of several lengths; each repeats itself, so that n-grams have something to find."""
    rng = np.random.default_rng(5)
    return [(rng.integers(3, VOCABULARY, 4 + 3 * row).tolist() * 3)[: 10 + 7 * row] for row in range(number)]
