"""Looking drafts up: the longest earlier occurrence of what was written last, and how often such drafts were right."""

from __future__ import annotations

import torch
from torch import Tensor

from lightspec_bench.runners.torch_drafter import FinalRows

PRIOR_TRIES = 4.0


def suffixes(tokens: Tensor, slot: Tensor, position: Tensor, max_n: int) -> Tensor:
    """The last `max_n` tokens of each request, newest first, (M, max_n); before its start -2, which matches nothing."""
    place = position[:, None] - torch.arange(max_n, device=tokens.device)
    return torch.where(place >= 0, tokens[slot[:, None], place.clamp(min=0)], -2)


def longest_match(history: Tensor, last: Tensor, suffix: Tensor) -> tuple[Tensor, Tensor]:
    """Length of the longest end of `suffix` (M, n; newest first) in `history` (M or 1, L), and where it ends, (M,).

    Only ends before `last` (M,) count, so that a token follows them; of several the latest is taken. Length 0: none.
    """
    place = torch.arange(history.shape[1], device=history.device)
    runs = (history == suffix[:, :1]) & (place < last[:, None])
    length, end = torch.zeros_like(last), torch.zeros_like(last)
    for size in range(1, suffix.shape[1] + 1):
        if size > 1:
            runs[:, size - 1 :] &= history[:, : 1 - size] == suffix[:, size - 1 : size]
            runs[:, : size - 1] = False
        found, latest = runs.any(dim=1), torch.where(runs, place, -1).amax(dim=1)
        length, end = torch.where(found, size, length), torch.where(found, latest, end)
        if runs.device.type == "cpu" and not found.any():
            break
    return length, end


def continuation(end: Tensor, last: Tensor, width: int) -> Tensor:
    """Places of the `width` tokens after `end`, (M, width); where they reach `last` the stretch since `end` repeats."""
    period = (last - end).clamp(min=1)
    return end[:, None] + 1 + torch.arange(width, device=end.device) % period[:, None]


class LookupScore:
    """How often looked-up tokens were right, by the kind of match and the depth: the confidence of such drafts.

    Looked-up drafts have no distribution of their own. Each is graded when the tokens that really came are final; the
    estimate depends on the past only, as losslessness asks. Before any grade it is 0.5 for the first token after a
    match of one, rising with the match's length, and 0.8 after that.
    """

    def __init__(self, num_kinds: int, width: int, num_slots: int, device: torch.device) -> None:
        kinds = torch.arange(num_kinds, dtype=torch.float64, device=device)
        prior = torch.full((num_kinds, width), 0.8, dtype=torch.float64, device=device)
        prior[:, 0] = kinds / (kinds + 1.0)
        self._hits, self._tries = prior * PRIOR_TRIES, torch.full_like(prior, PRIOR_TRIES)
        self._tokens = torch.full((num_slots + 1, width), -1, dtype=torch.int64, device=device)
        self._base = torch.zeros(num_slots + 1, dtype=torch.int64, device=device)
        self._kind = torch.zeros(num_slots + 1, dtype=torch.int64, device=device)

    def confidence(self, kind: Tensor) -> tuple[Tensor, Tensor]:
        """Of every depth after matches of these kinds (M,): confidences, and the entropy of right or wrong, (M, D)."""
        right = (self._hits / self._tries)[kind].clamp(1e-6, 1.0 - 1e-6)
        entropy = -(right * right.log() + (1.0 - right) * (1.0 - right).log())
        return right.float(), entropy.float()

    def remember(self, slot: Tensor, position: Tensor, kind: Tensor, tokens: Tensor) -> None:
        """Drafts (M, D) that follow `position`, to be graded; -1 where there is none."""
        self._tokens[slot], self._base[slot], self._kind[slot] = tokens, position, kind

    def grade(self, rows: FinalRows) -> None:
        """Compare with what came: every token up to the first wrong one, verified or not."""
        depth = rows.position - self._base[rows.slot]
        width = self._tokens.shape[1]
        here = depth.clamp(0, width - 1)
        drafted = self._tokens[rows.slot, here]
        graded = ((depth == here) & (drafted >= 0)).double()
        where = (self._kind[rows.slot], here)
        self._tries.index_put_(where, graded, accumulate=True)
        self._hits.index_put_(where, graded * (drafted == rows.next_token), accumulate=True)

    def forget(self, slot: int) -> None:
        self._tokens[slot] = -1
