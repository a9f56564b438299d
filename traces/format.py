"""The file: one trace is one Parquet file, a row per request and list columns per output position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lightspec_bench.core import Confidence, Trace
from lightspec_bench.files import write_atomically
from lightspec_bench.traces.layout import METADATA_KEY, OPTIONAL, SCHEMA_VERSION, schema
from lightspec_bench.traces.read import read_info, read_trace

__all__ = ["SCHEMA_VERSION", "read_info", "read_trace", "write_parts", "write_trace"]

POSITIONS_PER_ROW_GROUP = 16_384  # small enough that a reader never holds much of a column twice


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace to `path`, whole or not at all: it is written beside it and then renamed."""
    write_parts([trace], path)


def write_parts(parts: Iterable[Trace], path: str | Path) -> None:
    """Write one trace of several parts, one after another, so that it need not fit into memory.

    Parts have the first one's metadata and optional columns; no request id may stand in two of them.
    """
    write_atomically(Path(path), lambda temporary: _write_row_groups(iter(parts), temporary))


def _write_row_groups(parts: Iterator[Trace], path: Path) -> None:
    first = next(parts)
    options = {"compression": "zstd", "compression_level": 9, "use_dictionary": _has_few_values(first.confidence)}
    with pq.ParquetWriter(path, _schema(first), **options) as writer:
        for trace in chain([first], parts):
            table = _table(trace)
            cuts = np.searchsorted(trace.offsets, np.arange(0, trace.num_positions, POSITIONS_PER_ROW_GROUP))
            cuts = np.unique(np.append(cuts, trace.num_requests))
            for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
                writer.write_table(table.slice(start, stop - start), row_group_size=stop - start)


def _has_few_values(confidence: Confidence | None) -> bool:
    """Whether confidences are rounded, so that a dictionary of them is far smaller than they are."""
    return confidence is None or len(np.unique(confidence[:4096])) < confidence[:4096].size / 4


def _optional(trace: Trace) -> tuple[str, ...]:
    return tuple(name for name in OPTIONAL if getattr(trace, name) is not None)


def _schema(trace: Trace) -> pa.Schema:
    value = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(trace.info)}).encode()
    return schema(trace.max_draft_tokens, _optional(trace)).with_metadata({METADATA_KEY: value})


def _table(trace: Trace) -> pa.Table:
    layout, optional = _schema(trace), _optional(trace)
    offsets = pa.array(trace.offsets.astype(np.int32))
    never = trace.repeats_from >= trace.num_output_tokens
    columns = [
        pa.array(trace.request_id.tolist(), pa.string()),
        pa.array(trace.category.tolist(), pa.string()),
        pa.array(trace.arrival_s, pa.float64()),
        pa.array(trace.num_prompt_tokens, pa.int64()),
        pa.array(trace.num_output_tokens, pa.int64()),
        pa.array(trace.repeats_from, pa.int64(), mask=never),
        *(_list_column(getattr(trace, n), layout.field(n).type, offsets) for n in ("num_accepted", *optional)),
    ]
    return pa.table(columns, schema=layout)


def _list_column(values: npt.NDArray[Any], list_type: pa.DataType, offsets: pa.Array) -> pa.Array:
    if values.ndim == 1:
        entries = pa.array(values.astype(np.int16, copy=False))
    else:
        flat = pa.array(np.ascontiguousarray(values, dtype=np.float32).ravel())
        entries = pa.FixedSizeListArray.from_arrays(flat, type=list_type.value_type)
    return pa.ListArray.from_arrays(offsets, entries, type=list_type)
