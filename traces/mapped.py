"""Mapped traces: a trace's arrays as files that processes map, so that all share one copy; and a trace's digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import BenchError, Trace, TraceInfo
from lightspec_bench.files import write_atomically

_INFO = "info.json"  # written last: a folder that has it is whole


def trace_digest(trace: Trace) -> str:
    """SHA-256 of everything a trace says, wherever it came from: metadata, and each array's type, shape and bytes."""
    digest = hashlib.sha256(_text(trace.info).encode())
    for name, array in _arrays(trace).items():
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def write_mapped(trace: Trace, folder: Path) -> None:
    """An `.npy` file per array and the metadata in `folder`; one that is whole already is left as it is."""
    if (folder / _INFO).exists():
        return
    for name, array in _arrays(trace).items():
        write_atomically(folder / f"{name}.npy", _saving(array))
    write_atomically(folder / _INFO, lambda path: path.write_text(_text(trace.info), encoding="utf-8"))


def open_mapped(folder: Path) -> Trace:
    """The trace that `write_mapped` left, read from the disk only where it is looked at; its arrays are read-only."""
    try:
        info = TraceInfo(**json.loads((folder / _INFO).read_text(encoding="utf-8")))
        names = [each.name for each in fields(Trace) if each.name != "info"]
        paths = {name: folder / f"{name}.npy" for name in names}
        # Views of the plain type: a `np.memmap` is slower to index.
        arrays = {n: np.asarray(np.load(path, mmap_mode="r")) for n, path in paths.items() if path.exists()}
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise BenchError(f"{folder}: cannot be read as a mapped trace: {error}") from error
    return Trace(info=info, **arrays)


def _arrays(trace: Trace) -> dict[str, npt.NDArray[Any]]:
    found = {each.name: getattr(trace, each.name) for each in fields(trace) if each.name != "info"}
    return {name: array for name, array in found.items() if array is not None}


def _saving(array: npt.NDArray[Any]) -> Any:
    def save(path: Path) -> None:
        with path.open("wb") as file:  # given a name, np.save would add .npy to it
            np.save(file, array, allow_pickle=False)

    return save


def _text(info: TraceInfo) -> str:
    return json.dumps(asdict(info), sort_keys=True)
