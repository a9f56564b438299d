"""ik_llama.cpp's --spec-autotune: n_max, p_min and n_min, each by an epsilon-greedy search on tokens per second."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EarlyExit, EngineConfig, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.exits import draft_until
from lightspec_bench.planners.greedy_search import GreedySearch, TaskChange
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.rounds import Rounds

P_MIN_GRID = (0.0, 0.95, 11)
MOST_N_MAX, MOST_N_MIN = 16, 6
COORDINATES = ("draft", "mtp")


class IkLlamaAutotune:
    """Chooses each setting afresh in every step: with chance `epsilon` any value, else the one of the best mean reward.

    Settings: n_max 1 to max(16, `n_max`), p_min 11 values from 0 to 0.95, n_min 0 to 6, each with the user's value
    added (`coordinates: draft`); or n_max alone (`mtp`: what the source tunes for MTP). All are credited with the
    same reward, the batch's tokens per second in a round. Until something is known the first value of each is taken
    for the best, as in the source: n_max 1. A draft stops at a top probability below p_min, which is kept, and is
    dropped when shorter than n_min; n_max is cut to D and n_min to n_max.

    Where the reward stays below (1 - `drop`) of its average (memory 0.95) for `patience` rounds in a row, all is
    forgotten and the user's values are taken for the best; then `cooldown` rounds pass before it may happen again.

    Source: ik_llama.cpp, `common/spec-tuner.cpp` (pull request 1595). The user's values p_min 0.75 and n_min 0 are
    its older defaults, not checked at that commit. One slot there; here one setting serves the whole batch. `best()`
    has what it would print for reuse. Seeded by the engine's seed.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        epsilon: float = 0.15,
        n_max: int = 16,
        p_min: float = 0.75,
        n_min: int = 0,
        coordinates: Literal["draft", "mtp"] = "draft",
        drop: float = 0.3,
        patience: int = 30,
        cooldown: int = 50,
    ) -> None:
        name = "ik-llama-autotune"
        expect(0.0 <= epsilon <= 1.0, name, "epsilon", epsilon, "0 to 1")
        expect(n_max >= 1, name, "n_max", n_max, "at least 1")
        expect(0.0 <= p_min <= 0.95, name, "p_min", p_min, "0 to 0.95")
        expect(0 <= n_min <= MOST_N_MIN, name, "n_min", n_min, f"0 to {MOST_N_MIN}")
        expect(coordinates in COORDINATES, name, "coordinates", repr(coordinates), "one of " + ", ".join(COORDINATES))
        expect(0.0 <= drop <= 1.0, name, "drop", drop, "0 to 1")
        expect(patience >= 1, name, "patience", patience, "at least 1")
        expect(cooldown >= 0, name, "cooldown", cooldown, "at least 0")
        most = min(max(MOST_N_MAX, n_max), config.max_draft_tokens)
        self._rng = np.random.default_rng(config.seed)
        self._search = {"n_max": GreedySearch(range(1, most + 1), min(n_max, most), epsilon, self._rng)}
        if coordinates == "draft":
            self._search["p_min"] = GreedySearch(np.linspace(*P_MIN_GRID), p_min, epsilon, self._rng)
            self._search["n_min"] = GreedySearch(range(MOST_N_MIN + 1), n_min, epsilon, self._rng)
        self._change = TaskChange(drop, patience, cooldown)
        self._rounds: Rounds[tuple[int, dict[str, int]]] = Rounds()
        self._resets = 0

    def plan(self, batch: Batch) -> Plan:
        arms = {name: search.choose() for name, search in self._search.items()}
        self._rounds.play(batch.step, (self._resets, arms))
        value = {name: self._search[name].values[arm] for name, arm in arms.items()}
        n_max = int(value["n_max"])
        if "p_min" not in value:
            return verify_all(batch, n_max)
        shortest = min(int(value["n_min"]), n_max)
        return draft_until(EarlyExit("confidence", value["p_min"], True, drop_below=shortest), batch, n_max)

    def observe(self, step: Step) -> None:
        ended = self._rounds.observe(step)
        if ended is None or ended.played[0] != self._resets:
            return  # what was played before a reset is forgotten with the rest
        for name, arm in ended.played[1].items():
            self._search[name].learn(arm, ended.tokens_per_s)
        if self._change.happened(ended.tokens_per_s):
            self._resets += 1
            for search in self._search.values():
                search.forget()

    def best(self) -> dict[str, float]:
        """The values of the best mean reward so far."""
        return {name: search.values[search.best] for name, search in self._search.items()}
