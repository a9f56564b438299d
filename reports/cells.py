"""Cells: the names of a summary's columns and planners, and the request rows of one cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from lightspec_bench.core import Columns, Run

GROUP = ("trace", "latency", "concurrency")
CELL = (*GROUP, "planner")
LABELS = ("origin", "latency_origin")
BEST_STATIC = "best-static"
NO_SPECULATION = "none"
ORACLE = "oracle"
_STATIC_DEPTH = re.compile(r"static:k=(\d+)")


def request_rows(names: Mapping[str, Any], run: Run, num_trace_requests: int) -> Columns:
    """The finished requests of a cell as columns: the cell's names (trace, ..., seed), then `REQUEST_COLUMNS`.

    `request_id` is folded onto the row of the trace, which has `num_trace_requests`, so that repetitions of a
    request are known as the same one.
    """
    count = len(run.requests["request_id"])
    columns = {name: np.full(count, names[name]) for name in (*CELL, "seed")}
    return {**columns, **run.requests, "request_id": run.requests["request_id"] % num_trace_requests}


def static_depth(planner: str) -> int | None:
    """K of `static:k=K`, None for every other planner (a bare `static` leaves K to the drafter)."""
    found = _STATIC_DEPTH.fullmatch(planner)
    return int(found[1]) if found else None


def is_static(planner: str) -> bool:
    """Whether this is one fixed K with the drafter loaded; `none` and `best-static` are not."""
    return planner == "static" or planner.startswith("static:")


def is_oracle(planner: str) -> bool:
    """Whether this is a bound that looks into the trace."""
    return planner == ORACLE or planner.startswith(f"{ORACLE}:")


def is_dynamic(planner: str) -> bool:
    """Whether this planner decides from the batch and could be deployed: neither fixed, nor hindsight, nor a bound."""
    return not (is_static(planner) or is_oracle(planner) or planner in (NO_SPECULATION, BEST_STATIC))
