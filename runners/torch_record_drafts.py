"""Proposals at every output position: kept on the device while they are made, then compared with the output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import Confidence, IntArray
from lightspec_bench.runners.torch_clock import to_device, to_host
from lightspec_bench.runners.torch_engine import Engine


@dataclass(frozen=True, slots=True)
class Answer:
    """A prompt and the target's own output for it, as token ids."""

    prompt: IntArray
    output: IntArray

    @property
    def text(self) -> IntArray:
        return np.concatenate((self.prompt, self.output)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Drafts:
    """What a drafter proposed at every output position of an answer: L positions, entry 0 the placeholder.

    `num_accepted[p]` is how many of its tokens the target would accept there, `confidence` and `entropy` are NaN past
    `num_draft_tokens`.
    """

    num_accepted: IntArray  # (L,)
    num_draft_tokens: IntArray  # (L,)
    confidence: Confidence  # (L, D)
    entropy: Confidence  # (L, D)


class Kept:
    """Proposals of every slot by output position, on the device: S slots, L positions, D draft tokens."""

    def __init__(self, num_slots: int, length: int, width: int, device: torch.device) -> None:
        self.width, shape = width, (num_slots, length, width)
        self.tokens = torch.zeros(shape, dtype=torch.int64, device=device)
        self.number = torch.zeros(shape[:2], dtype=torch.int64, device=device)
        self.confidence = torch.full(shape, torch.nan, device=device)
        self.entropy = torch.full(shape, torch.nan, device=device)

    def keep(self, engine: Engine, slots: IntArray) -> None:
        """What an engine's slots have pending, at the position where each of them stands."""
        state = engine.slots
        where = to_device(slots, self.tokens.device)
        place = to_device(state.lengths[slots] - state.prompt_lengths[slots], self.tokens.device)
        self.put(
            where, place, state.drafts[where], state.num_drafts[where], state.confidence[where], state.entropy[where]
        )

    def put(
        self, where: Tensor, place: Tensor, tokens: Tensor, number: Tensor, confidence: Tensor, entropy: Tensor
    ) -> None:
        self.tokens[where, place], self.number[where, place] = tokens, number
        self.confidence[where, place], self.entropy[where, place] = confidence.float(), entropy.float()

    def drafts(self, slot: int, output: IntArray) -> Drafts:
        """What was kept of a slot, compared with the output it had, (L,)."""
        some = slice(0, len(output))
        parts = (self.tokens, self.number, self.confidence, self.entropy)
        return compared(output, *to_host(*(part[slot, some].clone() for part in parts)))


def compared(
    output: IntArray, drafts: IntArray, number: IntArray, confidence: Confidence, entropy: Confidence
) -> Drafts:
    """Count the draft tokens (L, D) that agree with the output (L,), which the bonus token must not leave."""
    length, width = drafts.shape
    place = np.arange(length)[:, None] + np.arange(width)
    drafted = np.arange(width) < number[:, None]
    right = drafted & (place < length) & (drafts == output[np.minimum(place, length - 1)])
    accepted = np.minimum(np.cumprod(right, axis=1).sum(axis=1), length - 1 - np.arange(length))
    accepted[0], number[0], drafted[0] = 0, 0, False
    blank = np.float32(np.nan)
    return Drafts(accepted, number, np.where(drafted, confidence, blank), np.where(drafted, entropy, blank))
