"""How much memory a trace larger than memory takes to read, check and replay, and how fast its replay is.

Why: 10,000 requests of 2,000 tokens with 15 confidences each are 20 million positions and 1.2 GB of confidences: a day
of a small deployment. It is written in parts, read from its row groups into a file that is mapped, checked a part at a
time and replayed, below 2 GiB of resident memory at its peak and no slower per step than the same kind of trace in
memory. Both are read and replayed in processes of their own by the same program; the ratio of their speeds is what
counts. `--quick` takes a twentieth of it, with the threshold from which arrays lie in a file lowered to match.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from lightspec_bench.core import Trace
from lightspec_bench.traces.format import write_parts
from lightspec_bench.traces.library import load_trace

LENGTH, DEPTH, PART = 2000, 15, 250  # tokens, confidences, requests in a part
TARGET_BYTES, TARGET_RATIO = 2 * 2**30, 1.0
_REPLAY = """
import json, re, sys, time
from pathlib import Path
from lightspec_bench.core import Drafter, EngineConfig
from lightspec_bench.latency_file import load_latency
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.traces import spill
from lightspec_bench.traces.library import load_trace
path, large, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
spill.LARGE_BYTES = large
start = time.perf_counter()
trace = load_trace(path)
read_s = time.perf_counter() - start
config = EngineConfig(Drafter(trace.info.drafter_kind, trace.max_draft_tokens), load_latency("h200-qwen3-14b"), 256, 1)
found = {}
for spec in ("static:k=7", "dspark"):  # one reads no confidences, the other all of them
    options = SimulatorOptions(planner_time="off", keep_steps=False)
    runner = SimulatedRunner(trace, config, Load(256, num_requests=count), options)
    start = time.perf_counter()
    run = runner.run(make_planner(spec, config, trace))
    seconds = time.perf_counter() - start - run.totals.planner_s
    found[spec] = int(run.totals.outcomes.sum()) / seconds
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps({"read_s": read_s, "request_steps_per_s": found, "peak_bytes": peak}))
"""


def parts(num_requests: int) -> Iterator[Trace]:
    """The same outcomes over and over under new ids, with new confidences."""
    dials = f"num_requests={PART},num_output_tokens={LENGTH},max_draft_tokens={DEPTH},lag_1=0.0,measured_on=positions"
    trace = load_trace(f"synthetic:{dials}")
    for number in range(num_requests // PART):
        drawn = np.random.default_rng(number).random((trace.num_positions, DEPTH), np.float32)
        ids = np.array([f"{number}-{row}" for row in range(PART)])
        yield replace(trace, request_id=ids, confidence=np.round(drawn, 3))


def replayed(path: Path, large_bytes: int, num_requests: int) -> dict[str, object]:
    command = [sys.executable, "-c", _REPLAY, str(path), str(large_bytes), str(num_requests)]
    found: dict[str, object] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="500 requests instead of 10,000")
    quick = parser.parse_args().quick
    num_requests, large = (500, 2**20) if quick else (10_000, 256 * 2**20)
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "large.parquet", Path(folder) / "small.parquet"
        write_parts(parts(num_requests), path)
        write_parts(parts(500), small)
        size = path.stat().st_size
        in_file = replayed(path, large, num_requests)
        in_memory = replayed(small, 2**62, 500 if quick else 1024)
    ratios = {
        spec: round(speed / in_memory["request_steps_per_s"][spec], 2)  # type: ignore[index]
        for spec, speed in in_file["request_steps_per_s"].items()  # type: ignore[attr-defined]
    }
    print(f"{num_requests:,} requests, {num_requests * LENGTH:,} positions, {size / 1e6:,.0f} MB on disk")
    print(f"read and checked in {in_file['read_s']:.1f} s; peak {int(in_file['peak_bytes']) / 2**20:,.0f} MiB")  # type: ignore[call-overload]
    for spec, ratio in ratios.items():
        speed = in_file["request_steps_per_s"][spec]  # type: ignore[index]
        print(f"{spec:14}{speed:>14,.0f} request-steps/s, {ratio} of a trace in memory")
    targets = {"peak_bytes": TARGET_BYTES, "ratio": TARGET_RATIO}
    print(
        json.dumps(
            {"requests": num_requests, "in_file": in_file, "in_memory": in_memory, "ratios": ratios, "targets": targets}
        )
    )


if __name__ == "__main__":
    main()
