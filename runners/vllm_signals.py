"""How sure a drafter was of each token it proposed: its highest probability, and the entropy of its distribution.

Both are read off the logits that the drafter computes anyway. Neither depends on the token drawn from them, so that
plans by them do not bend the output's distribution at temperatures above 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Signals:
    """Looks at every call of the draft model's `compute_logits` while `wanted` is set."""

    def __init__(self, drafter: Any) -> None:
        self.wanted = False
        self._parts: list[tuple[Tensor, Tensor]] = []
        model: Any = getattr(drafter, "model", None)
        if hasattr(model, "compute_logits") and not getattr(drafter, "use_local_argmax_reduction", False):
            model.compute_logits = self._seen(model.compute_logits)

    def begin(self) -> None:
        """A proposal begins."""
        self._parts = []

    def take(self) -> list[tuple[Tensor, Tensor]]:
        """What was seen of the last proposal: a pass after the other, each of some rows."""
        parts, self._parts = self._parts, []
        return parts

    def _seen(self, compute_logits: Any) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            logits = compute_logits(*args, **kwargs)
            if self.wanted and isinstance(logits, Tensor):
                self._parts.append(signals(logits))
            return logits

        return wrapped


def by_request(parts: list[tuple[Tensor, Tensor]], num_requests: int) -> tuple[Tensor, Tensor] | None:
    """Confidence and entropy, (N, K) each: of K passes over N rows, or of one pass over N times K; None of none."""
    if not parts or any(part[0].numel() % num_requests for part in parts):
        return None
    confidence, entropy = (
        torch.cat([values.view(num_requests, -1) for values in column], dim=1) for column in zip(*parts, strict=True)
    )
    return confidence, entropy


def signals(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Highest probability and entropy in nats of each row, from (R, V) logits; rows may rule tokens out with -inf."""
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    probs = log_probs.exp()
    entropy = -torch.where(probs > 0, probs * log_probs, 0.0).sum(dim=-1)
    return probs.amax(dim=-1), entropy
