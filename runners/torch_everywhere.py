"""Drafting at every position of a text at once, which is what recording asks of a draft head.

A text's real entries are read once, causally. Each position then has a proposal of its own: rows that see the real
entries up to there and one another, never another proposal's. P proposals, E real entries, J rows of a proposal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeGuard

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lightspec_bench.runners.torch_drafter import Proposal, TorchDrafter, top_token

BLOCK = 256  # proposals at once: their scores over the text and their logits are held in full
CACHED_ROWS = 32  # logits whose probabilities are computed together: so many stay in a core's cache


class DraftsEverywhere(TorchDrafter, Protocol):
    """A drafter, started, that can propose at all positions of a known text in a few passes, the same as one by one."""

    def everywhere(self, text: Tensor, num_prompt_tokens: int, features: Tensor) -> Proposal:
        """D tokens at each position where 1 to L - 1 of the text's L output tokens are out, in this order.

        `text` (n,) is prompt and output, `features` (at least n - 2, T, H) the target's hidden states of its tokens.
        """


def can_draft_everywhere(drafter: TorchDrafter) -> TypeGuard[DraftsEverywhere]:
    """Whether it is one of these; other drafters walk along the text."""
    return callable(getattr(drafter, "everywhere", None))


def causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Real entries among themselves: (E, heads, d) over (E, kv heads, d)."""
    grouped = key.shape[1] != query.shape[1]
    q, k, v = (part.transpose(0, 1).unsqueeze(0) for part in (query, key, value))
    return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)[0].transpose(0, 1)


def blocks(first_entry: int, num_entries: int, device: torch.device) -> Iterator[tuple[slice, Tensor]]:
    """Newest real entries of the proposals, some at a time: as a slice, and one by one (P,)."""
    for start in range(first_entry, num_entries, BLOCK):
        end = min(start + BLOCK, num_entries)
        yield slice(start, end), torch.arange(start, end, device=device)


class Apart:
    """Attention of P proposals that share a text: real keys and values (E, kv heads, d), of which proposal p sees
    the first `num_seen[p]`, and what the proposals' own rows have been so far."""

    def __init__(self, key: Tensor, value: Tensor, num_seen: Tensor) -> None:
        most = int(num_seen.max())
        self._key, self._value = (part[:most].transpose(0, 1).contiguous() for part in (key, value))
        self._unseen = torch.arange(most, device=key.device) >= num_seen[:, None]
        self._own_key: Tensor | None = None
        self._own_value: Tensor | None = None

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """J further rows of each proposal, (P, J, heads, d); a row sees its proposal's rows before it and itself."""
        own_key = key if self._own_key is None else torch.cat((self._own_key, key), dim=1)
        own_value = value if self._own_value is None else torch.cat((self._own_value, value), dim=1)
        self._own_key, self._own_value = own_key, own_value
        number, rows, heads, width = query.shape
        kv_heads, seen = self._key.shape[:2]
        grouped = query.view(number, rows, kv_heads, -1, width) * width**-0.5
        packed = grouped.permute(2, 0, 1, 3, 4)  # (kv, P, J, repeats, d)
        flat, apart = packed.reshape(kv_heads, -1, width), packed.reshape(kv_heads, number, -1, width)
        far = (flat @ self._key.transpose(1, 2)).view(*apart.shape[:3], seen)
        far.masked_fill_(self._unseen[:, None], -torch.inf)
        near = apart @ own_key.permute(2, 0, 3, 1) + self._own_mask(rows, own_key.shape[1], heads // kv_heads)
        weights = torch.cat((far, near), dim=-1).softmax(dim=-1)
        out = (weights[..., :seen].reshape(kv_heads, -1, seen) @ self._value).view_as(apart)
        out = out + weights[..., seen:] @ own_value.permute(2, 0, 1, 3)
        return out.view_as(packed).permute(1, 2, 0, 3, 4).flatten(2, 3)

    def _own_mask(self, rows: int, keys: int, repeats: int) -> Tensor:
        """Additive, (J * repeats, M) for the last J of M own rows."""
        row = torch.arange(keys - rows, keys, device=self._key.device).repeat_interleave(repeats)
        later = torch.arange(keys, device=self._key.device) > row[:, None]
        return torch.zeros(later.shape, dtype=self._key.dtype, device=later.device).masked_fill_(later, -torch.inf)


def top_tokens(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`top_token` of many rows (P, V), some at a time."""
    size = CACHED_ROWS if logits.device.type == "cpu" else max(len(logits), 1)
    parts = zip(*(top_token(part) for part in torch.split(logits, size)), strict=True)
    token, confidence, entropy = (torch.cat(part) for part in parts)
    return token, confidence, entropy


def joined(parts: list[Proposal]) -> Proposal:
    """Proposals of one text, one block after another."""
    names = ("tokens", "num_tokens", "confidence", "entropy")
    return Proposal(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def whole_proposal(columns: list[tuple[Tensor, Tensor, Tensor]]) -> Proposal:
    """A proposal of as many tokens as there are columns of tokens, confidences and entropies, (P,) each."""
    tokens, confidence, entropy = (torch.stack(part, dim=1) for part in zip(*columns, strict=True))
    number = torch.full((len(tokens),), len(columns), dtype=torch.int64, device=tokens.device)
    return Proposal(tokens, number, confidence, entropy)
