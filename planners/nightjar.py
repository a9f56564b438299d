"""Nightjar: a bandit per batch size that holds its depth for a while and weighs what restarting the drafter costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import depths as checked_depths, expect
from lightspec_bench.planners.rounds import Rounds

DEPTHS = [0, 1, 2, 3, 4, 5]
GROUPS = ("exact", "doubling")


@dataclass(slots=True)
class BinSchedule:
    """Blocks of 1, 2, 4, ... steps, each split into bins of `bin_steps` or the rounded-up root of the block.

    The end of a block ends its last bin.
    """

    bin_steps: int | None
    block: int = 0
    bin: int = 0
    left_in_block: int = 0
    left_in_bin: int = 0

    def advance(self) -> bool:
        """Count one step; whether it begins a bin."""
        if not self.left_in_block:
            self.block, self.bin, self.left_in_bin = self.block + 1, 0, 0
            self.left_in_block = 2 ** (self.block - 1)
        begins = not self.left_in_bin
        if begins:
            self.bin += 1
            self.left_in_bin = self.bin_steps or math.ceil(math.sqrt(2 ** (self.block - 1)))
        self.left_in_bin -= 1
        self.left_in_block -= 1
        return begins


@dataclass(slots=True)
class Context:
    """What is known at one batch size: the schedule, the depth held, plays and mean tokens per second per depth."""

    schedule: BinSchedule
    plays: IntArray
    goodput: FloatArray
    arm: int = field(default=0)


class Nightjar:
    """At the start of a bin draws any depth with chance 1 / (number of the bin in its block), else takes the best, and
    keeps it for the bin; each batch size B on its own. The best depth k is the least of

        1 / goodput(B, k) + [the step before drafted nothing and k > 0] switch / k

    goodput being the mean of the batch's tokens per second in the rounds that k had at B. `switch_ms` is what it
    costs to take up drafting again; left out, it is one pass of the drafter over the tokens that it has missed since,
    from the latency model (0 for drafters without attention). `group: doubling` shares what is known between B of the
    same power of two, for batches whose size keeps changing; the source has "exact".

    Source: arXiv 2512.22420, at second hand: the rule above, with switch costs of 17.87 to 102.03 ms measured by
    context and B. Not known, and chosen here: depths 0 to 5 (cut to D), the length of a bin (`bin_steps`), and that
    the bin's number is counted within its block. Left out: unloading the drafter's weights when KV memory is short.
    Seeded by the engine's seed.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        depths: list[Any] | None = None,
        switch_ms: float | None = None,
        bin_steps: int | None = None,
        group: Literal["exact", "doubling"] = "exact",
    ) -> None:
        name = "nightjar"
        self.depths = checked_depths(name, "depths", DEPTHS if depths is None else depths, 0, config.max_draft_tokens)
        expect(switch_ms is None or switch_ms >= 0.0, name, "switch_ms", switch_ms, "at least 0")
        expect(bin_steps is None or bin_steps >= 1, name, "bin_steps", bin_steps, "at least 1")
        expect(group in GROUPS, name, "group", repr(group), "one of " + ", ".join(GROUPS))
        self.config, self.switch_ms, self.bin_steps, self.group = config, switch_ms, bin_steps, group
        self._rng = np.random.default_rng(config.seed)
        self._contexts: dict[int, Context] = {}
        self._idle_steps = 0  # since a plan last drafted
        self._rounds: Rounds[tuple[int, int]] = Rounds()

    def plan(self, batch: Batch) -> Plan:
        size = self._size(batch.num_requests)
        known = self._context(size)
        if known.schedule.advance():
            known.arm = self._draw(known, batch)
        depth = self.depths[known.arm]
        self._idle_steps = 0 if depth else self._idle_steps + 1
        self._rounds.play(batch.step, (size, known.arm))
        return verify_all(batch, depth)

    def observe(self, step: Step) -> None:
        ended = self._rounds.observe(step)
        if ended is not None:
            size, arm = ended.played
            known = self._context(size)
            known.plays[arm] += 1
            known.goodput[arm] += (ended.tokens_per_s - known.goodput[arm]) / known.plays[arm]

    def _size(self, num_requests: int) -> int:
        return num_requests if self.group == "exact" else 2 ** max(num_requests - 1, 0).bit_length()

    def _context(self, size: int) -> Context:
        if size not in self._contexts:
            number = len(self.depths)
            schedule = BinSchedule(self.bin_steps)
            self._contexts[size] = Context(schedule, np.zeros(number, dtype=np.int64), np.zeros(number))
        return self._contexts[size]

    def _draw(self, known: Context, batch: Batch) -> int:
        """Any depth, with the chance of the bin or while none was played; else the best."""
        if self._rng.random() < 1.0 / known.schedule.bin or not known.plays.any():
            return int(self._rng.integers(len(self.depths)))
        return self.best(known, batch)

    def best(self, known: Context, batch: Batch) -> int:
        """The depth of least cost among those that were played, as a place in `depths`."""
        depths = np.array(self.depths)
        restart = self._switch_s(batch) / np.maximum(depths, 1) if self._idle_steps else 0.0
        cost = 1.0 / np.where(known.plays > 0, known.goodput, np.inf) + np.where(depths > 0, restart, 0.0)
        return int(np.where(known.plays > 0, cost, np.inf).argmin())

    def _switch_s(self, batch: Batch) -> float:
        """Seconds to take up drafting again."""
        if self.switch_ms is not None:
            return self.switch_ms / 1e3
        if self.config.drafter.kind not in ("autoregressive", "parallel"):
            return 0.0
        missed = batch.num_requests * self._idle_steps
        return float(self.config.latency.draft_pass_s(missed, int(batch.num_context_tokens.sum())))
