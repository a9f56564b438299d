"""Entropy trigger: all or nothing per request, switched by smoothed entropy with hysteresis (a Schmitt trigger)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from lightspec_bench.core import Batch, BenchError, ConfidenceAge, EngineConfig, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.exits import cut_depth
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.request_table import RequestTable


class EntropyTrigger:
    """Drafts `k` tokens for a request until its smoothed entropy rises above `high` bits, none until it is below `low`.

    After each step ema = alpha H + (1 - alpha) ema, the first H taken as it is; between `low` and `high` the state
    stays. Source: vLLM feature request 54082 (August 2026, alpha 0.35, k 0 or 5); `low` and `high` are those of its
    author's published controller, whether the request names others was not checked.

    There H is the target's entropy where it sampled last. No trace has it, so `entropy: drafter`, the only choice,
    takes the drafter's at that position: of the first draft token not accepted, else of the last. A request that
    drafts nothing then shows no entropy and would stay off for good, so it drafts one token every `probe_steps` steps
    (not in the source; 0 never probes). One sequence in the source, a state per request here. Everything pending is
    verified.
    """

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset({"entropy"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        k: int = 5,
        low: float = 0.55,
        high: float = 0.82,
        alpha: float = 0.35,
        probe_steps: int = 8,
        entropy: Literal["drafter"] = "drafter",
    ) -> None:
        name = "entropy-trigger"
        self.k = cut_depth(name, "k", k, config)
        expect(low >= 0.0, name, "low", low, "at least 0")
        expect(high >= low, name, "high", high, f"at least low, which is {low}")
        expect(0.0 < alpha <= 1.0, name, "alpha", alpha, "above 0, at most 1")
        expect(probe_steps >= 0, name, "probe_steps", probe_steps, "at least 0")
        expect(entropy == "drafter", name, "entropy", repr(entropy), "'drafter', the only approximation there is")
        self.low, self.high, self.alpha, self.probe_steps = low, high, alpha, probe_steps
        self._table = RequestTable(ema=0.0, on=True, idle=0)

    def plan(self, batch: Batch) -> Plan:
        rows, _ = self._table.read(batch.request_id)
        probes = np.zeros(batch.num_requests, dtype=bool)
        if self.probe_steps:
            probes = (rows["idle"] > 0) & (rows["idle"] % self.probe_steps == 0)
        return verify_all(batch, np.where(rows["on"], self.k, probes.astype(np.int64)))

    def observe(self, step: Step) -> None:
        if step.entropy is None:
            raise BenchError("entropy-trigger: the step has no entropies, expected a trace or engine that records them")
        rows, _ = self._table.read(step.request_id)
        ema, on = rows["ema"], rows["on"]
        drafted = step.num_draft_tokens > 0
        place = np.clip(np.minimum(step.num_accepted_tokens, step.num_draft_tokens - 1), 0, None)
        bits = step.entropy[np.arange(step.num_requests), place].astype(np.float64) / np.log(2.0)
        smooth = np.where(ema == 0.0, bits, self.alpha * bits + (1.0 - self.alpha) * ema)
        ema = np.where(drafted, smooth, ema)
        on = np.where(on, ~(drafted & (ema > self.high)), drafted & (ema < self.low))
        idle = np.where(on | drafted, 0, rows["idle"] + 1)
        self._table.write(step.request_id, {"ema": ema, "on": on, "idle": idle})
