"""Proposals at every output position of a known answer: what a recording is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import Confidence, IntArray


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
