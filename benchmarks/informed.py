"""A planner that knows all that confidences can tell: how far any planner could get that does not know outcomes.

It reads in hindsight what `lightspec` has to learn, from a replay that drafts and verifies everything: the acceptance
map and the proposals themselves. It sees the pending confidences, not older ones. What is left between
it and the oracle is what the drafter's confidences do not say, and no planner has that.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import (
    Batch,
    BenchError,
    ConfidenceAge,
    Drafter,
    EngineConfig,
    FloatArray,
    Plan,
    Step,
    Trace,
    TraceInfo,
)
from lightspec_bench.fill import fill
from lightspec_bench.latency_file import load_latency
from lightspec_bench.planners.lightspec_calibration import Calibration
from lightspec_bench.planners.lightspec_cost import Cost
from lightspec_bench.planners.lightspec_gain import Gain, Survivals
from lightspec_bench.planners.static import Static
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner

NUM_PROPOSALS, ANY_LATENCY = 8192, "h200-qwen3-14b"


_SURVEYS: dict[tuple[TraceInfo, int, int], tuple[Calibration, Survivals]] = {}


class _Survey(Static):
    """Drafts and verifies everything, and keeps the proposals and what came of them."""

    confidence: ClassVar[ConfidenceAge] = "current"

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config, config.max_draft_tokens)
        self.seen: list[tuple[FloatArray, FloatArray]] = []

    def observe(self, step: Step) -> None:
        assert step.confidence is not None
        whole = step.num_verify_tokens == step.confidence.shape[1]
        self.seen.append((step.confidence[whole], step.num_accepted_tokens[whole]))


def _surveyed(trace: Trace, concurrency: int) -> tuple[Calibration, Survivals]:
    """The trace's acceptance map, and survivals of a sample of its proposals."""
    depth = trace.max_draft_tokens
    config = EngineConfig(Drafter(trace.info.drafter_kind, depth), load_latency(ANY_LATENCY), concurrency, 0)
    survey = _Survey(config)
    SimulatedRunner(trace, config, Load(concurrency), SimulatorOptions(planner_time="off")).run(survey)
    confidence, accepted = (np.concatenate(part) for part in zip(*survey.seen, strict=True))
    calibration = Calibration(depth)
    calibration.observe(confidence, np.full(len(accepted), depth), accepted)
    calibration.refresh()
    drawn = np.random.default_rng(0).permutation(len(confidence))[:NUM_PROPOSALS]
    sample = confidence[drawn]
    known = np.cumprod(calibration.acceptance(sample), axis=1)
    return calibration, Survivals(known, known)


class Informed:
    """The best depth and budget by long-run rate, from the trace's own map, proposals and pending confidences."""

    confidence: ClassVar[ConfidenceAge] = "current"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, trace: Trace) -> None:
        self._config, self._cost = config, Cost(config, learns=False)
        self._depths = np.arange(config.max_draft_tokens + 1)
        if trace.confidence is None:
            raise BenchError(f"informed needs confidence, which trace {trace.info.name} does not have")
        key = trace.info, trace.num_positions, config.max_num_seqs
        if key not in _SURVEYS:
            _SURVEYS[key] = _surveyed(trace, config.max_num_seqs)
        self._calibration, self._survivals = _SURVEYS[key]
        self._curves: dict[int, FloatArray] = {}

    def plan(self, batch: Batch) -> Plan:
        number, context = batch.num_requests, int(batch.num_context_tokens.sum())
        if not number:
            return Plan(0, num_target_tokens=0)
        offsets = np.arange(number * len(self._depths) - number + 1)
        if number not in self._curves:
            self._curves[number] = Gain(len(self._depths) - 1).curves(self._survivals, number, offsets)
        verify_s, whole_s = self._cost.step_s(number + offsets, number, context, self._depths)
        possible = offsets <= number * self._depths[:, None]
        rate = np.where(possible, (number + self._curves[number]) / whole_s, 0.0)
        price = float(rate.max())
        assert batch.confidence is not None
        pending = int(batch.num_draft_tokens.sum())
        survival = np.nan_to_num(np.cumprod(self._calibration.acceptance(batch.confidence), axis=1))
        gain = np.r_[0.0, np.cumsum(np.sort(survival, axis=None)[::-1])][: pending + 1]
        rows = int((gain - price * verify_s[: pending + 1]).argmax())
        verify = fill(survival, batch.num_draft_tokens, number + rows)
        return Plan(int(rate.max(axis=1).argmax()), num_verify_tokens=verify)

    def observe(self, step: Step) -> None:
        pass
