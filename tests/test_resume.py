"""Resuming: a run that is killed at any moment goes on where it was, and runs again only what has changed."""

from __future__ import annotations

import multiprocessing
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lightspec_bench import code_version
from lightspec_bench.core import BenchError
from lightspec_bench.experiment import run_suite, stored_cells, stored_runs
from lightspec_bench.latency_file import write_latency_csv
from lightspec_bench.results import read_frames
from lightspec_bench.store import alone_in, whole_runs
from lightspec_bench.suite import Conditions, Suite
from lightspec_bench.traces.format import write_trace
from tests import resume_job
from tests.support import random_trace
from tests.test_executor import assert_same_runs

LINE = {
    **dict.fromkeys(("device", "model", "dtype", "engine", "source", "licence"), "none"),
    **dict.fromkeys(("host_step_ms", "host_request_us", "drafter_step_ms", "drafter_request_us"), "0"),
    **dict.fromkeys(("us_per_row", "us_per_context_token", "draft_us_per_row", "draft_us_per_context_token"), "1"),
    "kind": "linear", "date": "2026-11-29", "origin": "modelled", "draft_fixed_ms": "1",
}  # fmt: skip
PLANNER = "from lightspec_bench.planners.static import Static\n\nclass Mine(Static):\n    pass\n"


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Two traces, two latency models and a planner in files of their own: 2 x 2 x 3 cells."""
    for seed, name in enumerate(("one", "other")):
        write_trace(random_trace(seed, longest=8), tmp_path / f"{name}.parquet")
        write_latency_csv(tmp_path / f"{name}.csv", LINE | {"name": name, "fixed_ms": "10"})
    (tmp_path / f"{tmp_path.name}.py").write_text(PLANNER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    traces, latencies = ([str(tmp_path / f"{name}.{kind}") for name in ("one", "other")] for kind in ("parquet", "csv"))
    planners = (f"{tmp_path.name}:Mine:k=1", "none", "static:k=2")
    exact = Conditions(planner_time="off")
    return Suite("tiny", tuple(traces), tuple(latencies), (2,), planners, every_static=False, conditions=exact)


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (folder / "cells").iterdir()}


def test_a_run_killed_at_twenty_moments_repeats_and_loses_no_cell(tmp_path: Path) -> None:
    write_trace(random_trace(3, longest=8), tmp_path / "trace.parquet")
    places = (str(tmp_path / "trace.parquet"),), ("h100-llama-3.1-8b",), (1, 2)
    exact = Conditions(planner_time="off")
    whole = Suite("tiny", *places, ("request-ema",), (0, 1, 2, 3, 4), conditions=exact)
    start = time.perf_counter()
    run_suite(whole, tmp_path / "whole", jobs=1, resume=False)
    cell_s = (time.perf_counter() - start) / len(stored_cells(whole, tmp_path / "whole"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([resume_job.__name__])
    folder, moments, kept, kills = tmp_path / "killed", random.Random(0), {}, 0
    while True:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=resume_job.go_on, args=(tmp_path / "whole", folder, theirs))
        process.start()
        theirs.close()
        if kills < 20:
            ours.poll(None)  # until a cell is finished; some of these kills are in the next one, some after it
            time.sleep(moments.uniform(0.0, cell_s))
            process.kill()
            kills += 1
        process.join()
        ours.close()
        now = files(folder)
        assert kept.items() <= now.items()  # what was finished is not written again
        done = whole_runs(folder / "cells")
        kept = {path: written for path, written in now.items() if path.name.partition(".json")[0] in done}
        if process.exitcode == 0:
            break
    assert kills == 20
    cells = stored_cells(whole, folder)
    assert whole_runs(folder / "cells") == {cell.key for cell in cells}
    assert len(files(folder)) == 3 * len(cells)  # and nothing that was half-written
    assert_same_runs(whole, tmp_path / "whole", folder)


@pytest.mark.parametrize("change", ["trace", "latency", "planner", "nothing"])
def test_a_changed_input_runs_again_only_what_it_touches(suite: Suite, tmp_path: Path, change: str) -> None:
    folder = tmp_path / "out"
    run_suite(suite, folder, jobs=1, resume=False)
    before = whole_runs(folder / "cells")
    touched = {"trace": suite.traces[1], "latency": suite.latencies[1], "planner": suite.planners[0], "nothing": ""}
    if change == "trace":
        write_trace(random_trace(9, longest=8), suite.traces[1])
    if change == "latency":
        write_latency_csv(suite.latencies[1], LINE | {"name": "other", "fixed_ms": "11"})
    if change == "planner":
        (tmp_path / f"{tmp_path.name}.py").write_text(f"{PLANNER}# another one\n", encoding="utf-8")
        code_version.code_version.cache_clear()
        code_version.source_digest.cache_clear()
    ran: list[int] = []
    run_suite(suite, folder, jobs=1, resume=True, progress=lambda done, total: ran.append(done))
    new = whole_runs(folder / "cells") - before
    expected = [c for c in stored_cells(suite, folder) if touched[change] in (c.trace, c.latency, c.planner)]
    assert new == {cell.key for cell in expected}
    assert len(ran) == len(new) == {"trace": 6, "latency": 6, "planner": 4, "nothing": 0}[change]
    assert len(list(stored_runs(stored_cells(suite, folder), folder))) == 12


def test_one_more_planner_runs_only_its_own_cells(suite: Suite, tmp_path: Path) -> None:
    run_suite(suite, tmp_path / "out", jobs=1, resume=False)
    more = replace(suite, planners=(*suite.planners, "static:k=3"))
    ran: list[int] = []
    run_suite(more, tmp_path / "out", jobs=1, resume=True, progress=lambda done, total: ran.append(done))
    assert len(ran) == 4


def test_results_are_read_after_traces_and_planners_are_gone(suite: Suite, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    run_suite(suite, folder, jobs=1, resume=False)
    for path in [*tmp_path.glob("o*.*"), *tmp_path.glob("*.py")]:
        path.unlink()
    summary, _, _ = read_frames(suite, stored_cells(suite, folder), folder)
    assert len(summary) == 12


def test_a_folder_takes_one_run_at_a_time(suite: Suite, tmp_path: Path) -> None:
    with (
        alone_in(tmp_path / "out"),
        pytest.raises(BenchError, match="out: another run is writing to it, expected a folder of one run at a time"),
    ):
        run_suite(suite, tmp_path / "out", jobs=1, resume=True)
    run_suite(suite, tmp_path / "out", jobs=1, resume=True)
