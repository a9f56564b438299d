"""How many simulated tokens per second against vidur's event loop, on a plain decode workload.

Why: vidur is the simulator of LLM serving that people know. Both simulate the same requests, all of the same lengths,
one replica, no speculation, at a step cost that is a line in the running requests; its predictor of step times is
replaced by that line, its metrics are off, so that its event loop and its scheduler are timed and nothing else. vidur
runs in a process of its own under the Python given with --vidur-python (`pip install vidur` into a scratch
environment); its scheduler is Sarathi's with room for whole prompts. Processor seconds, medians, both in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from typing import Any

from lightspec_bench.core import Drafter, EngineConfig, Run
from lightspec_bench.latency import LinearLatency
from lightspec_bench.latency_curves import AffineCurve
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.traces.library import load_trace

FIXED_S, ROW_S, PROMPT, TOKENS, TARGET = 0.02, 1e-5, 16, 256, 100.0
VIDUR = """
import dataclasses, json, os, sys, tempfile, time
import vidur.config.config as c
import vidur.scheduler.global_scheduler.base_global_scheduler as scheduling
from vidur._native.entities import ExecutionTime
from vidur.simulator import Simulator
concurrency, requests, prompt, tokens, fixed_ms, row_ms = json.loads(sys.argv[1])
class Line:
    def get_execution_time(self, batch, stage):
        return ExecutionTime(1, *([0.0] * 6), fixed_ms + row_ms * len(batch.requests), *([0.0] * 7))
scheduling.ExecutionTimePredictorRegistry.get = classmethod(lambda *args, **more: Line())
os.chdir(tempfile.mkdtemp())
switches = ("write", "enable", "save", "store", "keep")
off = {f.name: False for f in dataclasses.fields(c.MetricsConfig) if f.name.startswith(switches)}
lengths = c.FixedRequestLengthGeneratorConfig(prefill_tokens=prompt, decode_tokens=tokens, max_tokens=prompt + tokens)
simulator = Simulator(c.SimulationConfig(
    log_level="error",
    cluster_config=c.ClusterConfig(
        num_replicas=1,
        replica_config=c.ReplicaConfig(num_pipeline_stages=1),
        replica_scheduler_config=c.SarathiSchedulerConfig(batch_size_cap=concurrency, chunk_size=1 << 20),
        cache_config=c.CacheConfig(num_blocks=1 << 20),
    ),
    request_generator_config=c.SyntheticRequestGeneratorConfig(
        num_requests=requests, length_generator_config=lengths,
        interval_generator_config=c.StaticRequestIntervalGeneratorConfig(),
    ),
    metrics_config=c.MetricsConfig(**off),
))
start = time.process_time()
simulator.run()
print(json.dumps([time.process_time() - start, simulator._time]))
"""


def vidur(python: str, concurrency: int, requests: int) -> tuple[float, float]:
    """Processor seconds, and seconds on the simulated clock."""
    given = json.dumps([concurrency, requests, PROMPT, TOKENS, 1e3 * FIXED_S, 1e3 * ROW_S])
    done = subprocess.run([python, "-c", VIDUR, given], capture_output=True, text=True, check=True)
    seconds, clock_s = json.loads(done.stdout.strip().splitlines()[-1])
    return seconds, clock_s


def ours(concurrency: int, requests: int) -> tuple[float, float]:
    dials = f"num_requests={requests},num_output_tokens={TOKENS},num_prompt_tokens={PROMPT},max_draft_tokens=1"
    trace = load_trace(f"synthetic:{dials}")
    latency = LinearLatency(name="line", origin="modelled", source="a line", target=AffineCurve(FIXED_S, ROW_S))
    config = EngineConfig(Drafter(trace.info.drafter_kind, 1), latency, concurrency)
    options = SimulatorOptions(planner_time="off")
    start = time.process_time()
    run: Run = SimulatedRunner(trace, config, Load(concurrency, num_requests=requests), options).run(
        NoSpeculation(config)
    )
    return time.process_time() - start, run.totals.elapsed_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--vidur-python", required=True, help="the Python of an environment with vidur in it")
    given = parser.parse_args()
    repeats, rows = (3 if given.quick else 9), []
    ours(4, 16)  # compiles, or loads what was compiled
    print(f"{TOKENS} tokens a request, four requests for each place or 256; simulated tokens per processor second")
    print(f"{'N':>5}{'ours':>16}{'vidur':>12}{'ratio':>8}{'clocks apart':>14}")
    for concurrency in (8, 64, 256):
        requests = max(4 * concurrency, 256)
        pairs: list[Any] = [
            (ours(concurrency, requests), vidur(given.vidur_python, concurrency, requests)) for _ in range(repeats)
        ]
        tokens = requests * TOKENS
        ratio = statistics.median(theirs[0] / mine[0] for mine, theirs in pairs)
        apart = abs(pairs[0][0][1] / pairs[0][1][1] - 1)
        speeds = [tokens / statistics.median(pair[side][0] for pair in pairs) for side in (0, 1)]
        rows.append(
            {"requests": concurrency, "ours": round(speeds[0]), "vidur": round(speeds[1]), "ratio": round(ratio, 1)}
        )
        print(f"{concurrency:>5}{speeds[0]:>16,.0f}{speeds[1]:>12,.0f}{ratio:>8.0f}{apart:>14.1%}", flush=True)
    print(json.dumps({"tokens_per_request": TOKENS, "rows": rows, "target_ratio": TARGET}))


if __name__ == "__main__":
    main()
