"""A tiny run in a process of its own, for tests that kill it. What it needs is loaded before that process is forked."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow.compute
import pyarrow.parquet  # noqa: F401

from lightspec_bench.experiment import run_cell, run_suite, stored_suite
from lightspec_bench.inputs import planner_digest, simulator_digest
from lightspec_bench.suite import Cell, Conditions
from tests.support import RoundLatency, random_trace

for spec in ("none", "static", "request-ema"):
    planner_digest(spec)
simulator_digest()
run_cell(Cell("", "", 1, "static", 0, Conditions()), trace=random_trace(1), latency=RoundLatency())


def go_on(like: Path, folder: Path, cells: Connection) -> None:
    """Run the suite of `like` in `folder`; a message on `cells` for each finished cell."""
    run_suite(stored_suite(like), folder, jobs=1, resume=True, progress=lambda done, total: cells.send(done))
