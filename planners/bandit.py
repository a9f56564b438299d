"""Bandit: what planners share that try depths as arms, one for the whole batch in every step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from lightspec_bench.core import Batch, ConfidenceAge, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.rounds import Round, Rounds


class DepthBandit(ABC):
    """Drafts the depth of the arm chosen, verifies everything pending; subclasses choose and learn.

    `depths` are the arms. An outcome is credited to the arm whose drafts were verified (`rounds`).
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, depths: list[int]) -> None:
        self.depths = depths
        self._rounds: Rounds[int] = Rounds()

    def plan(self, batch: Batch) -> Plan:
        arm = self.choose()
        self._rounds.play(batch.step, arm)
        return verify_all(batch, self.depths[arm])

    def observe(self, step: Step) -> None:
        ended = self._rounds.observe(step)
        if ended is not None:
            self.learn(ended.played, ended)

    @abstractmethod
    def choose(self) -> int:
        """The arm to play next."""

    @abstractmethod
    def learn(self, arm: int, ended: Round[int]) -> None:
        """Take in the outcome of a round of `arm`."""
