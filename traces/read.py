"""Reading a trace file: quick, with little memory beside the arrays, and one sentence for every way it can fail."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lightspec_bench.core import BenchError, IntArray, Trace, TraceInfo
from lightspec_bench.traces.info import make_info
from lightspec_bench.traces.layout import METADATA_KEY, OPTIONAL, SCHEMA_VERSION, is_per_draft_token, schema
from lightspec_bench.traces.spill import rest, spilled

REST_POSITIONS = 1_000_000  # a reader's share of a large trace that stays in memory at once
_REQUEST_COLUMNS = ["request_id", "category", "arrival_s", "num_prompt_tokens", "num_output_tokens", "repeats_from"]


def read_trace(path: str | Path) -> Trace:
    """Read one trace file; raises `BenchError`, one sentence, for anything that keeps it from being a trace.

    Only the structure is checked here (columns, types, list lengths); `validate` checks the values.
    """
    path = Path(path)
    with _reading(path):
        file = pq.ParquetFile(path)
        info = _info(file.schema_arrow, path)
        names = _check_columns(file.schema_arrow, info, path)
        requests = file.read(columns=_REQUEST_COLUMNS)
        lengths = _lengths(requests, path)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        arrays = _read_lists(file, path, names, offsets, info.max_draft_tokens)
    never = requests["repeats_from"].is_null().to_numpy()
    return Trace(
        info=info,
        request_id=np.array(requests["request_id"].to_pylist(), dtype=np.str_),
        category=np.array(requests["category"].to_pylist(), dtype=np.str_),
        arrival_s=_numbers(requests, "arrival_s", path),
        num_prompt_tokens=_numbers(requests, "num_prompt_tokens", path),
        num_output_tokens=lengths,
        repeats_from=np.where(never, lengths, requests["repeats_from"].fill_null(0).to_numpy()),
        offsets=offsets,
        **arrays,
    )


def read_info(path: str | Path) -> tuple[TraceInfo, int]:
    """Metadata and number of requests of a trace file, without reading its columns."""
    path = Path(path)
    with _reading(path):
        file = pq.ParquetFile(path)
        return _info(file.schema_arrow, path), file.metadata.num_rows


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    if not path.exists():
        raise BenchError(f"{path} does not exist, expected a trace file")
    if not path.is_file():
        raise BenchError(f"{path} is a folder, expected a trace file")
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise BenchError(f"{path} is not a Parquet file, or is truncated or damaged ({reason})") from None


def _info(found: pa.Schema, path: Path) -> TraceInfo:
    value = (found.metadata or {}).get(METADATA_KEY)
    if value is None:
        raise BenchError(f"{path} has no {METADATA_KEY.decode()} metadata, expected a trace written by lightspec-bench")
    try:
        values = json.loads(value)
        version = values.pop("schema_version")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise BenchError(f"{path}: its {METADATA_KEY.decode()} metadata is not readable, expected JSON") from None
    if version != SCHEMA_VERSION:
        raise BenchError(f"{path} has schema version {version!r}, expected {SCHEMA_VERSION}")
    return make_info(values, str(path))


def _check_columns(found: pa.Schema, info: TraceInfo, path: Path) -> list[str]:
    """Names of the list columns the file has."""
    optional = tuple(name for name in OPTIONAL if name in found.names)
    for field in schema(info.max_draft_tokens, optional):
        if field.name not in found.names:
            raise BenchError(f"{path}: column {field.name} is missing")
        if not _same_type(found.field(field.name).type, field.type):
            raise BenchError(f"{path}: column {field.name} is {found.field(field.name).type}, expected {field.type}")
    return ["num_accepted", *optional]


def _same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_list(wanted):
        return bool(pa.types.is_list(found)) and _same_type(found.value_type, wanted.value_type)
    if pa.types.is_fixed_size_list(wanted):
        same = pa.types.is_fixed_size_list(found) and found.list_size == wanted.list_size
        return same and _same_type(found.value_type, wanted.value_type)
    return bool(found.equals(wanted))


def _numbers(table: pa.Table, name: str, path: Path) -> npt.NDArray[Any]:
    if table[name].null_count:
        row = int(np.argmax(table[name].is_null().to_numpy()))
        raise BenchError(f"{path}: request {row} has no {name}, expected a number")
    return np.array(table[name].to_numpy())


def _lengths(requests: pa.Table, path: Path) -> IntArray:
    if requests.num_rows == 0:
        raise BenchError(f"{path} has no requests, expected at least 1")
    lengths = _numbers(requests, "num_output_tokens", path)
    if (lengths < 1).any():
        row = int(np.argmax(lengths < 1))
        raise BenchError(f"{path}: request {row} has num_output_tokens {lengths[row]}, expected at least 1")
    return lengths


def _read_lists(
    file: pq.ParquetFile, path: Path, names: list[str], offsets: IntArray, max_draft_tokens: int
) -> dict[str, npt.NDArray[Any]]:
    """The list columns, each row group decoded straight into its place; workers share nothing but the arrays."""
    sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    first_row = np.concatenate([[0], np.cumsum(sizes)])
    _check_size(file, path, offsets)
    arrays = {name: _empty(name, int(offsets[-1]), max_draft_tokens) for name in names}
    workers = max(1, min(4, os.cpu_count() or 1, file.num_row_groups))

    written = [0] * workers

    def read_every(worker: int) -> None:
        own = pq.ParquetFile(path, metadata=file.metadata)
        for group in range(worker, file.num_row_groups, workers):
            table = own.read_row_group(group, columns=names, use_threads=False)
            bounds = offsets[first_row[group] : first_row[group + 1] + 1]
            for name, out in arrays.items():
                _place(table[name].combine_chunks(), out, bounds, name, path, int(first_row[group]))
            written[worker] += int(bounds[-1] - bounds[0])
            if written[worker] > REST_POSITIONS:
                written[worker] = 0
                for out in arrays.values():
                    rest(out)

    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(read_every, range(workers)):
            pass
    return arrays


def _check_size(file: pq.ParquetFile, path: Path, offsets: IntArray) -> None:
    """Refuse lengths that the file does not hold, before arrays are allocated for them."""
    groups = [file.metadata.row_group(g) for g in range(file.num_row_groups)]
    columns = [group.column(c) for group in groups for c in range(group.num_columns)]
    stored = sum(c.num_values for c in columns if c.path_in_schema.startswith("num_accepted."))
    if stored < offsets[-1]:
        _check_lengths(
            file.read(columns=["num_accepted"])["num_accepted"].combine_chunks(), offsets, path, 0, "num_accepted"
        )


def _check_lengths(column: pa.ListArray, offsets: IntArray, path: Path, first_row: int, name: str) -> None:
    found, wanted = np.diff(column.offsets.to_numpy()), np.diff(offsets)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise BenchError(f"{path}: request {first_row + row} has no {name}, expected a list of {wanted[row]} entries")
    if not np.array_equal(found, wanted):
        row = int(np.argmax(found != wanted))
        raise BenchError(
            f"{path}: request {first_row + row} has {found[row]} entries in {name}, "
            f"expected {wanted[row]} (num_output_tokens)"
        )


def _empty(name: str, positions: int, max_draft_tokens: int) -> npt.NDArray[Any]:
    if is_per_draft_token(name):
        return spilled((positions, max_draft_tokens), np.float32)
    return spilled((positions,), np.int16)


def _place(column: pa.Array, out: npt.NDArray[Any], bounds: IntArray, name: str, path: Path, first_row: int) -> None:
    """Copy one row group's lists to positions bounds[0]:bounds[-1], after checking every list's length."""
    _check_lengths(column, bounds, path, first_row, name)
    entries = column.flatten()
    values = entries if out.ndim == 1 else entries.flatten()
    if entries.null_count or values.null_count or len(values) != out[bounds[0] : bounds[-1]].size:
        raise BenchError(f"{path}: {name} has nulls, expected a number in every entry")
    out[bounds[0] : bounds[-1]] = values.to_numpy().reshape(out[bounds[0] : bounds[-1]].shape)
