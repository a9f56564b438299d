"""A head unrolled over whole texts, step by step as it will draft (training-time test, EAGLE-3 arXiv 2503.01840).

Entry t of a text pairs the target's hidden states at t with the token at t + 1. In step s every entry continues its
own draft: it sees all real entries up to t, and of later steps only its own. Shapes: B texts, L positions padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from lightspec_bench.runners.torch_head_kinds import EagleHead, ParallelHead

SOFT_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Texts:
    """A padded batch. `embedding` are the tokens' embeddings, `learn` the rows whose distributions count."""

    taps: Tensor  # (B, L, T, H)
    embedding: Tensor  # (B, L, H)
    best: Tensor  # (B, L), the target's most probable next token
    learn: Tensor  # (B, L) bool


@dataclass(frozen=True, slots=True)
class Teacher:
    """What a head should say: distributions over the draft vocabulary and the place of the best token in it."""

    wanted: Tensor  # (B, L, Vd)
    place: Tensor  # (B, L), -1 where the best token is outside the draft vocabulary


def teacher(final_hidden: Tensor, rows: Tensor, best: Tensor, place_of: Tensor) -> Teacher:
    """Mix the target's distribution on the draft vocabulary (softmax over its rows) with its best token.

    `final_hidden` (B, L, H) is normed, `rows` (Vd, H) the target's output rows, `place_of` (V,) token id to place.
    """
    wanted = (final_hidden @ rows.T).float().softmax(-1)
    place = place_of[best]
    known = (place >= 0)[..., None]
    wanted = torch.where(known, wanted * SOFT_SHARE, wanted)
    extra = torch.where(known[..., 0], 1 - SOFT_SHARE, 0.0)
    wanted.scatter_add_(-1, place.clamp(min=0)[..., None], extra[..., None].to(wanted.dtype))
    return Teacher(wanted, place)


def unrolled(
    head: EagleHead | ParallelHead, texts: Texts, rotary: Tensor, steps: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """(outputs (B, L, H), embeddings of the token each output follows) of steps 1..`steps`.

    The output of step s at t foretells the token at t + s + 1; past the end of a text it is padding.
    """
    attend = ChainAttention()
    embedding = _ahead(texts.embedding, 1)
    if isinstance(head, ParallelHead):
        base = head.base(texts.taps, embedding)
    else:
        feature = head.fuse(texts.taps)
    length = base.shape[1] if isinstance(head, ParallelHead) else feature.shape[1]
    for step in range(1, steps + 1):
        embedding = _ahead(texts.embedding, step)
        places = rotary[step - 1 : step - 1 + length]
        if isinstance(head, ParallelHead):
            slot = torch.full(base.shape[:2], step - 1, device=base.device)
            output = head(base, slot, places, attend)
        else:
            output = feature = head(feature, embedding, places, attend)
        yield output, embedding


class ChainAttention:
    """Attention of one unroll: its first call is plainly causal, each later one also sees its own entry's calls."""

    def __init__(self) -> None:
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        repeats = query.shape[2] // key.shape[2]
        query, key, value = (heads.transpose(1, 2) for heads in (query, key, value))
        self._keys.append(key.repeat_interleave(repeats, dim=1))
        self._values.append(value.repeat_interleave(repeats, dim=1))
        length = query.shape[2]
        scores = query @ self._keys[0].transpose(2, 3)
        future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
        own = [(query * mine).sum(-1, keepdim=True) for mine in self._keys[1:]]
        weights = (torch.cat((scores, *own), dim=-1).float() * query.shape[-1] ** -0.5).softmax(-1).to(query.dtype)
        out = weights[..., :length] @ self._values[0]
        for number, mine in enumerate(self._values[1:]):
            out = out + weights[..., length + number, None] * mine
        return out.transpose(1, 2)  # type: ignore[no-any-return]


def step_loss(
    head: EagleHead | ParallelHead,
    output: Tensor,
    embedding: Tensor,
    step: int,
    texts: Texts,
    wanted: Teacher,
    rows: Tensor,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of one step over the rows that count, and which of all entries (B, L) were right."""
    counts = _ahead(texts.learn, step)
    chosen = counts.nonzero(as_tuple=True)
    ahead = chosen[0], chosen[1] + step
    if isinstance(head, ParallelHead):
        logits = head.logits(output[chosen], embedding[chosen], rows)
    else:
        logits = head.logits(output[chosen], rows)
    logits = logits.float()
    loss = cross_entropy(logits, wanted.wanted[ahead])
    right = torch.zeros_like(counts)
    right[chosen] = logits.detach().max(-1).indices == wanted.place[ahead]
    return loss, right


def _ahead(values: Tensor, by: int) -> Tensor:
    """(B, L, ...) moved `by` positions to the left; the end is zero."""
    tail = (0, 0) * (values.dim() - 2) + (0, by)
    return pad(values[:, by:], tail)
