"""Suffix drafter: looks the longest recent suffix up in the request's own text and in what was written before it.

After SuffixDecoding (Oliaro et al. 2024): the longer the match, the more is drafted, up to `factor` tokens for each
matched one. A scan of an archive on the device takes the place of a suffix tree on the host.
"""

from __future__ import annotations

import torch

from lightspec_bench.core import BenchError, Drafter
from lightspec_bench.runners.torch_drafter import DraftRequest, FinalRows, Proposal
from lightspec_bench.runners.torch_lookup import LookupScore, continuation, longest_match, suffixes
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_ngram import looked_up


class SuffixDrafter:
    """Matches of up to `max_n` tokens in the own text, of `min_archive_n` or more in past outputs.

    `archive_tokens` is how many tokens of past outputs are kept, newest last.
    """

    taps: tuple[int, ...] = ()

    def __init__(
        self,
        max_draft_tokens: int = 8,
        max_n: int = 16,
        min_archive_n: int = 2,
        archive_tokens: int = 16384,
        factor: float = 2.0,
    ) -> None:
        if not 1 <= min_archive_n <= max_n:
            raise BenchError(f"min_archive_n is {min_archive_n}, expected 1 to {max_n}, which max_n is")
        if archive_tokens < 1 or factor <= 0.0:
            raise BenchError(f"archive_tokens is {archive_tokens} and factor {factor:g}, expected both above 0")
        self.shape = Drafter("ngram", max_draft_tokens)
        self.max_n, self.min_archive_n = max_n, min_archive_n
        self.archive_tokens, self.factor = archive_tokens, factor

    @property
    def name(self) -> str:
        return f"suffix up to {self.max_n}"

    def start(self, target: TorchModel, num_slots: int, capacity: int) -> None:
        self._archive = torch.full((1,), -1, dtype=torch.int64, device=target.device)
        kinds = 2 * (self.max_n + 1)  # matches in the own text, then in the archive
        self._score = LookupScore(kinds, self.shape.max_draft_tokens, num_slots, target.device)

    def join(self, slot: int) -> None:
        self._score.forget(slot)

    def leave(self, slot: int, tokens: torch.Tensor, num_prompt_tokens: int) -> None:
        """The output goes into the archive, behind a token that matches nothing."""
        self._score.forget(slot)
        output = tokens[num_prompt_tokens:]
        self._archive = torch.cat((self._archive, output, output.new_full((1,), -1)))[-self.archive_tokens :]

    def follow(self, rows: FinalRows) -> None:
        self._score.grade(rows)

    def draft(self, request: DraftRequest) -> Proposal:
        width = self.shape.max_draft_tokens
        text = request.tokens[request.slot]
        suffix = suffixes(request.tokens, request.slot, request.position, self.max_n)
        length, end = longest_match(text, request.position, suffix)
        own = text.gather(1, torch.minimum(continuation(end, request.position, width), request.position[:, None]))
        last = torch.full_like(request.position, len(self._archive) - 1)
        past_length, past_end = longest_match(self._archive[None], last, suffix)
        past_places = past_end[:, None] + 1 + torch.arange(width, device=text.device)
        past = self._archive[past_places.clamp(max=len(self._archive) - 1)]
        past_length = torch.where(past_length >= self.min_archive_n, past_length, 0)
        better = past_length > length
        length = torch.where(better, past_length, length)
        drafts = torch.where(better[:, None], past, own)
        ends = (drafts >= 0).long().cumprod(dim=1).sum(dim=1)
        most = torch.minimum((length * self.factor).ceil().long(), ends)
        kind = length + better.long() * (self.max_n + 1)
        return looked_up(self._score, request, drafts.clamp(min=0), kind, most)
