"""How fast the simulator replays: request-steps per second on one core, and against a plain loop over requests.

Why: a suite is thousands of runs, and a planner is tuned by replaying it thousands of times more. The plain loop does
the same replay of static K request by request over the same NumPy arrays and must arrive at the same simulated time, so
the ratio says what it is worth not to. Times are medians of whole runs without the planner's own, which has a column;
the ratio is the median of pairs run in turn. Batch-size schedules, static K and no speculation among them, are replayed
whole in compiled code where numba is installed; `asked` is static K replayed step by step, as a planner that decides
anew in every step is.
"""

from __future__ import annotations

import argparse
import json
import math
import runpy
import statistics
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.core import Drafter, EngineConfig, LatencyModel, Run, Trace
from lightspec_bench.latency_file import load_latency
from lightspec_bench.planners.static import Static
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.traces.library import load_trace

# The literal replay that the tests hold the simulator to.
plain_replay = runpy.run_path(str(Path(__file__).parent.parent / "tests/runners/plain_replay.py"))["plain_replay"]
TRACE, LATENCY = "smollm2-135m-eagle", "h200-qwen3-14b"
ASKED = "asked"
# Request-steps per second by planner and requests; at one request these are steps per second.
TARGETS = {("static:k=11", 256): 3e6, ("static:k=11", 1): 4e4, (ASKED, 256): 3e6, ("lightspec-reference", 256): 8e5}


class Asked(Static):
    """Static K that does not say that it is a schedule."""

    depth_by_load = None  # type: ignore[assignment]


def engine(trace: Trace, latency: LatencyModel, number: int) -> EngineConfig:
    return EngineConfig(Drafter(trace.info.drafter_kind, trace.max_draft_tokens), latency, number, lag_steps=1)


def replay(trace: Trace, latency: LatencyModel, spec: str, load: Load) -> tuple[Run, float]:
    """A whole run, and the seconds it took beside the planner's."""
    config = engine(trace, latency, load.concurrency)
    planner = Asked(config, k=trace.max_draft_tokens) if spec == ASKED else make_planner(spec, config, trace)
    runner = SimulatedRunner(trace, config, load, SimulatorOptions(planner_time="off"))
    start = time.perf_counter()
    run = runner.run(planner)
    return run, time.perf_counter() - start - run.totals.planner_s


def memory_growth(trace: Trace, latency: LatencyModel, repeats: int) -> tuple[int, int]:
    """Peak bytes of the same number of requests without step records: outputs as recorded, and four times as long."""
    peaks = []
    for times in (1, 4):
        longer = lengthened(trace, times)
        config = engine(longer, latency, 64)
        load = Load(64, num_requests=64 * repeats)
        runner = SimulatedRunner(longer, config, load, SimulatorOptions(planner_time="off", keep_steps=False))
        tracemalloc.start()
        runner.run(make_planner("static:k=3", config))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return peaks[0], peaks[1]


def lengthened(trace: Trace, times: int) -> Trace:
    """Every request's positions several times over, confidences left out."""
    parts = np.split(trace.num_accepted, trace.offsets[1:-1])
    return replace(
        trace,
        num_output_tokens=trace.num_output_tokens * times,
        offsets=trace.offsets * times,
        num_accepted=np.concatenate([np.tile(part, times) for part in parts]),
        confidence=None,
        entropy=None,
    )


def speed(trace: Trace, latency: LatencyModel, spec: str, number: int, repeats: int, size: int) -> dict[str, Any]:
    """A row of the table: medians, and where the planner is static the median ratio to the plain loop."""
    load = Load(number, num_requests=max(16, size * number))
    k = trace.max_draft_tokens
    replay(trace, latency, spec, Load(number, num_requests=1))  # compiles, or loads what was compiled
    per_second, steps_per_second, planner_s, ratios = [], [], [], []
    for _ in range(repeats):
        run, seconds = replay(trace, latency, spec, load)
        assert run.steps is not None
        request_steps = int(run.steps["num_requests"].sum())
        per_second.append(request_steps / seconds)
        steps_per_second.append(len(run.steps["step"]) / seconds)
        planner_s.append(run.totals.planner_s / len(run.steps["step"]))
        if spec == f"static:k={k}":
            start = time.perf_counter()
            simulated_s, looped = plain_replay(trace, engine(trace, latency, number), k, load)
            loop_s = time.perf_counter() - start
            assert looped == request_steps
            assert math.isclose(simulated_s, run.totals.elapsed_s, rel_tol=1e-9)
            ratios.append(loop_s / seconds)
    return {
        "planner": spec,
        "requests": number,
        "request_steps_per_s": round(statistics.median(per_second)),
        "steps_per_s": round(statistics.median(steps_per_second)),
        "times_the_plain_loop": round(statistics.median(ratios), 1) if ratios else None,
        "planner_us_per_step": round(1e6 * statistics.median(planner_s), 1),
        "target_request_steps_per_s": TARGETS.get((spec, number)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, under 50 s")
    quick = parser.parse_args().quick
    repeats, size = (5, 4) if quick else (15, 8)
    trace, latency = load_trace(TRACE), load_latency(LATENCY)
    specs = ("none", f"static:k={trace.max_draft_tokens}", ASKED, "lightspec-reference", "lightspec", "dspark")
    print(f"{TRACE}, {LATENCY}, D = {trace.max_draft_tokens}; medians of {repeats} runs on one core")
    head = ("request-steps/s", 18), ("steps/s", 10), ("planner us", 12), ("x plain loop", 14), ("target", 12)
    print(f"{'planner':22}{'N':>5}" + "".join(f"{name:>{width}}" for name, width in head))
    rows = []
    for spec in specs:
        for number in (1, 64, 256):
            row = speed(trace, latency, spec, number, repeats, size)
            rows.append(row)
            target = row["target_request_steps_per_s"]
            print(
                f"{spec:22}{number:>5}{row['request_steps_per_s']:>18,}{row['steps_per_s']:>10,}"
                f"{row['planner_us_per_step']:>12}"
                f"{row['times_the_plain_loop'] or '':>14}{f'{target:,.0f}' if target else '':>12}"
            )
    short, long = memory_growth(trace, latency, 2 if quick else 8)
    print(f"peak memory without step records: {short:,} bytes; with four times the steps: {long:,} bytes")
    print(json.dumps({"speed": rows, "peak_bytes": short, "peak_bytes_four_times_the_steps": long}))


if __name__ == "__main__":
    main()
