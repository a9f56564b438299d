"""What recording live traffic costs a serving engine: CPU time per decode step, requests that finish included.

Why: with `"record": "trace.parquet"` in its lightspec options, vLLM's scheduler tells a recorder of every step, which
may take 1 % of it. No engine runs here: the share is that of steps as quick as engines can hope for, 5 ms for one
request, 10 ms for 32 and 20 ms for 256, so that a slower engine pays less. Counted is the scheduler's thread; requests
are written out by another, which has the time that the scheduler waits for the device.

Every request verifies up to 8 draft tokens in each of 400 steps, with two signals each. vLLM is not needed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from lightspec_bench.runners.vllm_record import LiveRecorder
from lightspec_bench.runners.vllm_requests import FinishedRequest

DEPTH, LENGTH, TARGET_SHARE = 8, 400, 0.01
STEP_MS = {1: 5.0, 32: 10.0, 256: 20.0}
INFO = {
    "target": "none", "drafter": "none", "drafter_kind": "autoregressive", "max_draft_tokens": DEPTH,
    "dataset": "made up", "sampling": "none", "indexing": "step", "origin": "recorded", "made_by": "benchmark",
    "licence": "none",
}  # fmt: skip


def seconds_per_step(number: int, steps: int) -> float:
    """CPU seconds of a step of `number` requests, each of which finishes every `LENGTH` steps."""
    rng = np.random.default_rng(0)
    slots, verified = np.arange(number), rng.integers(0, DEPTH + 1, number)
    signal = rng.random((number, DEPTH), np.float32)
    gone = FinishedRequest("", 0, 0.0, 0.0, 0.0, 1.0, 100, LENGTH + 1, LENGTH, LENGTH, 0, 0, 0, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        recorder = LiveRecorder(Path(folder) / "trace.parquet", INFO, 10**9, wants_confidences=True)
        for _ in range(LENGTH):  # every slot has a whole request from here on
            recorder.emitted(slots, verified, verified // 2 + 1, signal, signal)
        due = 0.0
        start = time.thread_time()
        for step in range(steps):
            recorder.emitted(slots, verified, verified // 2 + 1, signal, signal)
            due += number / LENGTH
            while due >= 1.0:
                recorder.finished(step % number, gone)
                due -= 1.0
        spent = time.thread_time() - start
        recorder._number = 0  # no trace is made of it
        recorder.close()
    return spent / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer tries")
    tries = 3 if parser.parse_args().quick else 9
    results = {}
    print(f"{'requests':>8}{'us per step':>13}{'step, ms':>10}{'share':>9}")
    for number, step_ms in STEP_MS.items():
        seconds = statistics.median(seconds_per_step(number, 2 * LENGTH) for _ in range(tries))
        share = seconds / (step_ms / 1e3)
        results[number] = {"us_per_step": 1e6 * seconds, "step_ms": step_ms, "share": share}
        print(f"{number:>8}{1e6 * seconds:>13.1f}{step_ms:>10.1f}{share:>9.2%}")
    print(f"target: a share below {TARGET_SHARE:.0%}")
    targets = {"share": TARGET_SHARE}
    print(json.dumps({"benchmark": "vllm_recorder", "tries": tries, "results": results, "targets": targets}))


if __name__ == "__main__":
    main()
