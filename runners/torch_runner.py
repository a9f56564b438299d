"""The torch runner: real prompts through a real target and a real drafter, batched, under a planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from lightspec_bench.core import BenchError, EngineConfig, IntArray, Planner, Run, Totals
from lightspec_bench.registry import name_of
from lightspec_bench.runners.records import Recorder
from lightspec_bench.runners.torch_accept import Sampling
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_engine import Engine
from lightspec_bench.runners.torch_model import TorchModel, out_of_memory
from lightspec_bench.runners.torch_planning import Planning
from lightspec_bench.runners.torch_requests import Book, Request, check_requests
from lightspec_bench.runners.torch_session import Session


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """How the real engine runs.

    `max_model_len`: tokens a slot holds, prompt and output; None: what the longest request needs. A request that
    would grow past it ends there. `num_requests`: how many to send, from the start again where there are fewer
    prompts; None for each once. `shuffle_seed`: send them in the simulator's order of that seed, None for their own.
    `keep_full`: keep sending, uncounted, until the last counted request is done: there is no tail.
    """

    sampling: Sampling = field(default_factory=Sampling)
    stop_tokens: tuple[int, ...] = ()
    max_model_len: int | None = None
    num_requests: int | None = None
    shuffle_seed: int | None = None
    keep_full: bool = False
    warmup_steps: int = 0
    keep_steps: bool = True

    def __post_init__(self) -> None:
        for name, value, least in (
            ("num_requests", self.num_requests, 1),
            ("max_model_len", self.max_model_len, 2),
            ("warmup_steps", self.warmup_steps, 0),
        ):
            if value is not None and value < least:
                raise BenchError(f"{name} is {value}, expected at least {least}")


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
        book = Book(self.requests, self._order(), config.max_num_seqs, length, options.keep_full, self._num_counted)
        recorder = Recorder(config.max_draft_tokens, options.keep_steps, options.warmup_steps)
        planning = Planning(planner, name, config.max_draft_tokens, config.lag_steps)
        advice = f"running {config.max_num_seqs} requests of {length} tokens: lower concurrency or max_model_len"
        try:
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

    @property
    def _num_counted(self) -> int:
        return (self.options.num_requests or len(self.requests)) if self.requests else 0

    def _order(self) -> IntArray:
        """Rows of the requests in the order they are sent: those that count, and as many rounds more as keep the
        slots full, each in an order of its own as the simulator's are."""
        number = len(self.requests)
        if not number:
            return np.zeros(0, dtype=np.int64)
        wanted, seed = self._num_counted, self.options.shuffle_seed
        more = 4 * self.config.max_num_seqs if self.options.keep_full else 0
        rounds = range(-(-(wanted + more) // number))
        if seed is None:
            order = np.tile(np.arange(number), len(rounds))
        else:
            order = np.concatenate([np.random.default_rng([seed, r]).permutation(number) for r in rounds])
        return order if more else order[:wanted]


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
