"""The protocol of real drafters: what the engine hands to a drafter, and what it gets back.

Shapes: S slots, M requests that draft, F rows that became final, T taps, H the target's hidden size, D draft tokens.
Tensors lie on the target's device; requests are always in ascending order of their slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import Drafter, EarlyExit, IntArray
from lightspec_bench.runners.torch_accept import best_token
from lightspec_bench.runners.torch_clock import to_device
from lightspec_bench.runners.torch_model import TorchModel


@dataclass(frozen=True, slots=True)
class FinalRows:
    """Rows of the target's forward whose tokens are final: prompt rows, or a step's target row and accepted drafts.

    Row `position` of a request read `token`; `next_token` is the token at `position + 1`, final as well. Of each
    request the rows are consecutive and in order, and they follow the rows of its earlier `FinalRows` without a gap.
    `features` are the target's hidden states at `TorchDrafter.taps`, None where a drafter wants none. No request has
    more than `most` of the rows, None where nobody counted.
    """

    slot: Tensor  # (F,) int64
    position: Tensor  # (F,) int64
    token: Tensor  # (F,) int64
    next_token: Tensor  # (F,) int64
    features: Tensor | None  # (F, T, H) in the target's dtype
    most: int | None = None

    @property
    def num_rows(self) -> int:
        return len(self.slot)

    def take(self, index: Tensor) -> FinalRows:
        """Some of the rows, by index or mask; a mask asks the device how many they are, once."""
        index = index.nonzero().squeeze(1) if index.dtype is torch.bool else index
        features = None if self.features is None else self.features[index]
        return FinalRows(
            self.slot[index], self.position[index], self.token[index], self.next_token[index], features, self.most
        )


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """Who drafts, and how deep. A depth of 0 is allowed: such a request gets no token and may be left behind."""

    slot: Tensor  # (M,) int64, ascending
    depth: IntArray  # (M,) on the host, 0..D
    token: Tensor  # (M,) int64, the newest token: final, not yet read by the target
    position: Tensor  # (M,) int64, where it stands
    tokens: Tensor  # (S, capacity + 1) int64, every slot's prompt and output up to `position`
    early_exit: EarlyExit | None = None  # thresholds already in the order of `slot`

    @property
    def max_depth(self) -> int:
        return int(self.depth.max(initial=0))


@dataclass(frozen=True, slots=True)
class Proposal:
    """Draft tokens of M requests. Entries past `num_tokens` are ignored.

    `confidence` is the probability of the most probable token, `entropy` that distribution's (nats): functions of the
    prefix, never of the token that was drawn, or else sampled output would be biased. `probability` (M, D, V) is the
    distribution each token was sampled from; None for tokens chosen greedily or looked up, which are point masses.
    """

    tokens: Tensor  # (M, D) int64
    num_tokens: Tensor  # (M,) int64
    confidence: Tensor  # (M, D) float32
    entropy: Tensor  # (M, D) float32
    probability: Tensor | None = None  # (M, D, V) float32


class TorchDrafter(Protocol):
    """A drafter. `start` is called once, before anything else; then in every step `follow` before `draft`.

    `shape` is its kind, which fixes its cost, and D. `taps` are the hidden states of the target it wants: 0 the
    embeddings, i the output of decoder layer i (from 1, before the final norm). `name` goes into records.
    """

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Drafter: ...
    @property
    def taps(self) -> tuple[int, ...]: ...

    def start(self, target: TorchModel, num_slots: int, capacity: int) -> None:
        """Allocate state for `num_slots` requests of at most `capacity` tokens; raises `BenchError` where it does
        not fit the target. Called again, it forgets everything."""

    def join(self, slot: int) -> None:
        """A request takes the slot; its prompt rows follow."""

    def leave(self, slot: int, tokens: Tensor, num_prompt_tokens: int) -> None:
        """The request is done; `tokens` (L,) are its prompt and output."""

    def follow(self, rows: FinalRows) -> None:
        """Rows became final. A drafter may put them off (`Backlog`) until the request drafts again."""

    def draft(self, request: DraftRequest) -> Proposal:
        """Propose up to `depth` tokens per request, catching up first where it lies behind. Drafts the same
        whether it caught up in every step or all at once."""


_PAST_ANY_POSITION = 1 << 32


class Backlog:
    """Final rows that a drafter has not read yet, of any slots."""

    def __init__(self) -> None:
        self._rows: list[FinalRows] = []
        self._dropped: set[int] = set()

    def add(self, rows: FinalRows) -> None:
        self._forget_dropped()
        if rows.num_rows:
            self._rows.append(rows)

    def take(self, slot: Tensor) -> FinalRows | None:
        """Remove and return the rows of these slots, by slot and then by position; None where there is none."""
        self._forget_dropped()
        if not self._rows:
            return None
        rows = _concatenated(self._rows)
        wanted = torch.isin(rows.slot, slot)
        rest = rows.take(~wanted)
        self._rows = [rest] if rest.num_rows else []
        rows = rows.take(wanted)
        if not rows.num_rows:
            return None
        order = torch.argsort(rows.slot * _PAST_ANY_POSITION + rows.position)
        return rows.take(order)

    def drop(self, slot: int) -> None:
        """Forget the rows of a slot."""
        if self._rows:
            self._dropped.add(slot)

    def _forget_dropped(self) -> None:
        """Of all slots dropped since rows last came or went, at once."""
        if not self._dropped:
            return
        dropped = torch.tensor(sorted(self._dropped), device=self._rows[0].slot.device)
        kept = [rows.take(~torch.isin(rows.slot, dropped)) for rows in self._rows]
        self._rows = [rows for rows in kept if rows.num_rows]
        self._dropped.clear()


def _concatenated(parts: list[FinalRows]) -> FinalRows:
    if len(parts) == 1:
        return parts[0]
    features = [part.features for part in parts if part.features is not None]
    most = [part.most for part in parts if part.most is not None]
    return FinalRows(
        slot=torch.cat([part.slot for part in parts]),
        position=torch.cat([part.position for part in parts]),
        token=torch.cat([part.token for part in parts]),
        next_token=torch.cat([part.next_token for part in parts]),
        features=torch.cat(features) if features else None,
        most=sum(most) if len(most) == len(parts) else None,
    )


class ExitState:
    """An early-exit rule followed token by token on the device; the same rule as `early_exit.stopped_drafts`.

    `drafting` (M,) says who drafts another token. Without a rule everyone drafts to their depth.
    """

    def __init__(self, rule: EarlyExit | None, depth: IntArray, device: torch.device) -> None:
        self._rule, self._host_depth, self._number = rule, depth, 0
        self._depth = to_device(depth, device)
        self._kept = self._depth.clone()
        self.drafting = self._depth > 0
        if rule is not None:
            self._threshold = torch.as_tensor(np.asarray(rule.threshold, dtype=np.float64), device=device)
            self._product = torch.ones(len(depth), dtype=torch.float64, device=device)
            self._dead = ~self.drafting

    def after(self, number: int, confidence: Tensor, entropy: Tensor) -> None:
        """Token `number` (from 1) of every request is out, with its top probability and entropy, both (M,)."""
        wants, self._number = self._depth >= number, number
        if self._rule is not None:
            past = self._past(self._signal(confidence, entropy), wants)
            past = past & self.drafting & wants & (number >= self._rule.min_draft_tokens)
            kept = max(number - 1 + self._rule.keep_last, self._rule.min_draft_tokens)
            self._kept = torch.where(past, self._kept.clamp(max=kept), self._kept)
            self.drafting = self.drafting & ~past
        self.drafting = self.drafting & (self._depth > number)

    def active(self) -> Tensor:
        """Who drafts another token, as indices; only under a rule the device has to be asked."""
        if self._rule is None:
            return to_device(np.flatnonzero(self._host_depth > self._number), self.drafting.device)
        return self.drafting.nonzero()[:, 0]

    def num_tokens(self) -> Tensor:
        """Draft tokens kept per request, (M,)."""
        if self._rule is None:
            return self._kept
        return torch.where(self._kept < self._rule.drop_below, 0, self._kept)

    def _signal(self, confidence: Tensor, entropy: Tensor) -> Tensor:
        assert self._rule is not None
        if self._rule.signal == "entropy":
            return entropy.double()
        if self._rule.signal == "product":
            self._product = self._product * confidence.double()
            return self._product
        return confidence.double()

    def _past(self, signal: Tensor, wants: Tensor) -> Tensor:
        assert self._rule is not None
        if self._rule.scope == "mean":
            signal = torch.where(wants, signal, 0.0).sum() / wants.sum().clamp(min=1)
        past = signal > self._threshold if self._rule.signal == "entropy" else signal < self._threshold
        if self._rule.scope != "all":
            return past
        self._dead = self._dead | ~wants | past
        return self._dead.all()


def top_token(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Most probable token, its probability and the distribution's entropy in nats, (...) each, from (..., V)."""
    log_probability = torch.log_softmax(logits.float(), dim=-1)
    token = best_token(log_probability)
    top = log_probability.gather(-1, token.unsqueeze(-1)).squeeze(-1)
    entropy = -(log_probability.exp() * log_probability).sum(dim=-1)
    return token, top.exp(), entropy


def empty_proposal(request: DraftRequest, width: int) -> Proposal:
    """A proposal of no tokens, to be written into; confidences NaN."""
    device, shape = request.slot.device, (len(request.slot), width)
    return Proposal(
        tokens=torch.zeros(shape, dtype=torch.int64, device=device),
        num_tokens=torch.zeros(shape[0], dtype=torch.int64, device=device),
        confidence=torch.full(shape, torch.nan, device=device),
        entropy=torch.full(shape, torch.nan, device=device),
    )
