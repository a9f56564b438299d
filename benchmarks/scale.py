"""Many cells: what a worker holds of a trace that all share, what executors add to a cell, and what a long list costs.

Memory: a run of N workers must not hold N copies of its trace. Executors: what the one process that hands out cells
spends on each (with Ray it also writes the results) bounds how many workers it can keep busy; processor time, so that
other work on the machine does not count. List: keys, digests and the look for finished cells are per cell, so 20,000
cells take ten times as long as 2,000, not a hundred times.

    python benchmarks/scale.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from lightspec_bench.executor_process import ProcessExecutor
from lightspec_bench.executor_ray import RayExecutor
from lightspec_bench.experiment import finished, run_suite
from lightspec_bench.inputs import cells_of, load_inputs
from lightspec_bench.suite import Cell, Conditions, Suite
from lightspec_bench.traces.format import write_trace
from lightspec_bench.traces.library import load_trace

LATENCY = "h200-qwen3-14b"
EXACT = Conditions(planner_time="off", num_requests=4)
TARGETS = {"memory_ratio": 0.1, "process_ratio": 0.1, "ray_ratio": 1.0, "list_ratio": 15.0}


def private_mib(pid: int) -> float:
    """Memory of a process that is no page of a file, in MiB: what it allocated, and shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024


class Watched(ProcessExecutor):
    """Looks at its workers' memory before they go."""

    found: float = 0.0

    def __exit__(self, *error: object) -> None:
        type(self).found = max(private_mib(worker.process.pid or 0) for worker in self._workers)
        super().__exit__(*error)


def loads_itself(path: str, pipe: Connection) -> None:
    trace = load_trace(path)
    pipe.send(private_mib(os.getpid()) + 0.0 * trace.num_requests)


def loaded_mib(path: str) -> float:
    """What a process holds that loads the trace for itself."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=loads_itself, args=(path, theirs))
    process.start()
    found = float(ours.recv())
    process.join()
    return found


def memory(folder: Path, num_requests: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, count in (("small", 8), ("large", num_requests)):
        path = folder / f"{name}.parquet"
        write_trace(load_trace(f"synthetic:shape=dspark,num_requests={count}"), path)
        suite = Suite(
            "memory", (str(path),), (LATENCY,), (1, 4), ("none", "dspark"), every_static=False, conditions=EXACT
        )
        run_suite(suite, folder / f"{name}-run", jobs=2, resume=False, executor=Watched)
        found[f"{name}_mapped_mib"], found[f"{name}_loaded_mib"] = Watched.found, loaded_mib(str(path))
    mapped, loaded = (found[f"large_{how}_mib"] - found[f"small_{how}_mib"] for how in ("mapped", "loaded"))
    return found | {"memory_ratio": max(mapped, 0.0) / loaded}


def seconds_a_cell(suite: Suite, folder: Path, make: Any, jobs: int) -> float:
    """Processor time here per cell, workers being there: the first cells start them."""
    inputs = load_inputs(suite)
    cells = cells_of(suite, inputs.digests)
    with make(inputs, folder, jobs) as executor:
        list(executor.run(cells[: 4 * jobs]))
        start = time.process_time()
        list(executor.run(cells[4 * jobs :]))
        return (time.process_time() - start) / (len(cells) - 4 * jobs)


def executors(folder: Path, num_cells: int) -> dict[str, float]:
    path = folder / "small.parquet"
    suite = Suite("tiny", (str(path),), (LATENCY,), (1,), ("none",), tuple(range(num_cells)), False, EXACT)
    here = seconds_a_cell(suite, folder / "here", ProcessExecutor, 1)
    process = seconds_a_cell(suite, folder / "process", ProcessExecutor, 2)
    ray = seconds_a_cell(suite, folder / "ray", RayExecutor, 2)
    return {
        "run_here_ms": 1e3 * here,
        "handed_to_process_ms": 1e3 * process,
        "handed_to_ray_ms": 1e3 * ray,
        "process_ratio": process / here,
        "ray_ratio": ray / here,
    }


def listed(folder: Path, num_cells: int) -> float:
    """Seconds to make a list of cells and to find those that are finished, which all of them are."""
    path = folder / "small.parquet"
    suite = Suite("list", (str(path),), (LATENCY,), (1,), ("none",), tuple(range(num_cells)), False, EXACT)
    inputs = load_inputs(suite)
    cells: Sequence[Cell] = cells_of(suite, inputs.digests)
    place = folder / f"list-{num_cells}" / "cells"
    place.mkdir(parents=True)
    for cell in cells:
        (place / f"{cell.key}.json").touch()
    start = time.process_time()
    assert len(finished(cells_of(suite, inputs.digests), place.parent)) == num_cells
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        found = memory(folder, 1000 if quick else 8000)
        found |= executors(folder, 100 if quick else 400)
        few, many = listed(folder, 2_000), listed(folder, 20_000)
        found |= {"list_of_20000_s": many, "list_ratio": many / few}
    for name, value in found.items():
        target = f"   target: at most {TARGETS[name]}" if name in TARGETS else ""
        print(f"{name:28}{value:10.3f}{target}")
    print(json.dumps({name: {"value": round(v, 4), "target": TARGETS.get(name)} for name, v in found.items()}))


if __name__ == "__main__":
    main()
