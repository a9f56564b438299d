"""Slots of the real engine: each request's tokens, length, limit and pending draft, on the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import IntArray
from lightspec_bench.runners.torch_clock import to_device


class Slots:
    """State of S slots and a scratch slot. The host knows lengths exactly between steps, and never draft tokens.

    `tokens[slot, :length]` are a request's prompt and output; what lies beyond means nothing. Of the newest token,
    at `length - 1`, the target has no keys yet: it is the first row of the next step.
    """

    def __init__(self, num_slots: int, max_model_len: int, max_draft_tokens: int, device: torch.device) -> None:
        self.num_slots, self.device = num_slots, device
        rows = num_slots + 1
        # One slot more than a request may have tokens for: a step writes up to D + 1 tokens before they are cut.
        self.tokens = torch.zeros((rows, max_model_len + max_draft_tokens + 2), dtype=torch.int64, device=device)
        self.length = torch.zeros(rows, dtype=torch.int64, device=device)
        self.limit = torch.zeros(rows, dtype=torch.int64, device=device)
        self.drafts = torch.zeros((rows, max_draft_tokens), dtype=torch.int64, device=device)
        self.num_drafts = torch.zeros(rows, dtype=torch.int64, device=device)
        self.confidence = torch.full((rows, max_draft_tokens), torch.nan, device=device)
        self.entropy = torch.full((rows, max_draft_tokens), torch.nan, device=device)
        self.lengths = np.zeros(rows, dtype=np.int64)  # `length` on the host
        self.prompt_lengths = np.zeros(rows, dtype=np.int64)
        self.most_drafts = np.zeros(rows, dtype=np.int64)  # at least `num_drafts`

    def join(self, slots: IntArray, prompts: list[IntArray], limits: IntArray) -> None:
        """Requests take these slots; `limits` are the most tokens each may have, prompt included."""
        sizes = np.array([len(prompt) for prompt in prompts])
        self.lengths[slots] = self.prompt_lengths[slots] = sizes
        self.most_drafts[slots] = 0
        where = to_device(slots, self.device)
        self.length[where] = to_device(sizes, self.device)
        self.limit[where] = to_device(limits, self.device)
        self.num_drafts[where] = 0
        for slot, prompt in zip(slots, prompts, strict=True):
            self.tokens[int(slot), : len(prompt)] = to_device(prompt, self.device)

    def append(self, where: Tensor, tokens: Tensor, number: Tensor) -> None:
        """Write the first `number` (N,) of `tokens` (N, W) behind what these slots have."""
        place = self.length[where][:, None] + torch.arange(tokens.shape[1], device=self.device)
        self.tokens[where[:, None], place] = tokens
        self.length[where] += number

    def output(self, slot: int) -> list[int]:
        """Tokens that came out so far."""
        found = self.tokens[slot, int(self.prompt_lengths[slot]) : int(self.lengths[slot])]
        return [int(token) for token in found.tolist()]
