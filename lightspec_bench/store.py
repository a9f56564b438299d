"""The store: finished runs in a folder, a cell's JSON written last so that a cell is there whole or not at all."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.core import BenchError, Columns, Run, Totals
from lightspec_bench.files import write_atomically

CELLS = "cells"  # the folder of finished cells in a results folder


def write_json(path: Path, document: Any) -> None:
    write_files(path.parent, {path.name: _json(document)})


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BenchError(f"{path}: is not there, expected a finished run's file") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BenchError(f"{path}: cannot be read as JSON: {error}") from error


def run_files(key: str, run: Run) -> dict[str, bytes]:
    """A run as files, in the order they are to be written: `key`.requests.parquet, `key`.steps.parquet (where kept) and
    `key`.json, whose presence says that the others are whole."""
    files = {f"{key}.requests.parquet": _parquet(run.requests)}
    if run.steps is not None:
        files[f"{key}.steps.parquet"] = _parquet(run.steps)
    totals = asdict(run.totals) | {"outcomes": run.totals.outcomes.tolist()}
    document = {"settings": run.settings, "environment": run.environment, "origin": run.origin, "totals": totals}
    return files | {f"{key}.json": _json(document)}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write each file whole or not at all. Raises `BenchError` naming the one that the folder does not take."""
    for name, content in files.items():
        write_atomically(folder / name, functools.partial(Path.write_bytes, data=content))


def write_run(folder: Path, key: str, run: Run) -> None:
    """Save a run under `folder`, as `run_files` has it."""
    write_files(folder, run_files(key, run))


def whole_runs(folder: Path) -> set[str]:
    """Keys of the runs that are whole in a folder, in one look at it."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json")}
    except FileNotFoundError:
        return set()


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder, so that no second run writes to it meanwhile; let go when the process ends, however it ends.

    Raises `BenchError` where another process holds it. What a run that was killed was writing is removed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = None if os.name == "nt" else os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise BenchError(f"{folder}: cannot be written: {error.strerror or error}") from error
    try:
        if handle is not None:
            _lock(handle, folder)
        for inside in (folder, *(path for path in folder.iterdir() if path.is_dir())):
            for left in inside.glob(".*.tmp"):
                left.unlink(missing_ok=True)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    import fcntl  # Windows has none

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BenchError(f"{folder}: another run is writing to it, expected a folder of one run at a time") from None
    except OSError:  # a file system without locks
        return


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


def _parquet(columns: Columns) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), buffer, compression="zstd")
    return bytes(buffer.getvalue().to_pybytes())


def _read_columns(path: Path) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise BenchError(f"{path}: cannot be read as Parquet: {error}") from error
    return {name: table[name].to_numpy() for name in table.column_names}
