"""Prompt lookup: drafts what followed the longest recent n-gram when it stood in the request's own text before.

After "Prompt Lookup Decoding" (Saxena 2023). The latest occurrence is taken, and a copy that reaches the end of the
text goes on with itself, so that a repetition is drafted to any depth.
"""

from __future__ import annotations

import torch

from lightspec_bench.core import BenchError, Drafter
from lightspec_bench.runners.torch_drafter import DraftRequest, ExitState, FinalRows, Proposal
from lightspec_bench.runners.torch_lookup import LookupScore, continuation, longest_match, suffixes
from lightspec_bench.runners.torch_model import TorchModel


class NgramDrafter:
    """Matches of `min_n` to `max_n` tokens."""

    taps: tuple[int, ...] = ()

    def __init__(self, max_draft_tokens: int = 8, min_n: int = 1, max_n: int = 4) -> None:
        if not 1 <= min_n <= max_n:
            raise BenchError(f"min_n is {min_n} and max_n {max_n}, expected 1 <= min_n <= max_n")
        self.shape = Drafter("ngram", max_draft_tokens)
        self.min_n, self.max_n = min_n, max_n

    @property
    def name(self) -> str:
        return f"ngram {self.min_n}-{self.max_n}"

    def start(self, target: TorchModel, num_slots: int, capacity: int) -> None:
        self._score = LookupScore(self.max_n + 1, self.shape.max_draft_tokens, num_slots, target.device)

    def join(self, slot: int) -> None:
        self._score.forget(slot)

    def leave(self, slot: int, tokens: torch.Tensor, num_prompt_tokens: int) -> None:
        self._score.forget(slot)

    def follow(self, rows: FinalRows) -> None:
        self._score.grade(rows)

    def draft(self, request: DraftRequest) -> Proposal:
        text = request.tokens[request.slot]
        suffix = suffixes(request.tokens, request.slot, request.position, self.max_n)
        length, end = longest_match(text, request.position, suffix)
        places = continuation(end, request.position, self.shape.max_draft_tokens)
        drafts = text.gather(1, torch.minimum(places, request.position[:, None]))
        found = length >= self.min_n
        return looked_up(self._score, request, drafts, length, found)


def looked_up(
    score: LookupScore, request: DraftRequest, drafts: torch.Tensor, kind: torch.Tensor, most: torch.Tensor
) -> Proposal:
    """A proposal of looked-up tokens, with the confidence of their kind of match.

    `most` (M,) is how many tokens may be drafted, or whether any.
    """
    width = drafts.shape[1]
    confidence, entropy = score.confidence(kind)
    state = ExitState(request.early_exit, request.depth, drafts.device)
    for number in range(1, request.max_depth + 1):
        state.after(number, confidence[:, number - 1], entropy[:, number - 1])
    most = torch.where(most, width, 0) if most.dtype == torch.bool else most
    number_of = torch.minimum(state.num_tokens(), most)
    drafted = torch.arange(width, device=drafts.device) < number_of[:, None]
    score.remember(request.slot, request.position, kind, torch.where(drafted, drafts, -1))
    nothing = torch.full_like(confidence, torch.nan)
    return Proposal(
        drafts, number_of, torch.where(drafted, confidence, nothing), torch.where(drafted, entropy, nothing)
    )
