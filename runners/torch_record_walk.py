"""Drafting at every position of known outputs: the target's hidden states in one pass, then a walk along the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import IntArray
from lightspec_bench.runners.drafts import Answer, Drafts
from lightspec_bench.runners.torch_attention import PAGE
from lightspec_bench.runners.torch_cache import SlotCache
from lightspec_bench.runners.torch_clock import to_device
from lightspec_bench.runners.torch_drafter import DraftRequest, FinalRows, TorchDrafter
from lightspec_bench.runners.torch_engine import PREFILL_ROWS
from lightspec_bench.runners.torch_everywhere import DraftsEverywhere, can_draft_everywhere
from lightspec_bench.runners.torch_model import TorchModel, out_of_memory
from lightspec_bench.runners.torch_record_drafts import Kept, drafts_everywhere, no_drafts
from lightspec_bench.runners.torch_rows import make_rows


def draft_everywhere(
    target: TorchModel, drafter: TorchDrafter, answers: Sequence[Answer], num_slots: int
) -> Iterator[tuple[int, Drafts]]:
    """(row, drafts at every position) of every answer as it finishes: the drafter walks `num_slots` of them at once.

    It is asked at each position for all the tokens it can propose, sees what it would see in the engine, and is then
    told the target's own next token. Answers leave the drafter when they are done, so that a drafter which learns
    from past outputs does so as it would while serving.
    """
    longest = max((len(answer.text) for answer in answers), default=1)
    if can_draft_everywhere(drafter):
        yield from _at_once(target, drafter, answers, longest)
        return
    with out_of_memory(f"drafting on {num_slots} outputs of up to {longest} tokens at once: lower the batch"):
        walk = _Walk(target, drafter, answers, num_slots)
        while True:
            yield from walk.admit()
            if not len(walk.running):
                return
            yield from walk.step()


@torch.inference_mode()
def _at_once(
    target: TorchModel, drafter: DraftsEverywhere, answers: Sequence[Answer], longest: int
) -> Iterator[tuple[int, Drafts]]:
    """The same of a drafter that needs no walk: answer by answer, all positions of it together."""
    with out_of_memory(f"drafting on an output of {longest} tokens: take shorter outputs"):
        cache = SlotCache(1, longest + 1, target.device)
        target.watch(drafter.taps)
        drafter.start(target, 1, longest + 1)
        for row, answer in enumerate(answers):
            text = torch.from_numpy(answer.text).to(target.device)
            hidden = hidden_states(target, text[: max(len(text) - 2, 1)], cache, drafter.taps)
            yield row, drafts_everywhere(drafter, text, len(answer.prompt), hidden)


def hidden_states(target: TorchModel, text: Tensor, cache: SlotCache, taps: tuple[int, ...]) -> Tensor:
    """The target's hidden states at `taps` for the tokens of `text` (n,), (n, T, H), by way of the cache's slot 0."""
    parts = []
    for start in range(0, len(text), PREFILL_ROWS):
        tokens = text[start : start + PREFILL_ROWS]
        rows = make_rows(np.zeros(1, np.int64), np.array([start]), np.array([len(tokens)]), text.device)
        out = target.forward(tokens, rows, cache, rows.last_row, taps)
        assert out.features is not None
        parts.append(out.features)
    return torch.cat(parts)


class _Walk:
    """Answers in slots, each at one of its positions; the device holds texts, hidden states and drafts."""

    def __init__(self, target: TorchModel, drafter: TorchDrafter, answers: Sequence[Answer], num_slots: int) -> None:
        self.target, self.drafter, self.answers = target, drafter, answers
        self.width, device = drafter.shape.max_draft_tokens, target.device
        longest = max((len(answer.text) for answer in answers), default=1)
        outputs = max((len(answer.output) for answer in answers), default=1)
        capacity = longest + self.width + 1
        capacity = capacity if device.type == "cpu" else -(-capacity // PAGE) * PAGE
        self.text = torch.zeros((num_slots, capacity + 1), dtype=torch.int64, device=device)
        self.tokens = torch.zeros_like(self.text)  # what the drafter may see of it
        self.cache = SlotCache(1, capacity, device)
        self.features: Tensor | None = None  # (S, L, T, H) of the output's rows
        self.num_features = outputs
        self.kept = Kept(num_slots, outputs, self.width, device)
        self.row = np.full(num_slots, -1, dtype=np.int64)
        self.place = np.zeros(num_slots, dtype=np.int64)  # tokens that are out
        self.prompt_size = np.zeros(num_slots, dtype=np.int64)
        self.output_size = np.zeros(num_slots, dtype=np.int64)
        self.next = 0
        target.watch(drafter.taps)
        drafter.start(target, num_slots, capacity)

    @property
    def running(self) -> IntArray:
        return np.flatnonzero(self.row >= 0)

    @torch.inference_mode()
    def admit(self) -> Iterator[tuple[int, Drafts]]:
        """Fill the free slots; outputs of one token have no position to draft at and are done at once."""
        done = []
        for slot in np.flatnonzero(self.row < 0).tolist():
            while self.next < len(self.answers) and len(self.answers[self.next].output) < 2:
                done.append((self.next, no_drafts(len(self.answers[self.next].output), self.width)))
                self.next += 1
            if self.next == len(self.answers):
                break
            self._join(slot, self.next)
            self.next += 1
        return iter(done)

    def _join(self, slot: int, row: int) -> None:
        answer = self.answers[row]
        size = len(answer.prompt)
        self.row[slot], self.place[slot] = row, 1
        self.prompt_size[slot], self.output_size[slot] = size, len(answer.output)
        self.text[slot, : len(answer.text)] = torch.from_numpy(answer.text).to(self.text.device)
        self.tokens[slot, : size + 1] = self.text[slot, : size + 1]
        self.drafter.join(slot)
        hidden = None
        if taps := self.drafter.taps:
            hidden = hidden_states(self.target, self.text[slot, : len(answer.text) - 2], self.cache, taps)
            self._keep(slot, hidden[size:])
        position = torch.arange(size, device=self.text.device)
        self.drafter.follow(self._final_rows(torch.full_like(position, slot), position, hidden))

    def _keep(self, slot: int, hidden: Tensor) -> None:
        if self.features is None:
            self.features = hidden.new_zeros((len(self.row), self.num_features, *hidden.shape[1:]))
        self.features[slot, : len(hidden)] = hidden

    def _final_rows(self, slot: Tensor, position: Tensor, hidden: Tensor | None, most: int | None = None) -> FinalRows:
        features = None if hidden is None else hidden[: len(position)]
        return FinalRows(slot, position, self.text[slot, position], self.text[slot, position + 1], features, most)

    @torch.inference_mode()
    def step(self) -> Iterator[tuple[int, Drafts]]:
        """Every running answer drafts at its position and goes on to the next."""
        slots = self.running
        where = to_device(slots, self.text.device)
        newest = to_device(self.prompt_size[slots] + self.place[slots] - 1, self.text.device)
        depth = np.full(len(slots), self.width, dtype=np.int64)
        request = DraftRequest(where, depth, self.text[where, newest], newest, self.tokens)
        proposal = self.drafter.draft(request)
        place = to_device(self.place[slots], self.text.device)
        self.kept.put(where, place, proposal.tokens, proposal.num_tokens, proposal.confidence, proposal.entropy)
        self.place[slots] += 1
        ended = self.place[slots] >= self.output_size[slots]
        self._advance(slots[~ended])
        return iter([self._leave(slot) for slot in slots[ended].tolist()])

    def _advance(self, slots: IntArray) -> None:
        """The target's own next token is out."""
        if not len(slots):
            return
        where = to_device(slots, self.text.device)
        newest = to_device(self.prompt_size[slots] + self.place[slots] - 1, self.text.device)
        self.tokens[where, newest] = self.text[where, newest]
        read = newest - 1
        hidden = None
        if self.features is not None:
            hidden = self.features[where, to_device(self.place[slots] - 2, self.text.device)]
        self.drafter.follow(self._final_rows(where, read, hidden, 1))

    def _leave(self, slot: int) -> tuple[int, Drafts]:
        row, size, length = int(self.row[slot]), int(self.prompt_size[slot]), int(self.output_size[slot])
        self.drafter.leave(slot, self.text[slot, : size + length].clone(), size)
        self.row[slot] = -1
        return row, self.kept.drafts(slot, self.answers[row].output)
