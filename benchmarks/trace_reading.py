"""How fast a trace file is read and checked, and how much memory that takes beside the arrays it fills.

Why: a suite reads its traces once per process, and a recorded workload has a million output positions with 11
confidences each. Reading has 0.5 s and 3 times the arrays' size for that. The file is read in processes of their own,
so that their peak of resident memory, over what the imports and a tiny file took, is the reading's; both are medians.
Two files are read: confidences of 3 decimals, as the shipped traces have them, and full float32 ones.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.core import Trace
from lightspec_bench.traces.format import write_trace
from lightspec_bench.traces.library import first_requests, load_trace

POSITIONS, DEPTH, LENGTH = 1_000_000, 11, 250
TARGET_S, TARGET_RATIO = 0.5, 3.0
_READ = """
import json, re, resource, sys, time
from pathlib import Path
from lightspec_bench.traces.format import read_trace
from lightspec_bench.traces.validate import validate
def peak():  # Linux carries a parent's ru_maxrss over into its child, but not VmHWM
    if sys.platform == "linux":
        return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
read_trace(sys.argv[1])
before = peak()
start = time.perf_counter()
trace = read_trace(sys.argv[2])
read_s, memory = time.perf_counter() - start, peak() - before
size = sum(a.nbytes for a in (trace.num_accepted, trace.confidence, trace.offsets, trace.num_output_tokens))
start = time.perf_counter()
count = validate(trace).count
print(json.dumps({"read_s": read_s, "peak_over_arrays": memory / size, "arrays_mb": size / 1e6,
                  "validate_s": time.perf_counter() - start, "violations": count}))
"""


def big_trace(positions: int) -> Trace:
    """A trace of `positions` entries: a synthetic one's outcomes, with confidences drawn in full precision."""
    count = positions // LENGTH
    dials = f"num_requests={count},num_output_tokens={LENGTH},max_draft_tokens={DEPTH},lag_1=0.0,measured_on=positions"
    trace = load_trace(f"synthetic:{dials}")
    rng = np.random.default_rng(0)
    return replace(trace, confidence=rng.random((positions, DEPTH), np.float32))


def measure(file: Path, tiny: Path, tries: int) -> dict[str, float]:
    """Medians over processes that read `file`."""
    command = [sys.executable, "-c", _READ, str(tiny), str(file)]
    found = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(tries)
    ]
    medians = {key: statistics.median(one[key] for one in found) for key in found[0]}
    return {**medians, "file_mb": file.stat().st_size / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer tries")
    tries = 5 if parser.parse_args().quick else 15
    trace = big_trace(POSITIONS)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        tiny, file = Path(folder) / "tiny.parquet", Path(folder) / "big.parquet"
        write_trace(first_requests(trace, 8), tiny)
        assert trace.confidence is not None
        for name, confidence in (("3 decimals", np.round(trace.confidence, 3)), ("full float32", trace.confidence)):
            write_trace(replace(trace, confidence=confidence), file)
            results[name] = measure(file, tiny, tries)
    print(f"{POSITIONS:,} positions, {DEPTH} confidences each; median of {tries} processes, {os.cpu_count()} cores")
    print(f"{'confidences':<14}{'file MB':>9}{'arrays MB':>11}{'read s':>9}{'peak/arrays':>13}{'validate s':>12}")
    for name, row in results.items():
        print(
            f"{name:<14}{row['file_mb']:>9.1f}{row['arrays_mb']:>11.1f}{row['read_s']:>9.3f}"
            f"{row['peak_over_arrays']:>13.2f}{row['validate_s']:>12.3f}"
        )
    print(f"targets: read below {TARGET_S} s, peak below {TARGET_RATIO} times the arrays")
    targets = {"read_s": TARGET_S, "peak_over_arrays": TARGET_RATIO}
    print(json.dumps({"benchmark": "trace_reading", "tries": tries, "results": results, "targets": targets}))


if __name__ == "__main__":
    main()
