"""FlashSpec's UCB1 over draft depths."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from lightspec_bench.core import EngineConfig, FloatArray
from lightspec_bench.planners.bandit import DepthBandit
from lightspec_bench.planners.option_checks import depths as checked_depths, expect
from lightspec_bench.planners.rounds import Round
from lightspec_bench.planners.windowed_rewards import WindowedRewards

REWARDS = ("tokens-per-second", "acceptance")


class FlashSpecUCB1(DepthBandit):
    """Plays every depth once, then the one with the largest mean + c sqrt(2 ln t / n).

    The mean is over the depth's last `window` rewards, n counts all its plays and t those of all depths. `reward`:
    "tokens-per-second" of the batch in a round, divided by the largest so far, or "acceptance", accepted / verified
    draft tokens, 0 where none was verified. A depth whose outcome is not seen yet comes first.

    Source: Mattral/FlashSpec, `flashspec/bandit/ucb.py` at 040202b (c 1, window 500), which chooses among drafters of
    one request by acceptance of 0 or 1; the form with tokens per second is second hand. Here the arms are draft depths,
    `depths`, 1 to D when left out, one for the whole batch.
    """

    def __init__(
        self,
        config: EngineConfig,
        depths: list[Any] | None = None,
        c: float = 1.0,
        window: int = 500,
        reward: Literal["tokens-per-second", "acceptance"] = "tokens-per-second",
    ) -> None:
        name, most = "flashspec-ucb1", config.max_draft_tokens
        super().__init__(
            checked_depths(name, "depths", list(range(1, most + 1)) if depths is None else depths, 0, most)
        )
        expect(c > 0.0, name, "c", c, "above 0")
        expect(window >= 1, name, "window", window, "at least 1")
        expect(reward in REWARDS, name, "reward", repr(reward), "one of " + ", ".join(REWARDS))
        self.c, self.reward = c, reward
        self._played = 0
        self._rewards = WindowedRewards(len(self.depths), window)

    def choose(self) -> int:
        if self._played < len(self.depths):
            self._played += 1
            return self._played - 1
        return int(self.scores().argmax())

    def scores(self) -> FloatArray:
        """Upper confidence bound of each depth, unbounded where nothing is known."""
        rewards = self._rewards
        time = max(int(rewards.plays.sum()), 1)
        scale = (rewards.largest or 1.0) if self.reward == "tokens-per-second" else 1.0
        bonus = self.c * np.sqrt(2.0 * math.log(time) / np.maximum(rewards.plays, 1))
        return np.where(rewards.plays > 0, rewards.mean / scale + bonus, np.inf)

    def learn(self, arm: int, ended: Round[int]) -> None:
        acceptance = ended.num_accepted_tokens / max(ended.num_verify_tokens, 1)
        self._rewards.take(arm, ended.tokens_per_s if self.reward == "tokens-per-second" else acceptance)
