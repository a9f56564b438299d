"""Fill on the device: the rule of `lightspec_bench.fill`, without a word to the host."""

from __future__ import annotations

import torch
from torch import Tensor


def prefix_survival(confidence: Tensor) -> Tensor:
    """Running product of confidences along the drafts, (N, D); NaN counts as 0."""
    return torch.nan_to_num(confidence, nan=0.0).clamp(0.0, 1.0).cumprod(dim=1)


def fill(survival: Tensor, num_draft_tokens: Tensor, num_target_tokens: int) -> Tensor:
    """Verify tokens per request, (N,) int64, that spend a budget of `num_target_tokens` rows.

    Exactly `min(num_target_tokens - N, sum(num_draft_tokens))` tokens are chosen and none left out has a higher
    survival than one chosen.
    """
    number, depth = survival.shape
    room = min(max(num_target_tokens - number, 0), number * depth)
    pending = torch.arange(depth, device=survival.device) < num_draft_tokens[:, None]
    scores, chosen = torch.where(pending, survival, -1.0).flatten().topk(room, sorted=False)
    taken = (scores >= 0.0).long()
    return torch.zeros(number, dtype=torch.int64, device=survival.device).index_add_(0, chosen // depth, taken)
