"""A trace file: what is written is read back, and each way a file can be wrong is one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.core import BenchError
from lightspec_bench.traces import format as trace_format
from lightspec_bench.traces.format import read_info, read_trace, write_trace
from lightspec_bench.traces.synthetic import Dials, synthesize
from tests.traces.tiny import assert_same, tiny_trace


def test_a_trace_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_trace(tiny_trace(), tmp_path / "t.parquet")
    assert_same(read_trace(tmp_path / "t.parquet"), tiny_trace())
    assert read_info(tmp_path / "t.parquet") == (tiny_trace().info, 2)


def test_optional_columns_may_be_absent(tmp_path: Path) -> None:
    bare = tiny_trace(num_draft_tokens=None, confidence=None, entropy=None)
    write_trace(bare, tmp_path / "t.parquet")
    assert_same(read_trace(tmp_path / "t.parquet"), bare)
    assert "confidence" not in pq.read_schema(tmp_path / "t.parquet").names


def test_anyone_can_read_the_file_without_us(tmp_path: Path) -> None:
    write_trace(tiny_trace(), tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert table["num_accepted"].to_pylist() == [[0, 2, 1, 0], [0, 1, 0]]
    assert table["repeats_from"].to_pylist() == [None, 2]
    assert table["confidence"].to_pylist()[1][1:] == [[0.75, 0.5], [1.0, 0.0]]
    assert json.loads(table.schema.metadata[b"lightspec_bench"])["schema_version"] == 1


@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=30), group=st.integers(1, 40))
def test_many_row_groups_read_like_one(
    lengths: list[int], group: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    trace = tiny_trace(
        request_id=np.array([f"r{i}" for i in range(len(lengths))]),
        category=np.array(["c"] * len(lengths)),
        arrival_s=np.arange(len(lengths)) * 0.5,
        num_prompt_tokens=np.arange(len(lengths)),
        num_output_tokens=np.array(lengths),
        repeats_from=np.array(lengths),
        offsets=offsets,
        num_accepted=np.arange(offsets[-1]).astype(np.int16),
        num_draft_tokens=np.arange(offsets[-1])[::-1].astype(np.int16),
        confidence=np.arange(2 * offsets[-1], dtype=np.float32).reshape(-1, 2),
        entropy=None,
    )
    path = tmp_path_factory.mktemp("groups") / "t.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_format, "POSITIONS_PER_ROW_GROUP", group)
        write_trace(trace, path)
    assert_same(read_trace(path), trace)


def test_a_large_trace_has_several_row_groups_and_comes_back(tmp_path: Path) -> None:
    trace = synthesize(Dials(num_requests=90, lag_1=0.0, measured_on="positions"))
    write_trace(trace, tmp_path / "t.parquet")
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 2
    assert_same(read_trace(tmp_path / "t.parquet"), trace)


Edit = Callable[[pa.Table], pa.Table]


def metadata(**changes: Any) -> Edit:
    def edit(table: pa.Table) -> pa.Table:
        values = json.loads(table.schema.metadata[b"lightspec_bench"])
        values.update(changes)
        kept = {key: value for key, value in values.items() if value is not ...}
        return table.replace_schema_metadata({"lightspec_bench": json.dumps(kept)})

    return edit


def column(name: str, values: Any) -> Edit:
    def edit(table: pa.Table) -> pa.Table:
        return table.set_column(table.schema.get_field_index(name), name, values)

    return edit


def int16_lists(*lists: list[int | None] | None) -> pa.Array:
    return pa.array(lists, pa.list_(pa.int16()))


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda t: t.replace_schema_metadata({}), "has no lightspec_bench metadata, expected a trace written by"),
        (
            lambda t: t.replace_schema_metadata({"lightspec_bench": "{"}),
            "its lightspec_bench metadata is not readable, expected JSON",
        ),
        (metadata(schema_version=2), "has schema version 2, expected 1"),
        (metadata(target=...), "metadata target missing, expected every one of name, target"),
        (metadata(colour="red"), "unknown metadata 'colour'"),
        (metadata(drafter_kind="paralel"), "drafter_kind is 'paralel', did you mean 'parallel'?"),
        (metadata(max_draft_tokens=0), "max_draft_tokens is 0, expected a whole number from 1 to 1024"),
        (
            metadata(max_draft_tokens=3),
            "column confidence is list<element: fixed_size_list<element: float",
        ),
        (lambda t: t.drop_columns(["num_accepted"]), "column num_accepted is missing"),
        (lambda t: t.drop_columns(["category"]), "column category is missing"),
        (column("arrival_s", pa.array(["0", "1"])), "column arrival_s is string, expected double"),
        (column("num_accepted", pa.array([1, 2], pa.int16())), "column num_accepted is int16, expected list<element"),
        (column("num_output_tokens", pa.array([4, -3])), "request 1 has num_output_tokens -3, expected at least 1"),
        (column("num_prompt_tokens", pa.array([4, None])), "request 1 has no num_prompt_tokens, expected a number"),
        (
            column("num_accepted", int16_lists([0, 2, 1, 0], [0, 1])),
            "request 1 has 2 entries in num_accepted, expected 3 (num_output_tokens)",
        ),
        (
            column("num_output_tokens", pa.array([4, 10**12])),
            "request 1 has 3 entries in num_accepted, expected 1000000000000 (num_output_tokens)",
        ),
        (
            column("num_draft_tokens", int16_lists([0, 2, 1, 0, 0], [0, 1])),
            "request 0 has 5 entries in num_draft_tokens, expected 4 (num_output_tokens)",
        ),
        (
            column("num_draft_tokens", int16_lists([0, 2, 1, None], [0, 1, 1])),
            "num_draft_tokens has nulls, expected a number in every entry",
        ),
        (
            column("num_draft_tokens", int16_lists([0, 2, 1, 0], None)),
            "request 1 has no num_draft_tokens, expected a list of 3 entries",
        ),
        (lambda t: t.slice(0, 0), "has no requests, expected at least 1"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, edit: Edit, sentence: str) -> None:
    path = tmp_path / "t.parquet"
    write_trace(tiny_trace(), path)
    pq.write_table(edit(pq.read_table(path)), path)
    with pytest.raises(BenchError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(str(path))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_foreign_and_truncated_files(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(BenchError, match=r"t\.parquet does not exist, expected a trace file$"):
        read_trace(path)
    with pytest.raises(BenchError, match=r"is a folder, expected a trace file$"):
        read_trace(tmp_path)
    write_trace(tiny_trace(), path)
    whole = path.read_bytes()
    for damaged in (b"", b"hello", whole[:-100], whole[:40] + bytes(len(whole) - 80) + whole[-40:]):
        path.write_bytes(damaged)
        with pytest.raises(BenchError, match=r"t\.parquet is not a Parquet file, or is truncated or damaged \("):
            read_trace(path)


def test_damaged_pages_are_one_sentence_too(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_trace(tiny_trace(), path)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(6)
    start = min(x for x in (chunk.dictionary_page_offset, chunk.data_page_offset) if x)
    whole = bytearray(path.read_bytes())
    whole[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(whole)
    with pytest.raises(BenchError, match="is not a Parquet file, or is truncated or damaged"):
        read_trace(path)


def test_nothing_half_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    write_trace(tiny_trace(), path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace_format, "_write_row_groups", fail)
    with pytest.raises(BenchError, match=r"t\.parquet: cannot be written: No space left on device"):
        write_trace(tiny_trace(), path)
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]
    assert path.read_bytes() == before
