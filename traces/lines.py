"""JSON lines: one object per line, plain or gzip, with the line number of whatever cannot be read."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.core import BenchError, IntArray


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """("FILE line N", object) for every line that is not blank.

    Lines end at "\\n" only: bytes are split, so that no other separator inside a text ends one.
    """
    with path.open("rb") as probe:
        opener = gzip.open if probe.read(2) == b"\x1f\x8b" else open
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path} line {number}", _object(line, f"{path} line {number}")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BenchError(f"{path} is a truncated or damaged gzip file ({error})") from None


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise BenchError(f"{where} is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise BenchError(f"{where} is {type(value).__name__} in JSON, expected an object")
    return value


def first_object(path: Path) -> dict[str, Any]:
    """The first line's object, or an empty one where the file is something else: for sniffing."""
    try:
        return next(read_objects(path), ("", {}))[1]
    except (BenchError, OSError):
        return {}


def counts(value: Any, name: str, where: str, length: int | None = None) -> IntArray:
    """A JSON list of whole numbers as an array, of the given length where one is stated."""
    array = np.asarray(value) if isinstance(value, list) and value else np.zeros(0, np.int64)
    if not isinstance(value, list) or array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise BenchError(f"{where}: {name} is not a list of whole numbers")
    if length is not None and len(array) != length:
        raise BenchError(f"{where}: {name} has {len(array)} entries, expected {length} (num_output_tokens)")
    if (np.abs(array) > np.iinfo(np.int16).max).any():
        raise BenchError(f"{where}: {name} has the entry {array[np.argmax(np.abs(array))]}, expected at most 32767")
    return array.astype(np.int64)
