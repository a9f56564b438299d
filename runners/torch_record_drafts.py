"""Proposals at every output position: kept on the device while they are made, then compared with the output."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import BenchError, IntArray
from lightspec_bench.runners.drafts import Drafts, compared
from lightspec_bench.runners.torch_clock import to_host
from lightspec_bench.runners.torch_everywhere import DraftsEverywhere


class Kept:
    """Proposals of every slot by output position, on the device: S slots, L positions, D draft tokens."""

    def __init__(self, num_slots: int, length: int, width: int, device: torch.device) -> None:
        self.width, shape = width, (num_slots, length, width)
        self.tokens = torch.zeros(shape, dtype=torch.int64, device=device)
        self.number = torch.zeros(shape[:2], dtype=torch.int64, device=device)
        self.confidence = torch.full(shape, torch.nan, device=device)
        self.entropy = torch.full(shape, torch.nan, device=device)

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


def drafts_everywhere(drafter: DraftsEverywhere, text: Tensor, num_prompt_tokens: int, features: Tensor) -> Drafts:
    """A drafter's proposals at every position of a text (n,), made at once, compared with its output."""
    (output,) = to_host(text[num_prompt_tokens:])
    if len(output) < 2:
        return no_drafts(len(output), drafter.shape.max_draft_tokens)
    made = drafter.everywhere(text, num_prompt_tokens, features)
    parts = to_host(made.tokens, made.num_tokens, made.confidence, made.entropy)
    return compared(output, *(np.concatenate((part[:1], part)) for part in parts))  # entry 0 is blanked there


def no_drafts(length: int, width: int) -> Drafts:
    """Of an output of one token, which has no position to draft at. Raises `BenchError` for one of none."""
    if length != 1:
        raise BenchError("an output has no tokens, expected at least 1")
    blank = np.full((1, width), np.nan, dtype=np.float32)
    return Drafts(np.zeros(1, np.int64), np.zeros(1, np.int64), blank, blank.copy())
