"""Acceptance on the device: which draft tokens of a step stand, and which token follows them.

Three methods, all lossless. Greedy and sample-then-compare draw the target's token at every row and keep the longest
prefix of drafts that equals it. Rejection sampling keeps a draft token x with probability min(1, p(x) / q(x)) and
else draws from max(p - q, 0), normalised (Leviathan et al. 2023); a token chosen greedily is a point mass, q(x) = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from lightspec_bench.core import BenchError
from lightspec_bench.runners.torch_rows import Rows

Method: TypeAlias = Literal["compare", "rejection"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target's tokens are chosen: greedily at temperature 0, else from softmax(logits / temperature).

    `method`, where sampling: "compare" (sample, then compare with the drafts) or "rejection".
    """

    temperature: float = 0.0
    method: Method = "compare"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise BenchError(f"temperature is {self.temperature}, expected 0 (greedy) or more")
        if self.method not in METHODS:
            raise BenchError(f"sampling method is {self.method!r}, expected one of {', '.join(METHODS)}")

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    def __str__(self) -> str:
        return "greedy" if self.is_greedy else f"temperature {self.temperature:g}, {self.method}"


def best_token(scores: Tensor) -> Tensor:
    """Index of the largest score of each row, the first of equals: (..., V) -> (...)."""
    if scores.device.type == "cpu" and scores.dtype != torch.float64:  # float32 is exact for the half types
        return torch.as_tensor(scores.detach().float().numpy().argmax(axis=-1))  # several times as fast as torch's own
    return scores.argmax(dim=-1)


class Acceptor:
    """Chooses tokens under `sampling`, from its own random state."""

    def __init__(self, sampling: Sampling, device: torch.device) -> None:
        self.sampling = sampling
        self._generator = torch.Generator(device=device).manual_seed(sampling.seed)

    def choose(self, logits: Tensor) -> Tensor:
        """The target's own token of each row: (..., V) -> (...)."""
        if self.sampling.is_greedy:
            return best_token(logits)
        return self._draw(self._distribution(logits))

    def accept(
        self, logits: Tensor, drafts: Tensor, rows: Rows, probability: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Tokens that come out, (N, W), and how many draft tokens were accepted, (N,); W is `rows.max_count`.

        Row j of a request read its last token (j = 0) or draft token j - 1; `drafts` (N, D) are the drafts, of which
        each request verifies its first `rows.counts - 1`. `probability` (N, D, V) is what they were sampled from,
        None for point masses. Entries of the tokens past the accepted ones and the one after them mean nothing.
        """
        width = rows.max_count
        index, real = rows.padded(width)
        drafts, verified = drafts[:, : width - 1], real[:, 1:]
        if self.sampling.is_greedy or self.sampling.method == "compare":
            chosen = self.choose(logits)[index]
            return chosen, _prefix_length((drafts == chosen[:, :-1]) & verified)
        target = self._distribution(logits)[index]
        draft = _point_masses(drafts, target) if probability is None else probability[:, : width - 1].to(target.dtype)
        return self._reject(target, draft, drafts, verified)

    def _reject(self, target: Tensor, draft: Tensor, drafts: Tensor, verified: Tensor) -> tuple[Tensor, Tensor]:
        """`target` (N, W, V) and `draft` (N, W - 1, V) are the distributions at every place."""
        chance = _at(target[:, :-1], drafts) / _at(draft, drafts).clamp(min=torch.finfo(target.dtype).tiny)
        luck = torch.rand(chance.shape, generator=self._generator, device=chance.device, dtype=chance.dtype)
        accepted = _prefix_length((luck < chance) & verified)
        everyone = torch.arange(len(accepted), device=accepted.device)
        last = target[everyone, accepted]
        if drafts.shape[1]:
            rejected = accepted < verified.sum(dim=1)
            against = draft[everyone, accepted.clamp(max=drafts.shape[1] - 1)]
            last = torch.where(rejected[:, None], (last - against).clamp(min=0.0), last)
        tokens = torch.cat((drafts, drafts.new_zeros(len(drafts), 1)), dim=1)
        return tokens.scatter(1, accepted[:, None], self._draw(last)[:, None]), accepted

    def _distribution(self, logits: Tensor) -> Tensor:
        return torch.softmax(logits.float() / self.sampling.temperature, dim=-1)

    def _draw(self, weights: Tensor) -> Tensor:
        """One token a row, with chances in proportion to `weights` (..., V): the first of exponential clocks."""
        noise = torch.empty_like(weights).exponential_(generator=self._generator)
        return (weights / noise).argmax(dim=-1)


def _prefix_length(matches: Tensor) -> Tensor:
    """Length of the run of matches that each row starts with, (N, W - 1) -> (N,)."""
    return matches.long().cumprod(dim=1).sum(dim=1)


def _at(distribution: Tensor, tokens: Tensor) -> Tensor:
    return distribution.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def _point_masses(tokens: Tensor, like: Tensor) -> Tensor:
    shape = (*tokens.shape, like.shape[-1])
    return torch.zeros(shape, dtype=like.dtype, device=like.device).scatter_(-1, tokens.unsqueeze(-1), 1.0)
