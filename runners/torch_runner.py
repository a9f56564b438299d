"""The torch runner: real prompts through a real target and a real drafter, batched, under a planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from lightspec_bench.core import BenchError, EngineConfig, Planner, Run, Totals
from lightspec_bench.registry import name_of
from lightspec_bench.runners.records import Recorder
from lightspec_bench.runners.requests import Book, Request, Sending, check_requests
from lightspec_bench.runners.torch_accept import Sampling
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_engine import Engine
from lightspec_bench.runners.torch_model import TorchModel, out_of_memory
from lightspec_bench.runners.torch_planning import Planning
from lightspec_bench.runners.torch_session import Session


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """How the real engine runs.

    `max_model_len`: tokens a slot holds, prompt and output; None: what the longest request needs. A request that
    would grow past it ends there. `num_requests`, `shuffle_seed`, `keep_full`: see `Sending`.
    `capture_ahead`: capture passes before the first step and not in the first step that needs each (`torch_graphs`).
    """

    sampling: Sampling = field(default_factory=Sampling)
    stop_tokens: tuple[int, ...] = ()
    max_model_len: int | None = None
    num_requests: int | None = None
    shuffle_seed: int | None = None
    keep_full: bool = False
    warmup_steps: int = 0
    keep_steps: bool = True
    capture_ahead: bool = False

    def __post_init__(self) -> None:
        for name, value, least in (("max_model_len", self.max_model_len, 2), ("warmup_steps", self.warmup_steps, 0)):
            if value is not None and value < least:
                raise BenchError(f"{name} is {value}, expected at least {least}")
        _ = self.sending  # what is wrong with it is said now

    @property
    def sending(self) -> Sending:
        return Sending(self.num_requests, self.shuffle_seed, self.keep_full)


class TorchRunner:
    """Decodes `requests` with `config.max_num_seqs` at a time; an instance can run any number of planners in turn.

    `outputs` are the tokens of the last run, by request id (row, plus the number of requests per repetition). A
    planner that uses no drafter runs without one. Ctrl-C ends a run early: it then holds what was recorded, and
    `settings` says {"interrupted": True}.
    """

    def __init__(
        self,
        target: TorchModel,
        drafter: TorchDrafter | None,
        requests: Sequence[Request],
        config: EngineConfig,
        options: TorchOptions | None = None,
    ) -> None:
        self.target, self.drafter, self.requests, self.config = target, drafter, requests, config
        self.options = options or TorchOptions()
        self.outputs: dict[int, list[int]] = {}
        if drafter is not None and drafter.shape != config.drafter:
            raise BenchError(
                f"drafter {drafter.name} is {drafter.shape}, expected {config.drafter}, as planners are told"
            )

    @torch.inference_mode()
    def run(self, planner: Planner) -> Run:
        """Every request to its end.

        Raises `BenchError` where a prompt does not fit or memory runs out, `PlanError` for a plan out of bounds.
        """
        config, options, name = self.config, self.options, name_of(planner)
        if planner.uses_drafter and self.drafter is None:
            raise BenchError(f"planner {name} uses a drafter and the runner has none")
        length = check_requests(self.requests, options.max_model_len, self.target.max_positions, self.target.name)
        drafter = self.drafter if planner.uses_drafter else None
        book = Book.of(self.requests, options.sending, config.max_num_seqs, length)
        recorder = Recorder(config.max_draft_tokens, options.keep_steps, options.warmup_steps)
        planning = Planning(planner, name, config.max_draft_tokens, config.lag_steps)
        advice = f"running {config.max_num_seqs} requests of {length} tokens: lower concurrency or max_model_len"
        try:
            self.target.graphs = replace(self.target.graphs, ahead=options.capture_ahead)
            with out_of_memory(advice):
                engine = Engine(
                    self.target, drafter, config.max_num_seqs, length, options.sampling, options.stop_tokens,
                    config.max_draft_tokens,
                )  # fmt: skip
                session = Session(engine, book, config, planner, planning, recorder)
                interrupted = _run(session)
        finally:
            planning.close()
        self.outputs = book.outputs
        totals = _totals(session, recorder, options.warmup_steps, config.max_draft_tokens)
        settings = {"interrupted": True} if interrupted else {}
        return Run(settings, {}, "measured", totals, book.columns(), recorder.steps())


def _run(session: Session) -> bool:
    """Returns whether it was interrupted, with something to keep; an interrupt before that goes on."""
    try:
        session.run()
    except KeyboardInterrupt:
        if not session.index:
            raise
        return True
    return False


def _totals(session: Session, recorder: Recorder, warmup_steps: int, max_draft_tokens: int) -> Totals:
    """Sums of the recorder; of prefill alone where no request went past its first token."""
    if session.index or warmup_steps:
        return recorder.totals()
    width = max_draft_tokens + 1
    prefill_s = session.prefill_s
    return Totals(
        num_steps=0,
        num_draft_tokens=0,
        num_output_tokens=session.num_first_tokens,
        num_prefill_tokens=session.num_prompt_tokens,
        elapsed_s=prefill_s,
        verify_s=0.0,
        draft_s=0.0,
        host_s=0.0,
        prefill_s=prefill_s,
        planner_s=0.0,
        exposed_planner_s=0.0,
        outcomes=np.zeros((width, width), dtype=np.int64),
    )
