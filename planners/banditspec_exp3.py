"""BanditSpec's EXP3Spec: depths drawn with weights that fall exponentially in their estimated losses."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import depths as checked_depths, expect
from lightspec_bench.planners.rounds import Rounds

DEPTHS = [1, 2, 3, 4]


class BanditSpecEXP3:
    """Draws depth i with probability p_i proportional to exp(-eta L_i); then L_i += loss / p_i for the one drawn.

    The loss is 1 - reward / largest reward so far, the reward the batch's tokens per second in a round. `eta` left
    out is sqrt(ln K / (K t)) at step t with K arms, the usual choice without a horizon.

    Source: arXiv 2505.15141 (EXP3Spec), for rewards that need not follow any distribution. From memory of the paper,
    not checked: its loss and its eta; the released code has no EXP3. The paper's reward is the number of accepted
    tokens of one request; here one depth serves the whole batch, and its reward counts time, as in that code. Seeded
    by the engine's seed.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, depths: list[Any] | None = None, eta: float | None = None) -> None:
        name = "banditspec-exp3"
        self.depths = checked_depths(name, "depths", DEPTHS if depths is None else depths, 0, config.max_draft_tokens)
        expect(eta is None or eta > 0.0, name, "eta", eta, "above 0")
        self.eta, self.losses = eta, np.zeros(len(self.depths))
        self._time, self._largest = 0, 0.0
        self._rng = np.random.default_rng(config.seed)
        self._rounds: Rounds[tuple[int, float]] = Rounds()

    def probabilities(self) -> FloatArray:
        """Chance of each depth at the present step, (K,)."""
        number = len(self.depths)
        eta = math.sqrt(math.log(number) / (number * max(self._time, 1))) if self.eta is None else self.eta
        weights = np.exp(-eta * (self.losses - self.losses.min()))
        return np.asarray(weights / weights.sum())

    def plan(self, batch: Batch) -> Plan:
        self._time += 1
        chances = self.probabilities()
        arm = min(int(np.searchsorted(np.cumsum(chances), self._rng.random(), side="right")), len(chances) - 1)
        self._rounds.play(batch.step, (arm, float(chances[arm])))
        return verify_all(batch, self.depths[arm])

    def observe(self, step: Step) -> None:
        ended = self._rounds.observe(step)
        if ended is not None:
            arm, chance = ended.played
            self._largest = max(self._largest, ended.tokens_per_s)
            self.losses[arm] += (1.0 - ended.tokens_per_s / self._largest) / chance
