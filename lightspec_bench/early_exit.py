"""Early exit: the rule by which a drafter stops before the planned depth, and where it makes drafts end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from lightspec_bench.errors import BenchError

Signal: TypeAlias = Literal["confidence", "product", "entropy"]
Scope: TypeAlias = Literal["request", "mean", "all"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True, slots=True)
class EarlyExit:
    """Stop drafting when a signal of the newest draft token is past `threshold`: one number, or (N,) in batch order.

    `signal` is past it: "confidence", top probability below; "product", running product of top probabilities below;
    "entropy", entropy (nats) above. `scope`: every "request" stops for itself; all stop where the signal's "mean" over
    the requests still drafting is past it; or all go on until "all" of them had such a token.
    `keep_last`: whether the token that stopped a draft is kept. No draft is stopped before `min_draft_tokens`, and
    one left with fewer than `drop_below` is dropped whole.
    """

    signal: Signal
    threshold: float | npt.NDArray[np.float64]
    keep_last: bool = False
    scope: Scope = "request"
    min_draft_tokens: int = 0
    drop_below: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (("signal", self.signal, SIGNALS), ("scope", self.scope, SCOPES)):
            if value not in known:
                raise BenchError(f"early_exit.{name} is {value!r}, expected one of {', '.join(known)}")
        most = np.inf if self.signal == "entropy" else 1.0
        thresholds = np.asarray(self.threshold, dtype=np.float64)
        wrong = thresholds[~((thresholds >= 0.0) & (thresholds <= most))]
        if wrong.size:
            raise BenchError(f"early_exit.threshold is {wrong.ravel()[0]:g}, expected 0 to {most:g}")
        if thresholds.ndim and self.scope == "mean":
            raise BenchError("early_exit.threshold is one number per request, expected one number for scope mean")
        for name, number in (("min_draft_tokens", self.min_draft_tokens), ("drop_below", self.drop_below)):
            if number < 0:
                raise BenchError(f"early_exit.{name} is {number}, expected 0 or more")

    def of(self, rows: Sequence[int] | npt.NDArray[Any]) -> EarlyExit:
        """The rule for some of the batch's requests, by index or mask."""
        thresholds = np.asarray(self.threshold)
        return replace(self, threshold=thresholds[rows]) if thresholds.ndim else self


def stopped_drafts(
    rule: EarlyExit, signal: npt.NDArray[Any], depth: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Draft tokens kept and drafter passes spent per request, both (N,).

    `signal` (N, D) is the top probability of each draft token ("confidence", "product") or its entropy; `depth` (N,)
    is how many tokens each request would draft.
    """
    width = signal.shape[1]
    number = np.arange(1, width + 1)
    drafting = number <= depth[:, None]
    past = _past(rule, signal, drafting) & (number >= rule.min_draft_tokens)
    first = np.where(past.any(axis=1), past.argmax(axis=1), width)
    kept = np.maximum(first + rule.keep_last, rule.min_draft_tokens)
    kept = np.minimum(kept, depth)
    return np.where(kept < rule.drop_below, 0, kept), np.minimum(first + 1, depth)


def _past(rule: EarlyExit, signal: npt.NDArray[Any], drafting: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether drafting stops at a token, (N, D) or broadcastable to it."""
    if rule.signal == "product":
        signal = np.multiply.accumulate(signal, axis=1)
    threshold = np.asarray(rule.threshold, dtype=np.float64)
    threshold = threshold[:, None] if threshold.ndim else threshold
    if rule.scope == "mean":
        number = np.maximum(drafting.sum(axis=0), 1)
        signal = np.broadcast_to(np.where(drafting, signal, 0.0).sum(axis=0) / number, signal.shape)
    past = signal > threshold if rule.signal == "entropy" else signal < threshold
    if rule.scope != "all":
        return np.asarray(past)
    dead = np.logical_or.accumulate(past, axis=1) | ~drafting
    return np.broadcast_to(dead.all(axis=0), signal.shape)
