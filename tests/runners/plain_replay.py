"""The replay of static K written as plain loops over requests, for tests and benchmarks of the simulator.

Requests are longer than one token and the trace is repeated as often as the closed loop needs.
"""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import EngineConfig, Trace
from lightspec_bench.drafting import draft_s
from lightspec_bench.runners.load import Load, make_workload, repetition


def plain_replay(trace: Trace, config: EngineConfig, k: int, load: Load) -> tuple[float, int]:
    """Simulated seconds and request-steps of static K in a closed loop, one request after another."""
    latency, counted = config.latency, make_workload(trace, load).num_requests
    ids = np.concatenate([repetition(trace, load.seed, n) for n in range(2 + 2 * counted // trace.num_requests)])
    sent = request_steps = 0
    unfinished, now_s, outcomes = counted, 0.0, np.zeros((k + 1, k + 1), dtype=np.int64)
    running: list[list[int]] = []
    while unfinished:
        while len(running) < load.concurrency:
            row = ids[sent] % trace.num_requests
            running.append([sent, row, 1, 0])
            sent += 1
        rows = context = 0
        alive = []
        for request in running:
            number, row, position, pending = request
            rows += pending + 1
            context += trace.num_prompt_tokens[row] + position
            accepted = min(pending, trace.num_accepted[trace.offsets[row] + position])
            outcomes[pending, accepted] += 1
            request[2], request[3] = position + accepted + 1, k
            if request[2] < trace.num_output_tokens[row]:
                alive.append(request)
            else:
                unfinished -= number < counted
        request_steps += len(running)
        now_s += float(latency.verify_s(rows, len(running), context) + latency.host_s(len(running), True))
        now_s += float(draft_s(latency, config.drafter, rows, len(alive), k if alive else 0, context))
        running = alive
    return now_s, request_steps
