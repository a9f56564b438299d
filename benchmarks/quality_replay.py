"""Replays for planner_quality: every run as a curve of tokens over seconds, and the windows it is judged on.

A static planner takes the same steps whatever they cost: in a closed loop, and in a queue that is full from the start,
nothing it does depends on the clock. So each is replayed once and its steps are priced under every latency model.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lightspec_bench.core import BenchError, Columns, Drafter, EngineConfig, FloatArray, LatencyModel, Trace
from lightspec_bench.drafting import draft_s
from lightspec_bench.latency_file import load_latency
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.traces.library import load_trace

LAG_STEPS = 1


@dataclass(frozen=True, slots=True)
class Curve:
    """Decode tokens out and seconds gone, both (steps + 1,): before the first step, then after every step."""

    tokens: FloatArray
    seconds: FloatArray
    planner_ms: float = 0.0  # median of plan() and observe() per step

    def tokens_after(self, step: int) -> float:
        return float(self.tokens[min(step, len(self.tokens) - 1)])

    def seconds_between(self, first: float, last: float) -> float:
        """Seconds from the moment `first` tokens were out to `last`, inside a step in proportion."""
        begin, end = np.interp([first, last], self.tokens, self.seconds)
        return float(end - begin)

    def steps_between(self, first: float, last: float) -> int:
        begin, end = np.searchsorted(self.tokens, [first, last])
        return int(end - begin)


def curve(steps: Columns, duration_s: FloatArray) -> Curve:
    tokens = (steps["num_requests"] + steps["num_accepted_tokens"])[: len(duration_s)]
    planner_ms = 1e3 * float(np.median(steps["planner_s"]))
    return Curve(np.cumsum(np.r_[0.0, tokens]), np.cumsum(np.r_[0.0, duration_s]), planner_ms)


@functools.lru_cache(maxsize=16)
def concatenated(specs: tuple[str, ...]) -> Trace:
    """The traces one after another as one: with arrivals as recorded (all at 0) requests are sent in this order."""
    parts = [load_trace(spec) for spec in specs]
    if len(parts) == 1:
        return parts[0]
    if len({(p.info.drafter_kind, p.max_draft_tokens, p.confidence is None) for p in parts}) > 1:
        raise BenchError(f"{' + '.join(specs)}: expected the same drafter kind, max_draft_tokens and signals in all")
    columns = (
        "request_id", "category", "arrival_s", "num_prompt_tokens", "num_output_tokens", "repeats_from",
        "num_accepted", "confidence",
    )  # fmt: skip
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(p, name) for p in parts]) for name in columns if has(parts[0], name)
    }
    offsets = np.concatenate([[0], np.cumsum(joined["num_output_tokens"])])
    return replace(parts[0], **joined, offsets=offsets, num_draft_tokens=None, entropy=None)


def has(trace: Trace, column: str) -> bool:
    return getattr(trace, column) is not None


def engine(trace: Trace, latency: LatencyModel, load: Load) -> EngineConfig:
    drafter = Drafter(trace.info.drafter_kind, trace.max_draft_tokens)
    return EngineConfig(drafter, latency, load.concurrency, LAG_STEPS, load.seed)


def replay(trace: Trace, latency: LatencyModel, spec: str, load: Load) -> Columns:
    """The step records of a whole run; planner time is recorded but not charged, so that runs repeat exactly."""
    config = engine(trace, latency, load)
    runner = SimulatedRunner(trace, config, load, SimulatorOptions(planner_time="off"))
    steps = runner.run(make_planner(spec, config, trace)).steps
    assert steps is not None
    return steps


def planner_curve(trace: Trace, latency: LatencyModel, spec: str, load: Load) -> Curve:
    steps = replay(trace, latency, spec, load)
    return curve(steps, steps["duration_s"])


def static_curves(trace: Trace, latencies: tuple[str, ...], load: Load) -> dict[str, dict[str, Curve]]:
    """Curves of no speculation and of every static K, by latency spec and planner spec; the last step is left out."""
    models = {spec: load_latency(spec) for spec in latencies}
    found: dict[str, dict[str, Curve]] = {spec: {} for spec in latencies}
    for planner in ("none", *(f"static:k={k}" for k in range(trace.max_draft_tokens + 1))):
        steps = replay(trace, models[latencies[0]], planner, load)
        for number, (spec, model) in enumerate(models.items()):
            duration_s = priced(steps, trace, model, planner != "none")
            if number == 0:  # replayed under this model: pricing must say the same
                np.testing.assert_allclose(duration_s, steps["duration_s"][:-1], rtol=1e-9)
            found[spec][planner] = curve(steps, duration_s)
    return found


def priced(steps: Columns, trace: Trace, latency: LatencyModel, drafter_loaded: bool) -> FloatArray:
    """Seconds of all steps but the last, which depth the survivors of a step drafted to is seen in the next one.

    Holds for drafters that always reach the depth they are asked for, and for n-gram drafters, which cost nothing here.
    """
    drafter = Drafter(trace.info.drafter_kind, trace.max_draft_tokens)
    if trace.num_draft_tokens is not None and drafter.kind != "ngram":
        raise BenchError(f"{trace.info.name}: proposals end early, expected a drafter that reaches every depth")
    number, rows, context, depth = (
        steps[name][:-1] for name in ("num_requests", "num_target_tokens", "num_context_tokens", "draft_depth")
    )
    seconds = latency.verify_s(rows, number, context) + latency.host_s(number, drafter_loaded)
    if not drafter_loaded:
        return seconds
    survivors = steps["num_draft_tokens"][1:] // np.maximum(depth, 1)
    return seconds + draft_s(latency, drafter, rows, np.maximum(survivors, 1), depth, context)
