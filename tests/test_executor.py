"""Executors: cells in one process or several give the same runs, each once, whatever happens to a process."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.executor_process import TRIES
from lightspec_bench.experiment import run_suite, stored_cells, stored_runs
from lightspec_bench.store import whole_runs
from lightspec_bench.suite import Conditions, Suite
from lightspec_bench.traces.format import write_trace
from lightspec_bench.traces.mapped import open_mapped, trace_digest, write_mapped
from tests.support import random_trace

LATENCY = "h100-llama-3.1-8b"
EXACT = Conditions(planner_time="off")


def suite_of(folder: Path, *planners: str, longest: int = 12) -> Suite:
    write_trace(random_trace(5, longest=longest), folder / "trace.parquet")
    return Suite("tiny", (str(folder / "trace.parquet"),), (LATENCY,), (1, 4), planners, conditions=EXACT)


def assert_same_runs(suite: Suite, one: Path, other: Path) -> None:
    """All of every run but the time that planners took, which is the clock's."""
    for (cell, run), (_, again) in zip(
        stored_runs(stored_cells(suite, one), one), stored_runs(stored_cells(suite, other), other), strict=True
    ):
        for mine, theirs in ((asdict(run.totals), asdict(again.totals)), (run.steps, again.steps)):
            assert mine is not None
            assert theirs is not None
            taken = {"planner_s"} & set(mine)
            np.testing.assert_equal(mine | dict.fromkeys(taken), theirs | dict.fromkeys(taken), cell.key)
        np.testing.assert_equal(run.requests, again.requests, cell.key)


def test_several_processes_give_what_one_gives_and_leave_no_mapped_trace(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "dspark", "lightspec-reference")
    alone = run_suite(suite, tmp_path / "alone", jobs=1, resume=False)
    shared = run_suite(suite, tmp_path / "shared", jobs=2, resume=False)
    assert sorted(map(str, alone)) == sorted(map(str, shared))
    assert_same_runs(suite, tmp_path / "alone", tmp_path / "shared")
    assert {path.name for path in (tmp_path / "shared").iterdir()} == {
        "cells", "environment.json", "inputs.json", "outcomes.json", "suite.json"
    }  # fmt: skip


def test_a_worker_that_dies_loses_no_cell(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, f"tests.dying_planners:Dies:folder={tmp_path}")
    outcomes = run_suite(suite, tmp_path / "out", jobs=2, resume=False)
    assert (tmp_path / "death-0").exists()
    assert [o.status for o in outcomes] == ["done"] * 12
    assert len({o.key for o in outcomes}) == 12
    assert len((tmp_path / "started").read_text().splitlines()) == 3  # one of its two cells twice


def test_a_cell_that_kills_every_worker_fails_alone(tmp_path: Path) -> None:
    dies = f"tests.dying_planners:Dies:folder={tmp_path},times=99"
    suite = replace(suite_of(tmp_path, dies), concurrencies=(4,))
    outcomes = run_suite(suite, tmp_path / "out", jobs=2, resume=False)
    assert [o.reason for o in outcomes if o.status != "done"] == [
        f"{dies}: its process ended {TRIES} times, at last with signal SIGKILL"
    ]
    assert len(whole_runs(tmp_path / "out" / "cells")) == 5


@contextmanager
def full_disk(most_bytes: int) -> Iterator[None]:
    """No file may grow beyond `most_bytes`, here and in processes started meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_full_disk_is_one_sentence_and_keeps_finished_cells(tmp_path: Path, jobs: int) -> None:
    suite = suite_of(tmp_path, "dspark", longest=400)
    with full_disk(24_000), pytest.raises(BenchError, match=r"steps.parquet: cannot be written: File too large"):
        run_suite(suite, tmp_path / "out", jobs=jobs, resume=False)
    kept = whole_runs(tmp_path / "out" / "cells")
    assert not list((tmp_path / "out").rglob("*.tmp"))
    assert not (tmp_path / "out" / ".traces").exists()
    outcomes = run_suite(suite, tmp_path / "out", jobs=1, resume=True)
    assert [o.status for o in outcomes] == ["done"] * 12
    assert kept < whole_runs(tmp_path / "out" / "cells")


def test_a_mapped_trace_is_the_trace_and_is_not_copied(tmp_path: Path) -> None:
    trace = random_trace(1)
    write_mapped(trace, tmp_path / "mapped")
    mapped = open_mapped(tmp_path / "mapped")
    assert mapped.info == trace.info
    for name in ("request_id", "offsets", "num_accepted", "confidence", "entropy"):
        array = getattr(mapped, name)
        np.testing.assert_array_equal(array, getattr(trace, name))
        assert type(array) is np.ndarray
        assert isinstance(array.base, np.memmap)
        assert not array.flags.writeable
    assert mapped.num_draft_tokens is None
    assert trace_digest(mapped) == trace_digest(trace)


def test_a_digest_says_whether_traces_are_the_same() -> None:
    trace, same, other = random_trace(1), random_trace(1), random_trace(1)
    other.num_accepted[0] ^= 1
    assert trace_digest(trace) == trace_digest(same)
    assert trace_digest(trace) != trace_digest(other)


def test_a_damaged_mapped_trace_is_named(tmp_path: Path) -> None:
    write_mapped(random_trace(1), tmp_path / "mapped")
    (tmp_path / "mapped" / "offsets.npy").write_bytes(b"")
    with pytest.raises(BenchError, match="mapped: cannot be read as a mapped trace"):
        open_mapped(tmp_path / "mapped")
