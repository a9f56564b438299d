"""Tiny hand-made runs and summaries for the tests of reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lightspec_bench.core import Run, Totals
from lightspec_bench.reports.metrics import summarise

ORIGIN = "simulated from a recorded trace"


def totals(outcomes: list[list[int]], **changes: Any) -> Totals:
    """Sums of 8 steps in 4 s: 2.0 verify, .5 draft, .4 host, 1.0 prefill, .2 planner of which .1 exposed."""
    values = {
        "num_steps": 8, "num_draft_tokens": 12, "num_output_tokens": 20, "num_prefill_tokens": 100, "elapsed_s": 5.0,
        "verify_s": 2.0, "draft_s": 0.5, "host_s": 0.4, "prefill_s": 1.0, "planner_s": 0.2, "exposed_planner_s": 0.1,
    }  # fmt: skip
    return Totals(outcomes=np.array(outcomes), **(values | changes))


def requests(**changes: list[float]) -> dict[str, Any]:
    """Three requests, the last of 1 token."""
    values: dict[str, list[float]] = {
        "request_id": [0, 1, 2],
        "arrival_s": [0.0, 0.0, 1.0],
        "start_s": [0.0, 1.0, 1.0],
        "first_token_s": [0.5, 1.5, 2.0],
        "finish_s": [2.5, 5.5, 2.0],
        "num_prompt_tokens": [40, 40, 20],
        "num_output_tokens": [11, 9, 1],
        "num_steps": [5, 8, 0],
        "num_spec_steps": [4, 2, 0],
        "num_draft_tokens": [8, 4, 0],
        "num_verify_tokens": [8, 2, 0],
        "num_accepted_tokens": [6, 0, 0],
    }
    return {name: np.array(column) for name, column in (values | changes).items()}


def steps(durations_s: list[float], num_requests: list[int]) -> dict[str, Any]:
    """Step columns with the two that the tests read, plus a budget and a depth."""
    count = len(durations_s)
    return {
        "step": np.arange(count),
        "duration_s": np.array(durations_s),
        "num_requests": np.array(num_requests),
        "num_target_tokens": 2 * np.array(num_requests),
        "num_accepted_tokens": np.array(num_requests),
        "planned_depth": np.arange(count) % 3,
        "draft_depth": np.arange(count) % 3,
    }


OUTCOMES = [[2, 0, 0], [1, 1, 0], [1, 1, 2]]


def run(**changes: Any) -> Run:
    """A run with every part of it."""
    parts = {
        "settings": {}, "environment": {}, "origin": ORIGIN, "totals": totals(OUTCOMES), "requests": requests(),
        "steps": steps([0.1, 0.2, 0.4], [1, 2, 1]),
    }  # fmt: skip
    return Run(**(parts | changes))


def summary(cells: dict[tuple[int, str], float], **names: Any) -> pd.DataFrame:
    """A summary with one seed: (concurrency, planner) -> throughput, every other metric as in `run()`."""
    return pd.DataFrame(
        {
            "trace": "chat", "latency": "h200", "latency_origin": "modelled", "concurrency": concurrency,
            "planner": planner, "seed": 0, "origin": ORIGIN, **summarise(run()), "throughput": value, **names,
        }
        for (concurrency, planner), value in cells.items()
    )  # fmt: skip
