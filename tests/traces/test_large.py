"""Traces larger than memory: written in parts, read into a file that is mapped, checked a part at a time."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightspec_bench.core import BenchError, Trace
from lightspec_bench.traces import read, spill, validate as validation
from lightspec_bench.traces.format import read_trace, write_parts, write_trace
from lightspec_bench.traces.synthetic import Dials, synthesize
from lightspec_bench.traces.validate import validate
from tests.traces.tiny import assert_same, tiny_trace


def renamed(trace: Trace, *names: str) -> Trace:
    return replace(trace, request_id=np.array(names))


def both(first: Trace, second: Trace) -> Trace:
    """Two traces of the same metadata as one."""
    columns = {n: np.concatenate([getattr(first, n), getattr(second, n)]) for n in Trace.__slots__ if n != "info"}
    columns["offsets"] = np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]])
    return Trace(first.info, **columns)


def test_parts_are_one_trace(tmp_path: Path) -> None:
    first, second = tiny_trace(), renamed(tiny_trace(), "c", "d")
    write_parts((part for part in (first, second)), tmp_path / "t.parquet")
    assert_same(read_trace(tmp_path / "t.parquet"), both(first, second))


def test_large_arrays_lie_in_a_file_and_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = synthesize(Dials(num_requests=40, num_output_tokens=50))
    write_trace(trace, tmp_path / "t.parquet")
    monkeypatch.setattr(spill, "LARGE_BYTES", 0)
    monkeypatch.setattr(read, "REST_POSITIONS", 100)  # memory is given up while reading, and comes back
    assert_same(read_trace(tmp_path / "t.parquet"), trace)


def test_no_room_for_a_large_array_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(BenchError, match=r"256 MiB for a large trace could not be had there \(No space left on device"):
        spill.spilled((64 * 2**20,), np.float32)


def test_a_trace_is_checked_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = both(tiny_trace(), renamed(tiny_trace(), "c", "d"))
    wrong = trace.num_accepted.copy()
    wrong[[8, 12]] = 9
    broken = replace(trace, num_accepted=wrong, num_prompt_tokens=np.array([1, 1, 1, -1]))
    whole = validate(broken)
    assert whole.count == 3
    assert whole.first.startswith("request 2 ('c') has num_accepted 9 at position 1")
    monkeypatch.setattr(validation, "PART_POSITIONS", 1)
    assert validate(broken) == whole
