"""How fast the simulator replays: request-steps per second on one core, and against a plain loop over requests.

Why: a suite is thousands of runs, and a planner is tuned by replaying it thousands of times more. The loop does the
least a replay can do (position, min, advance) for one request after another with the same arrays, so the ratio says
what vectorising over the batch is worth. Times are medians of whole runs; planner time is inside the lightspec row.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tracemalloc

import numpy as np

from lightspec_bench.core import Drafter, EngineConfig, LatencyModel, Trace
from lightspec_bench.latency_file import load_latency
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.traces.library import load_trace

TRACE, LATENCY = "smollm2-135m-eagle", "h200-qwen3-14b"
TARGETS = {"static:k=11": 1.5e6, "lightspec-reference": 0.8e6}


def replay(trace: Trace, latency: LatencyModel, spec: str, number: int, repeat: int) -> tuple[float, float]:
    """Request-steps per second and steps per second of one whole run."""
    config = EngineConfig(Drafter(trace.info.drafter_kind, trace.max_draft_tokens), latency, number, 1)
    load = Load(number, num_requests=max(32, repeat * number))
    options = SimulatorOptions(planner_time="off")
    planner = make_planner(spec, config, trace)
    start = time.perf_counter()
    run = SimulatedRunner(trace, config, load, options).run(planner)
    elapsed = time.perf_counter() - start
    assert run.steps is not None
    return float(run.steps["num_requests"].sum()) / elapsed, len(run.steps["step"]) / elapsed


def loop(trace: Trace, depth: int, number: int) -> float:
    """Request-steps per second of the plain loop, one request after another."""
    accepted, steps = trace.num_accepted, 0
    start = time.perf_counter()
    for row in np.random.default_rng(0).integers(0, trace.num_requests, size=number):
        offset, length, position, pending = trace.offsets[row], trace.num_output_tokens[row], 1, 0
        while position < length:
            position += min(pending, accepted[offset + position]) + 1
            pending = depth
            steps += 1
    return steps / (time.perf_counter() - start)


def memory_growth(trace: Trace, latency: LatencyModel, repeat: int) -> tuple[int, int]:
    """Peak bytes without step records for a run and for one four times as long, per-request columns taken off."""
    peaks = []
    for times in (1, 4):
        config = EngineConfig(Drafter(trace.info.drafter_kind, trace.max_draft_tokens), latency, 64, 1)
        load = Load(64, num_requests=64 * repeat * times)
        runner = SimulatedRunner(trace, config, load, SimulatorOptions(planner_time="off", keep_steps=False))
        tracemalloc.start()
        run = runner.run(make_planner("static:k=3", config))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # Per-request columns, and the workload and working copies of the same length, grow with requests, not steps.
        peaks.append(peak - 4 * sum(column.nbytes for column in run.requests.values()))
    return peaks[0], peaks[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, under 50 s")
    quick = parser.parse_args().quick
    repeats, size = (5, 8) if quick else (15, 16)
    trace, latency = load_trace(TRACE), load_latency(LATENCY)
    rows = []
    for spec in ("none", "static:k=11", "lightspec-reference", "dspark"):
        for number in (1, 64, 256):
            measured = [replay(trace, latency, spec, number, size) for _ in range(repeats)]
            plain = [loop(trace, trace.max_draft_tokens, 64) for _ in range(3)]
            request_steps, steps = (statistics.median(values) for values in zip(*measured, strict=True))
            ratio = request_steps / statistics.median(plain)
            target = TARGETS.get(spec) if number == 256 else None
            rows.append(
                {
                    "planner": spec,
                    "requests": number,
                    "request_steps_per_s": round(request_steps),
                    "steps_per_s": round(steps),
                    "ratio_to_plain_loop": round(ratio, 2),
                    "target_request_steps_per_s": target,
                }
            )
    print(f"{TRACE}, {LATENCY}, D={trace.max_draft_tokens}; medians of {repeats} runs, one core")
    print(f"{'planner':22}{'N':>5}{'request-steps/s':>18}{'steps/s':>10}{'x plain loop':>14}{'target':>12}")
    for row in rows:
        target = f"{row['target_request_steps_per_s']:,.0f}" if row["target_request_steps_per_s"] else ""
        print(
            f"{row['planner']:22}{row['requests']:>5}{row['request_steps_per_s']:>18,}{row['steps_per_s']:>10,}"
            f"{row['ratio_to_plain_loop']:>14}{target:>12}"
        )
    short, long = memory_growth(trace, latency, 2 if quick else 8)
    print(f"peak memory without step records: {short:,} bytes; four times the steps: {long:,} bytes")
    print(json.dumps({"speed": rows, "peak_bytes": short, "peak_bytes_four_times_the_steps": long}))


if __name__ == "__main__":
    main()
