"""A closed loop of requests through a vLLM engine in this process: one planner's run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from lightspec_bench.core import REQUEST_COLUMNS, Columns, EngineConfig, IntArray, Run
from lightspec_bench.runners.records import Recorder
from lightspec_bench.runners.requests import Book, Request, Sending
from lightspec_bench.runners.vllm_outcomes import Observer
from lightspec_bench.runners.vllm_requests import FinishedRequest
from lightspec_bench.runners.vllm_steps import TimedStep


class Watch(Observer):
    """An observer of the planned scheduler that keeps steps and finished requests."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.requests: list[FinishedRequest] = []

    def stepped(self, timed: TimedStep) -> None:
        step = timed.step
        self.recorder.prefilled(step.num_prefill_tokens, timed.num_first_tokens)
        self.recorder.record(step, timed.start_s, timed.end_s, timed.depth, step.planner_s, step.exposed_planner_s)

    def finished(self, slot: int, request: FinishedRequest) -> None:
        self.requests.append(request)


def drive(engine: Any, book: Book, ignore_stops: bool = False) -> Iterator[tuple[int, list[int]]]:
    """(slot, output) of each request as it finishes, in a loop that keeps the book's places taken.

    A request is sent under its number in the order of sending. What still runs once every counted request is done, or
    when the caller stops, is aborted. `ignore_stops`: outputs go on to their limit whatever comes out.
    """
    slot_of: dict[str, int] = {}
    number = 0
    try:
        while book.num_unfinished:
            slots, prompts, limits = book.admit(0.0)
            for slot, prompt, limit in zip(slots.tolist(), prompts, limits.tolist(), strict=True):
                name = str(number)
                engine.add_request(
                    name, {"prompt_token_ids": prompt.tolist()}, greedy(limit - len(prompt), ignore_stops)
                )
                slot_of[name], number = slot, number + 1
            for output in engine.step():
                if output.finished:
                    slot, tokens = slot_of.pop(output.request_id), list(output.outputs[0].token_ids)
                    yield slot, tokens
                    book.finish(slot, 0.0, tokens)
    finally:
        if slot_of:
            engine.abort_request(list(slot_of))


def greedy(max_tokens: int, ignore_stops: bool = False, logprobs: int | None = None) -> Any:
    """Sampling parameters. Text is not needed, and with a server another process makes it."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=0.0,
        max_tokens=max_tokens,
        ignore_eos=ignore_stops,
        detokenize=False,
        logprobs=logprobs,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def run_loop(
    engine: Any,
    requests: Sequence[Request],
    config: EngineConfig,
    sending: Sending,
    warmup_steps: int,
    length: int,
    ignore_stops: bool = False,
) -> tuple[Run, dict[int, list[int]]]:
    """The run under whatever plans in the engine."""
    control = engine.engine_core.engine_core.scheduler.lightspec
    book = Book.of(requests, sending, config.max_num_seqs, length)
    recorder = Recorder(config.max_draft_tokens, True, warmup_steps)
    watch = Watch(recorder)
    control.observers.append(watch)
    try:
        for _ in drive(engine, book, ignore_stops):
            pass
    finally:
        control.observers.remove(watch)
    order = sending.order(len(requests), config.max_num_seqs)
    columns = request_columns(watch.requests, order, len(requests), sending.num_counted(len(requests)))
    return Run({}, {}, "measured", recorder.totals(), columns, recorder.steps()), book.outputs


def request_columns(finished: Sequence[FinishedRequest], order: IntArray, number: int, counted: int) -> Columns:
    """`REQUEST_COLUMNS` of the counted requests that finished, in the order they were sent; ids as in the simulator."""
    done = sorted((each for each in finished if each.request_id < counted), key=lambda each: each.request_id)
    known = {field.name for field in fields(FinishedRequest)}
    columns = {name: np.array([getattr(each, name) for each in done]) for name in REQUEST_COLUMNS if name in known}
    sent = columns["request_id"].astype(np.int64)
    columns["request_id"] = order[sent] + sent // max(number, 1) * number
    return columns
