"""The store: finished runs in a folder, a cell's JSON written last so that a cell is there whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.core import BenchError, Columns, Run, Totals
from lightspec_bench.files import write_atomically


def write_json(path: Path, document: Any) -> None:
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BenchError(f"{path}: is not there, expected a finished run's file") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BenchError(f"{path}: cannot be read as JSON: {error}") from error


def write_run(folder: Path, key: str, run: Run) -> None:
    """Save a run under `folder` as `key`.requests.parquet, `key`.steps.parquet (where kept) and `key`.json."""
    _write_columns(folder / f"{key}.requests.parquet", run.requests)
    if run.steps is not None:
        _write_columns(folder / f"{key}.steps.parquet", run.steps)
    totals = asdict(run.totals) | {"outcomes": run.totals.outcomes.tolist()}
    document = {"settings": run.settings, "environment": run.environment, "origin": run.origin, "totals": totals}
    write_json(folder / f"{key}.json", document)


def read_run(folder: Path, key: str) -> Run:
    """Load what `write_run` saved; raises `BenchError` naming the file that is missing or damaged."""
    path = folder / f"{key}.json"
    document = read_json(path)
    try:
        totals = document["totals"] | {"outcomes": np.array(document["totals"]["outcomes"], dtype=np.int64)}
        record = Totals(**{f.name: totals[f.name] for f in fields(Totals)})
        settings, environment, origin = document["settings"], document["environment"], document["origin"]
    except (KeyError, TypeError, ValueError) as error:
        raise BenchError(f"{path}: is not a finished run: {error!r}") from error
    steps = folder / f"{key}.steps.parquet"
    requests = _read_columns(folder / f"{key}.requests.parquet")
    return Run(settings, environment, origin, record, requests, _read_columns(steps) if steps.exists() else None)


def _write_columns(path: Path, columns: Columns) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(columns)
    write_atomically(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def _read_columns(path: Path) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise BenchError(f"{path}: cannot be read as Parquet: {error}") from error
    return {name: table[name].to_numpy() for name in table.column_names}
