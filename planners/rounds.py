"""Rounds: what a proposal brought and cost. It is drafted in one step and verified in the next, under another plan.

A learner must credit the outcome of a step to what it planned one step earlier, whatever it has planned since.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from lightspec_bench.core import IntArray, Step

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Round(Generic[P]):
    """The life of the proposals planned as `played`.

    `num_requests` were there when they were drafted; the sums of tokens are over the whole batch that verified them.
    `seconds` are drafting (of the step before) and verification, with host and exposed planner, without prefill.
    """

    played: P
    num_requests: int
    num_verify_tokens: int
    num_accepted_tokens: int
    num_emitted_tokens: int
    seconds: float

    @property
    def tokens_per_s(self) -> float:
        return self.num_emitted_tokens / self.seconds


class Rounds(Generic[P]):
    """Matches outcomes to plans: `play` when planning, `observe` when a step is seen, at any lag."""

    def __init__(self) -> None:
        self._plays: deque[tuple[int, P]] = deque()
        self._before: tuple[IntArray, float] | None = None  # requests and drafting seconds of the step before

    def play(self, step: int, played: P) -> None:
        """Note what the plan of a step asked the drafter for."""
        self._plays.append((step, played))

    def observe(self, step: Step) -> Round[P] | None:
        """The round that this step ends; None where it verified nothing that a noted plan asked for.

        That is so in the first step and where no request of the step before is left.
        """
        before, self._before = self._before, (step.request_id.copy(), step.draft_s)
        while self._plays and self._plays[0][0] < step.index - 1:
            self._plays.popleft()
        if before is None or not self._plays or self._plays[0][0] != step.index - 1:
            return None
        played = self._plays.popleft()[1]
        stayed = int(np.isin(step.request_id, before[0]).sum())
        seconds = before[1] + step.verify_s + step.host_s + step.exposed_planner_s
        if not stayed or seconds <= 0.0:
            return None
        accepted = int(step.num_accepted_tokens.sum())
        verified = int(step.num_verify_tokens.sum())
        return Round(played, stayed, verified, accepted, accepted + step.num_requests, seconds)
