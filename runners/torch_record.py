"""Recording: the target's own greedy outputs, and with them what a drafter proposes at every position, batched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from lightspec_bench.core import BoolArray, IntArray, Plan
from lightspec_bench.runners.torch_accept import Sampling
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_engine import Engine
from lightspec_bench.runners.torch_model import TorchModel, out_of_memory
from lightspec_bench.runners.torch_record_drafts import Drafts, Kept
from lightspec_bench.runners.torch_requests import Book, Request, check_requests


@torch.inference_mode()
def greedy_outputs(
    target: TorchModel, requests: Sequence[Request], num_slots: int, stop_tokens: Sequence[int] = ()
) -> Iterator[tuple[int, list[int]]]:
    """(row, the target's greedy output) of every request as it finishes, without speculation, `num_slots` at a time.

    Raises `BenchError` where a prompt does not fit or memory runs out.
    """
    length = check_requests(requests, None, target.max_positions, target.name)
    book = Book(requests, np.arange(len(requests)), num_slots, length, keep_full=False)
    with out_of_memory(f"generating {num_slots} outputs of {length} tokens at once: lower the batch"):
        engine = Engine(target, None, num_slots, length, Sampling(), stop_tokens, 1)
        yield from _finished(engine, book, *_admit(engine, book))
        while len(slots := book.running):
            verified = engine.verify(slots, Plan(0, num_verify_tokens=np.zeros_like(slots)))
            yield from _finished(engine, book, slots, verified.finished)
            yield from _finished(engine, book, *_admit(engine, book))


@torch.inference_mode()
def decode_and_draft(
    target: TorchModel, drafter: TorchDrafter, requests: Sequence[Request], num_slots: int, stop_tokens: Sequence[int]
) -> Iterator[tuple[int, list[int], Drafts]]:
    """(row, output, drafts at every position) of every request as it finishes, in one pass of the target.

    The engine decodes without verifying anything, and the drafter proposes all it can in every step.
    """
    length, width = check_requests(requests, None, target.max_positions, target.name), drafter.shape.max_draft_tokens
    book = Book(requests, np.arange(len(requests)), num_slots, length, keep_full=False)
    with out_of_memory(f"recording {num_slots} requests of {length} tokens at once: lower the batch"):
        engine = Engine(target, drafter, num_slots, length, Sampling(), stop_tokens, width)
        kept = Kept(num_slots, max((request.max_tokens for request in requests), default=1), width, target.device)
        while True:
            while len((joined := _admit(engine, book))[0]):
                yield from _recorded(engine, book, kept, *joined)
            slots = book.running
            if not len(slots):
                return
            verified = engine.verify(slots, Plan(0, num_verify_tokens=np.zeros_like(slots)))
            yield from _recorded(engine, book, kept, slots, verified.finished)


def _recorded(
    engine: Engine, book: Book, kept: Kept, slots: IntArray, done: BoolArray
) -> Iterator[tuple[int, list[int], Drafts]]:
    """Let those that go on draft, and keep it; those that are done leave with what was kept of them."""
    going = slots[~done]
    if len(going):
        engine.draft(going, np.full(len(going), kept.width, dtype=np.int64), None)
        kept.keep(engine, going)
    ended = {int(book.request_id(np.array([slot]))[0]): slot for slot in slots[done].tolist()}
    for row, output in _finished(engine, book, slots, done):
        yield row, output, kept.drafts(ended[row], np.array(output, dtype=np.int64))


def _admit(engine: Engine, book: Book) -> tuple[IntArray, BoolArray]:
    """Prefill into the free slots; who joined and who was done with the first token."""
    slots, prompts, limits = book.admit(0.0)
    if not len(slots):
        return slots, np.zeros(0, dtype=np.bool_)
    return slots, engine.prefill(slots, prompts, limits)


def _finished(engine: Engine, book: Book, slots: IntArray, done: BoolArray) -> Iterator[tuple[int, list[int]]]:
    for slot in slots[done].tolist():
        row = int(book.request_id(np.array([slot]))[0])
        book.finish(slot, 0.0, engine.release(slot))
        yield row, book.outputs.pop(row)
