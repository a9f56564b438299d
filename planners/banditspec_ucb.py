"""BanditSpec's UCBSpec: the draft depth with the highest upper confidence bound on its reward."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from lightspec_bench.core import EngineConfig, FloatArray
from lightspec_bench.planners.bandit import DepthBandit
from lightspec_bench.planners.option_checks import depths as checked_depths, expect
from lightspec_bench.planners.rounds import Round

DEPTHS = [1, 2, 3, 4]
BONUSES = ("per-arm", "shared")
REWARDS = ("tokens-per-second", "accepted")


class BanditSpecUCB(DepthBandit):
    """Plays each depth twice in turn (2 arms - 1 steps, as in the code), then the one with the largest mean + bonus.

    `bonus: per-arm` is sqrt(exploration ln t / plays of the arm), as UCBSpec is meant; `bonus: shared` divides by the
    plays of all arms together, as the released code does: the same bonus for every arm, so it never explores again.
    An arm whose outcome is not seen yet has an unbounded bonus. `reward`: the batch's "tokens-per-second" in a round
    (the code) or "accepted" draft tokens per request (the paper; it costs nothing to draft then, so deeper is never
    worse). Both are divided by their largest so far, or the deepest arm, to be 0 to 1: not in the code, where the
    bonus is small change beside tokens per second, and without effect on `shared`.

    Source: arXiv 2505.15141 and sail-sg/BanditSpec, `generate_utils.py` at a30f56d (`ucb_length_spec_generate`:
    depths 1 to 4, exploration 6). The paper's own radius was not checked. There a bandit lives for one batch of
    prompts, here for the whole run; one depth for the whole batch, as there. Depths are cut to D.
    """

    def __init__(
        self,
        config: EngineConfig,
        depths: list[Any] | None = None,
        exploration: float = 6.0,
        bonus: Literal["per-arm", "shared"] = "per-arm",
        reward: Literal["tokens-per-second", "accepted"] = "tokens-per-second",
    ) -> None:
        name = "banditspec-ucb"
        super().__init__(
            checked_depths(name, "depths", DEPTHS if depths is None else depths, 0, config.max_draft_tokens)
        )
        expect(exploration >= 0.0, name, "exploration", exploration, "at least 0")
        expect(bonus in BONUSES, name, "bonus", repr(bonus), "one of " + ", ".join(BONUSES))
        expect(reward in REWARDS, name, "reward", repr(reward), "one of " + ", ".join(REWARDS))
        self.exploration, self.bonus, self.reward = exploration, bonus, reward
        self._time = 0
        self._plays = np.zeros(len(self.depths))
        self._mean = np.zeros(len(self.depths))
        self._largest = float(max(self.depths[-1], 1)) if reward == "accepted" else 0.0

    def choose(self) -> int:
        self._time += 1
        if self._time < 2 * len(self.depths):
            return (self._time - 1) % len(self.depths)
        return int(self.scores().argmax())

    def scores(self) -> FloatArray:
        """Mean reward, 0 to 1, plus bonus of each arm."""
        plays = self._plays if self.bonus == "per-arm" else np.full_like(self._plays, self._plays.sum())
        spread = self.exploration * math.log(self._time) / np.maximum(plays, 1.0)
        bonus = np.where(plays > 0, np.sqrt(spread), np.inf)
        return np.asarray(self._mean / (self._largest or 1.0) + bonus)

    def learn(self, arm: int, ended: Round[int]) -> None:
        if self.reward == "accepted":
            reward = ended.num_accepted_tokens / ended.num_requests
        else:
            reward = ended.tokens_per_s
            self._largest = max(self._largest, reward)
        self._plays[arm] += 1
        self._mean[arm] += (reward - self._mean[arm]) / self._plays[arm]
