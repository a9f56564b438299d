"""What measured cells run on: prompts, and target and drafter behind one of the runners for real models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lightspec_bench.core import BenchError, Drafter, EngineConfig, LatencyModel, Planner, Run
from lightspec_bench.measured import Measured
from lightspec_bench.runners.requests import Request, Sending

if TYPE_CHECKING:
    from lightspec_bench.recording_prompts import PromptChoice, Prompts

_NEEDED = {"torch", "transformers", "safetensors", "datasets", "vllm"}
Outputs = dict[int, list[int]]  # tokens that came out, by request


class BenchEngine(Protocol):
    """A target and a drafter, loaded once for many runs. `name` says which engine it is, in records.

    `signals` are what the drafter gives with its tokens, of "confidence" and "entropy".
    """

    @property
    def name(self) -> str: ...
    @property
    def drafter(self) -> Drafter: ...
    @property
    def drafter_name(self) -> str: ...
    @property
    def signals(self) -> frozenset[str]: ...

    def start_of(self, planner: str) -> int:
        """Planners of the same number run on the same start of the engine, lower ones first."""

    def lacks(self, planner: Planner) -> str:
        """Why this engine cannot run a planner, "" where it can."""

    def machine(self) -> dict[str, Any]:
        """What the clock depends on besides versions and processor, as JSON values."""

    def run(
        self, planner: Planner, requests: Sequence[Request], config: EngineConfig, sending: Sending, warmup_steps: int
    ) -> tuple[Run, Outputs]:
        """Every request to its end. Raises `BenchError`; an interrupt is raised, or `settings` say so."""

    def logits(
        self, texts: Sequence[Sequence[int]], tokens: Sequence[tuple[int | None, int | None]]
    ) -> list[tuple[float, float] | None] | None:
        """Logits of two tokens after each text, of the target without speculation; None for a pair that is not among
        the likeliest, and None where the engine shows no logits."""

    def close(self) -> None:
        """Let go of the models."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What is loaded once for all cells. `names` and `categories` are the requests'; `notes` on prompts left out."""

    what: Measured
    engine: BenchEngine
    requests: Sequence[Request]
    names: Sequence[str]
    categories: Sequence[str]
    notes: Sequence[str]
    lag_steps: int = 1

    @property
    def drafter(self) -> Drafter:
        return self.engine.drafter

    def config(self, concurrency: int, latency: LatencyModel, seed: int = 0) -> EngineConfig:
        return EngineConfig(self.drafter, latency, concurrency, self.lag_steps, seed)


@contextmanager
def needs_torch(what: str, extra: str = "torch") -> Iterator[None]:
    """One sentence where a package that real models need is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        raise BenchError(f"{what} needs the package {error.name}: pip install 'lightspec-bench[{extra}]'") from None


def prompt_choice(what: Measured) -> PromptChoice:
    from lightspec_bench.recording_prompts import PromptChoice

    return PromptChoice(
        (what.prompts,), what.num_prompts, 0, what.chat_template, max_prompt_tokens=what.max_prompt_tokens
    )


def open_bench(what: Measured, concurrency: int = 1, lag_steps: int = 1) -> Bench:
    """Load target, drafter and prompts; `concurrency` is the largest that will run. Raises `BenchError` for each that
    cannot be had."""
    with needs_torch("a measured run", what.runner):
        return (_open_vllm if what.runner == "vllm" else _open_torch)(what, concurrency, lag_steps)


def _open_torch(what: Measured, concurrency: int, lag_steps: int) -> Bench:
    from lightspec_bench.recording_prompts import read_prompts
    from lightspec_bench.runners.torch_bench import TorchBench
    from lightspec_bench.runners.torch_model import load_tokenizer
    from lightspec_bench.runners.torch_targets import target_place

    engine = TorchBench.load(
        what.target, what.drafter, what.max_draft_tokens, what.dtype, what.device, what.graph_sizes
    )
    tokenizer = load_tokenizer(target_place(what.target))
    found = read_prompts(prompt_choice(what), tokenizer, engine.target.max_positions)
    return _bench(what, engine, found, lag_steps)


def _open_vllm(what: Measured, concurrency: int, lag_steps: int) -> Bench:
    from lightspec_bench.recording_prompts import read_prompts
    from lightspec_bench.runners.vllm_bench import VllmBench, VllmSettings, load_tokenizer

    settings = VllmSettings(
        target=what.target,
        drafter=what.drafter,
        max_draft_tokens=what.max_draft_tokens,
        dtype=what.dtype,
        device=what.device,
        max_num_seqs=concurrency,
        max_tokens=what.max_tokens,
        lag_steps=lag_steps,
        engine=what.engine_arguments,
    )
    found = read_prompts(prompt_choice(what), load_tokenizer(settings), settings.max_positions)
    longest = max(len(request.token_ids) for request in found.requests)
    return _bench(what, VllmBench(settings, longest), found, lag_steps)


def _bench(what: Measured, engine: BenchEngine, found: Prompts, lag_steps: int) -> Bench:
    left_out = [f"{found.num_skipped} rows of {what.prompts} could not be used"] if found.num_skipped else []
    if found.num_too_long:
        left_out.append(f"{found.num_too_long} prompts longer than {what.max_prompt_tokens} tokens are left out")
    return Bench(
        what,
        engine,
        [Request(request.token_ids.tolist(), what.max_tokens) for request in found.requests],
        [request.id for request in found.requests],
        [request.category for request in found.requests],
        [*left_out, *found.notes],
        lag_steps,
    )
