"""Live recording, without an engine: what is told of tokens and requests becomes a trace, over several beginnings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.runners.vllm_record import LiveRecorder
from lightspec_bench.runners.vllm_requests import FinishedRequest
from lightspec_bench.traces.format import read_trace
from lightspec_bench.traces.importer import import_trace

INFO = {
    "target": "T", "drafter": "d", "drafter_kind": "autoregressive", "max_draft_tokens": 2, "dataset": "live traffic",
    "sampling": "any", "indexing": "step", "origin": "recorded", "made_by": "test", "licence": "counts",
}  # fmt: skip
GONE = FinishedRequest("a", 0, 0.0, 0.0, 0.0, 9.0, 10, 7, 3, 2, 4, 3, 2, 100.0)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def record(out: Path, *, most: int = 100, names: tuple[str, ...] = ("a",), signals: bool = False) -> LiveRecorder:
    """Requests in slot 4 that verified 2, 0 and 1 draft tokens, of which 2, 0 and 1 were accepted."""
    recorder = LiveRecorder(out, INFO, most, signals)
    for name in names:
        for step, (verified, emitted) in enumerate(((2, 3), (0, 1), (1, 2))):
            values = np.array([[0.5 + 0.125 * step, 0.25]], np.float32)
            recorder.emitted(numbers(4), numbers(verified), numbers(emitted), values, 1 - values)
        recorder.finished(4, replace(GONE, name=name))
    return recorder


def test_steps_become_positions(tmp_path: Path) -> None:
    out = tmp_path / "live.parquet"
    record(out, signals=True).close()
    trace = read_trace(out)
    assert trace.info.name == "live"
    assert (trace.request_id.tolist(), trace.num_prompt_tokens.tolist()) == (["a"], [10])
    assert trace.num_output_tokens.tolist() == [7]
    assert trace.num_accepted.tolist() == [0, 2, 1, 0, 0, 1, 0]
    assert trace.num_draft_tokens is not None
    assert trace.num_draft_tokens.tolist() == [0, 2, 1, 0, 0, 1, 0]
    assert trace.confidence is not None
    nan = np.nan
    expected = [[nan, nan], [0.5, 0.25], [0.25, nan], [nan, nan], [nan, nan], [0.75, nan], [nan, nan]]
    np.testing.assert_array_equal(trace.confidence, np.array(expected, np.float32))


def test_an_engine_that_starts_again_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "live.parquet"
    record(out).close()
    record(out, names=("b", "c")).close()
    assert read_trace(out).request_id.tolist() == ["a", "b", "c"]
    with pytest.raises(BenchError, match="was begun with target 'T', expected 'U'"):
        LiveRecorder(out, {**INFO, "target": "U"}, 100, False)


def test_no_more_requests_than_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "live.parquet"
    record(out, most=2, names=("a", "b", "c")).close()
    assert read_trace(out).request_id.tolist() == ["a", "b"]


def test_a_log_whose_engine_was_killed_is_imported(tmp_path: Path) -> None:
    out = tmp_path / "live.parquet"
    recorder = record(out)
    recorder._writer.shutdown()
    trace = import_trace(recorder._log.path, None, {"name": "mine"})
    assert (trace.info.name, trace.num_accepted.tolist()) == ("mine", [0, 2, 1, 0, 0, 1, 0])
    recorder._log.path.write_text('{"settings": {"format": "lightspec-bench step log", "version": 9}}\n')
    with pytest.raises(BenchError, match=r"live.parquet.log: no step log of version 1, expected one in its first line"):
        import_trace(recorder._log.path, None, {})
    recorder._number = 0
    recorder.close()


def test_nothing_recorded_leaves_no_trace(tmp_path: Path) -> None:
    out = tmp_path / "live.parquet"
    recorder = LiveRecorder(out, INFO, 10, False)
    recorder.finished(0, GONE)
    recorder.close()
    assert not out.exists()
