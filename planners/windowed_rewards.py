"""Windowed rewards: the last rewards of every arm, their mean and variance."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import FloatArray, IntArray


class WindowedRewards:
    """`plays` are all rewards taken in, `mean` and `variance` those of the last `window` of each arm; all (arms,).

    The variance is the unbiased one; mean and variance are 0 where too little is known.
    """

    def __init__(self, num_arms: int, window: int) -> None:
        self._rewards = np.zeros((num_arms, window))
        self.plays: IntArray = np.zeros(num_arms, dtype=np.int64)
        self.mean: FloatArray = np.zeros(num_arms)
        self.variance: FloatArray = np.zeros(num_arms)
        self.largest = 0.0

    def take(self, arm: int, reward: float) -> None:
        window = self._rewards.shape[1]
        self._rewards[arm, self.plays[arm] % window] = reward
        self.plays[arm] += 1
        self.largest = max(self.largest, reward)
        recent = self._rewards[arm, : min(int(self.plays[arm]), window)]
        self.mean[arm] = recent.mean()
        self.variance[arm] = recent.var(ddof=1) if len(recent) > 1 else 0.0
