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
    if not isinstance(value, list) or any(type(entry) is not int for entry in value):
        raise BenchError(f"{where}: {name} is not a list of whole numbers")
    if length is not None and len(value) != length:
        raise BenchError(f"{where}: {name} has {len(value)} entries, expected {length} (num_output_tokens)")
    largest = max(value, key=abs, default=0)
    if abs(largest) > np.iinfo(np.int16).max:
        raise BenchError(f"{where}: {name} has the entry {largest}, expected at most {np.iinfo(np.int16).max}")
    return np.array(value, np.int64)
