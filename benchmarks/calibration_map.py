"""How fast `lightspec` learns what confidences are worth: its map after a few, some and many steps, against the truth.

Why: rows are chosen by raw confidences, so a drafter that is too sure of itself costs rows until that is known. The
trace is modelled with confidences that are 15 points too high on the mean; truth is the share accepted per confidence
bin over all steps of the run (over all positions of a trace it is higher: served steps begin where a draft failed).
Prints the mean absolute error by steps, and draws it with --out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from lightspec_bench.core import Batch, Drafter, EngineConfig, FloatArray, Plan, Step
from lightspec_bench.latency_file import load_latency
from lightspec_bench.planners.lightspec import LightSpec
from lightspec_bench.planners.lightspec_calibration import NUM_BINS, Calibration, bins
from lightspec_bench.reports.pictures import save
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.traces.library import load_trace

TRACE = "synthetic:shape=eagle3,workload=chat,ece=0.15,bias=0.15,num_requests=256"
LATENCY, CONCURRENCY, STEPS = "h200-qwen3-14b", 16, (2, 20, 200)
CENTRES = (np.arange(NUM_BINS) + 0.5) / NUM_BINS


class Watched(LightSpec):
    """The planner, which also fits its map for us after some steps."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.maps: dict[int, FloatArray] = {}
        self.seen, self.kept = np.zeros(NUM_BINS), np.zeros(NUM_BINS)

    def plan(self, batch: Batch) -> Plan:
        if batch.step in STEPS:
            self._calibration.refresh()
            self.maps[batch.step] = first_depth(self._calibration, self._config.max_draft_tokens)
        return super().plan(batch)

    def observe(self, step: Step) -> None:
        super().observe(step)
        assert step.confidence is not None
        verified = step.num_verify_tokens > 0
        place = bins(step.confidence[verified])[:, 0]
        self.seen += np.bincount(place, minlength=NUM_BINS)
        self.kept += np.bincount(place, weights=step.num_accepted_tokens[verified] > 0, minlength=NUM_BINS)


def first_depth(calibration: Calibration, depth: int) -> FloatArray:
    grid = np.repeat(CENTRES[:, None], depth, axis=1).astype(np.float32)
    return calibration.acceptance(grid)[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the same: it takes seconds")
    parser.add_argument("--out", type=Path, help="also draw it, a .png or .svg")
    given = parser.parse_args()
    trace = load_trace(TRACE)
    config = EngineConfig(
        Drafter(trace.info.drafter_kind, trace.max_draft_tokens), load_latency(LATENCY), CONCURRENCY, lag_steps=1
    )
    planner = Watched(config)
    SimulatedRunner(trace, config, Load(CONCURRENCY), SimulatorOptions(planner_time="off")).run(planner)
    real, weight = planner.kept / np.maximum(planner.seen, 1), planner.seen / planner.seen.sum()
    errors = {0: float(np.abs(CENTRES - real) @ weight)}
    errors |= {step: float(np.abs(planner.maps[step] - real) @ weight) for step in STEPS}
    print(f"{TRACE}, {CONCURRENCY} requests: error of P(first draft token accepted | confidence)")
    for step, error in errors.items():
        print(f"after {step:4} steps: {100 * error:5.1f} points")
    if given.out:
        save(figure(planner.maps, real, weight), given.out)
    print(json.dumps({"mean_absolute_error_by_steps": errors, "origin": "simulated from a modelled trace"}))


def figure(maps: dict[int, FloatArray], real: FloatArray, weight: FloatArray) -> Figure:
    drawn = Figure(figsize=(5.2, 4.4), layout="constrained")
    axis = drawn.subplots()
    axis.plot([0, 1], [0, 1], color="#999999", linestyle=":", label="confidence taken at its word")
    for (step, values), style in zip(maps.items(), ("--", "-.", "-"), strict=True):
        axis.plot(CENTRES, values, style, label=f"after {step} steps")
    axis.scatter(CENTRES, real, s=600 * weight, color="black", alpha=0.5, label="accepted in all steps (area: share)")
    axis.set(xlabel="drafter's confidence in its first token", ylabel="P(accepted)", xlim=(0, 1), ylim=(0, 1))
    axis.legend(frameon=False, fontsize=8)
    drawn.supxlabel("Simulated from a modelled trace (EAGLE3 chat, confidences 15 points too high)", fontsize=8)
    return drawn


if __name__ == "__main__":
    main()
