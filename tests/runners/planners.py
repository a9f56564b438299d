"""Planners that runner tests drive: one that is scripted and remembers, and one that draws any legal plan."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import (
    Batch,
    ConfidenceAge,
    EarlyExit,
    EngineConfig,
    Plan,
    Run,
    Step,
    Trace,
)
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from tests.support import config_for

EXACT = SimulatorOptions(planner_time="off")


class Scripted:
    """Asks a function for its plans and remembers everything it was shown."""

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, make_plan: object) -> None:
        self.make_plan = make_plan
        self.batches: list[Batch] = []
        self.steps: list[Step] = []
        self.order: list[str] = []

    def plan(self, batch: Batch) -> Plan:
        self.order.append(f"plan {batch.step}")
        self.batches.append(batch)
        return self.make_plan(batch)  # type: ignore[operator,no-any-return]

    def observe(self, step: Step) -> None:
        self.order.append(f"observe {step.index}")
        self.steps.append(step)


class Random:
    """Any legal plan: budgets or counts, one depth or several, exits, all drawn at random."""

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, seed: int) -> None:
        self.rng, self.depth = np.random.default_rng(seed), config.max_draft_tokens
        self.steps: list[Step] = []

    def plan(self, batch: Batch) -> Plan:
        number, rng = batch.num_requests, self.rng
        depth = int(rng.integers(0, self.depth + 1)) if rng.random() < 0.5 else rng.integers(0, self.depth + 1, number)
        leave = None
        if batch.confidence is not None and rng.random() < 0.3:
            signal = ("confidence", "product", "entropy")[rng.integers(3)]
            leave = EarlyExit(signal, float(rng.random()), keep_last=bool(rng.random() < 0.5))
        if rng.random() < 0.5:
            most = number + int(batch.num_draft_tokens.sum())
            return Plan(depth, num_target_tokens=int(rng.integers(number, most + 1)), early_exit=leave)
        return Plan(depth, num_verify_tokens=rng.integers(0, batch.num_draft_tokens + 1), early_exit=leave)

    def observe(self, step: Step) -> None:
        self.steps.append(step)


def run(trace: Trace, planner: object, load: Load, lag_steps: int = 0, options: SimulatorOptions = EXACT) -> Run:
    config = config_for(trace, load.concurrency, lag_steps)
    return SimulatedRunner(trace, config, load, options).run(planner)  # type: ignore[arg-type]
