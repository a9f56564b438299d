"""Greedy search: epsilon-greedy over the values of one setting, and a detector of changed tasks (ik_llama.cpp)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

SMOOTHING = 0.05


class GreedySearch:
    """Values of a setting, the user's among them, and the mean reward of each. `best` is the first until one is
    known."""

    def __init__(self, values: Iterable[float], user: float, epsilon: float, rng: np.random.Generator) -> None:
        grid = [float(value) for value in values]
        if not any(abs(value - user) < 1e-6 for value in grid):
            grid = sorted([*grid, float(user)])
        self.values = grid
        self._user = min(range(len(grid)), key=lambda arm: abs(grid[arm] - user))
        self._epsilon, self._rng = epsilon, rng
        self._plays, self._mean = np.zeros(len(grid)), np.zeros(len(grid))
        self.best = 0

    def choose(self) -> int:
        """The arm to play next: with chance epsilon any, else the best."""
        if self._rng.random() < self._epsilon:
            return int(self._rng.integers(len(self.values)))
        return self.best

    def learn(self, arm: int, reward: float) -> None:
        """Credit an arm; of equal means the first is the best."""
        self._plays[arm] += 1
        self._mean[arm] += (reward - self._mean[arm]) / self._plays[arm]
        self.best = int(np.where(self._plays > 0, self._mean, -np.inf).argmax())

    def forget(self) -> None:
        """Start again, with the user's value for the best."""
        self._plays[:], self._mean[:] = 0.0, 0.0
        self.best = self._user


class TaskChange:
    """Rewards far below their running average, `patience` times in a row, are a changed task."""

    def __init__(self, drop: float, patience: int, cooldown: int) -> None:
        self.drop, self.patience, self.cooldown = drop, patience, cooldown
        self._average, self._low, self._resting = 0.0, 0, 0

    def happened(self, reward: float) -> bool:
        """Whether this reward completes a change of task, after which the average starts anew."""
        if self._resting:
            self._resting -= 1
        elif self._average > 0.0:
            self._low = self._low + 1 if reward < self._average * (1.0 - self.drop) else 0
            if self._low >= self.patience:
                self._average, self._low, self._resting = 0.0, 0, self.cooldown
                return True
        first = self._average <= 0.0
        self._average = reward if first else SMOOTHING * reward + (1.0 - SMOOTHING) * self._average
        return False
