"""Options of the simulated engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from lightspec_bench.core import BenchError

Prefill: TypeAlias = Literal["off", "separate", "chunked"]
PREFILLS: tuple[Prefill, ...] = ("off", "separate", "chunked")


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """How the simulated engine behaves.

    `prefill`: "off" (a request starts with its first token out, at no cost), "separate" (prompts run alone and
    stop decoding meanwhile) or "chunked" (up to `chunk_tokens` rows of prompts and decoding share a step).
    `catch_up`: a drafter that keeps a cache follows the target "each_step" even at depth 0, or only "on_resume".
    `planner_time`: "measured" adds exposed planner time to the clock, "off" leaves it out (exact repeats).
    `first_draft`: a request's first proposal is made by its first decode "step", or with its "prompt", to the depth
    planned last, as vLLM does; `first_depth` before anything was planned.
    `sync_s`: host wait for confidences of the pending proposals, where a planner asks for them under lag; always paid.
    `warmup_steps` are left out of the totals; `keep_steps` False keeps memory independent of the step count.
    """

    prefill: Prefill = "off"
    chunk_tokens: int = 2048
    catch_up: Literal["each_step", "on_resume"] = "each_step"
    planner_time: Literal["measured", "off"] = "measured"
    first_draft: Literal["step", "prompt"] = "step"
    first_depth: int = 0
    sync_s: float = 50e-6
    warmup_steps: int = 0
    keep_steps: bool = True

    def __post_init__(self) -> None:
        for name, known in (
            ("prefill", PREFILLS),
            ("catch_up", ("each_step", "on_resume")),
            ("planner_time", ("measured", "off")),
            ("first_draft", ("step", "prompt")),
        ):
            if getattr(self, name) not in known:
                raise BenchError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(known)}")
        if self.chunk_tokens < 1:
            raise BenchError(f"chunk_tokens is {self.chunk_tokens}, expected at least 1")
        if self.warmup_steps < 0 or self.sync_s < 0 or self.first_depth < 0:
            raise BenchError("warmup_steps, sync_s and first_depth are expected to be 0 or more")
