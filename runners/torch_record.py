"""Recording: the target's own greedy outputs, and with them what a drafter proposes at every position, batched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import BoolArray, Drafter, IntArray, Plan
from lightspec_bench.runners.drafts import Drafts
from lightspec_bench.runners.requests import Book, Request, check_requests
from lightspec_bench.runners.torch_accept import Sampling
from lightspec_bench.runners.torch_drafter import DraftRequest, FinalRows, Proposal
from lightspec_bench.runners.torch_engine import Engine
from lightspec_bench.runners.torch_everywhere import DraftsEverywhere
from lightspec_bench.runners.torch_model import TorchModel, out_of_memory
from lightspec_bench.runners.torch_record_drafts import drafts_everywhere


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
        yield from _decoded(engine, book)


@torch.inference_mode()
def decode_and_draft(
    target: TorchModel,
    drafter: DraftsEverywhere,
    requests: Sequence[Request],
    num_slots: int,
    stop_tokens: Sequence[int],
) -> Iterator[tuple[int, list[int], Drafts]]:
    """(row, output, drafts at every position) of every request as it finishes, in one pass of the target.

    The drafter is one that can draft everywhere: it is asked when an output is complete, with the hidden states of
    the passes that made it.
    """
    length = check_requests(requests, None, target.max_positions, target.name)
    book = Book(requests, np.arange(len(requests)), num_slots, length, keep_full=False)
    listener = _Listener(drafter)
    with out_of_memory(f"recording {num_slots} requests of {length} tokens at once: lower the batch"):
        engine = Engine(target, listener, num_slots, length, Sampling(), stop_tokens, 1)
        for row, output in _decoded(engine, book):
            yield row, output, listener.newest


class _Listener:
    """Stands in the engine where a drafter would: keeps the hidden states, and drafts when a request leaves."""

    def __init__(self, drafter: DraftsEverywhere) -> None:
        self._drafter = drafter
        self.name, self.taps = drafter.name, drafter.taps
        self.shape = Drafter(drafter.shape.kind, 1)
        self._features = torch.zeros(0)  # (S, capacity, T, H), from the first rows on
        self.newest: Drafts  # of the request that left last

    def start(self, target: TorchModel, num_slots: int, capacity: int) -> None:
        self._drafter.start(target, 1, capacity)
        size = (num_slots, capacity, len(self.taps), target.hidden_size)
        self._features = torch.zeros(size, dtype=target.dtype, device=target.device)

    def join(self, slot: int) -> None:
        """Nothing is kept of an earlier request that this one does not overwrite."""

    def follow(self, rows: FinalRows) -> None:
        assert rows.features is not None
        self._features[rows.slot, rows.position] = rows.features

    def draft(self, request: DraftRequest) -> Proposal:
        raise AssertionError("a recording asks for drafts of whole outputs only")

    def leave(self, slot: int, tokens: Tensor, num_prompt_tokens: int) -> None:
        self.newest = drafts_everywhere(self._drafter, tokens, num_prompt_tokens, self._features[slot])


def _decoded(engine: Engine, book: Book) -> Iterator[tuple[int, list[int]]]:
    """(row, output) of every request of the book as it finishes: the target alone, with nothing to verify."""
    while True:
        while len((joined := _admit(engine, book))[0]):
            yield from _finished(engine, book, *joined)
        slots = book.running
        if not len(slots):
            return
        nothing = np.zeros_like(slots)
        verified = engine.verify(slots, Plan(0, num_verify_tokens=nothing))
        going = ~verified.finished
        engine.draft(slots[going], nothing[going], None)  # no draft, but the drafter follows
        yield from _finished(engine, book, slots, verified.finished)


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
