"""FlashSpec's Thompson sampling over draft depths."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from lightspec_bench.core import EngineConfig
from lightspec_bench.planners.bandit import DepthBandit
from lightspec_bench.planners.option_checks import depths as checked_depths, expect
from lightspec_bench.planners.rounds import Round
from lightspec_bench.planners.windowed_rewards import WindowedRewards

POSTERIORS = ("gaussian", "beta")


class FlashSpecThompson(DepthBandit):
    """Draws a value for every depth from what is known of it and plays the depth with the largest.

    `posterior: gaussian` draws from N(mean, variance / n) of the batch's tokens per second over the depth's last
    `window` rounds; each depth is played twice first, in turn, so that there is a variance, and one without two
    outcomes yet comes first. `posterior: beta` draws a chance of acceptance from Beta(1 + accepted, 1 + rejected
    draft tokens), without a window: it cannot see what drafting costs and favours shallow depths.

    Source: Mattral/FlashSpec, `flashspec/bandit/thompson.py` at 040202b (Beta(1, 1) prior), which chooses among
    drafters of one request by acceptance of 0 or 1, its window without effect on the draws; the Gaussian form is
    second hand. Here the arms are draft depths, `depths`, 1 to D when left out, one for the whole batch. Seeded by
    the engine's seed.
    """

    def __init__(
        self,
        config: EngineConfig,
        depths: list[Any] | None = None,
        window: int = 500,
        posterior: Literal["gaussian", "beta"] = "gaussian",
    ) -> None:
        name, most = "flashspec-thompson", config.max_draft_tokens
        super().__init__(
            checked_depths(name, "depths", list(range(1, most + 1)) if depths is None else depths, 0, most)
        )
        expect(window >= 2, name, "window", window, "at least 2")
        expect(posterior in POSTERIORS, name, "posterior", repr(posterior), "one of " + ", ".join(POSTERIORS))
        self.posterior = posterior
        self._played = 0
        self._rng = np.random.default_rng(config.seed)
        self._rewards = WindowedRewards(len(self.depths), window)
        self._accepted = np.zeros(len(self.depths))
        self._rejected = np.zeros(len(self.depths))
        self._window = window

    def choose(self) -> int:
        if self.posterior == "beta":
            return int(self._rng.beta(1.0 + self._accepted, 1.0 + self._rejected).argmax())
        if self._played < 2 * len(self.depths):
            self._played += 1
            return (self._played - 1) % len(self.depths)
        rewards = self._rewards
        n = np.clip(rewards.plays, 1, self._window)
        drawn = self._rng.normal(rewards.mean, np.sqrt(rewards.variance / n))
        return int(np.where(rewards.plays < 2, np.inf, drawn).argmax())

    def learn(self, arm: int, ended: Round[int]) -> None:
        self._rewards.take(arm, ended.tokens_per_s)
        self._accepted[arm] += ended.num_accepted_tokens
        self._rejected[arm] += ended.num_verify_tokens - ended.num_accepted_tokens
