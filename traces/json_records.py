"""JSON and JSON lines of counters: the records one by one, and their numbers; what cannot be read is counted."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lightspec_bench.skipped import Malformed, Tally
from lightspec_bench.traces.prompts_files import Unread, read_json

_SNIFFED_BYTES = 1 << 16
_MOST_BYTES = 256 << 20  # an object that is longer is not recognised: name its format


def records_of(path: Path, tally: Tally) -> Iterator[tuple[str, dict[str, Any]]]:
    """("FILE line 3", object) for each record of a JSON list or JSON lines file; an object given as text is parsed."""
    for where, row in read_json(path, one_row=True):
        found = tally.tried(where, partial(_object, row))
        if found is not None:
            yield where, found


def sniffed_record(path: Path) -> dict[str, Any] | None:
    """The first record, None where the file is of another kind. Reads its beginning, all of it only for one object."""
    try:
        with path.open("rb") as probe:
            opener = gzip.open if probe.read(2) == b"\x1f\x8b" else open
        with opener(path, "rb") as file:
            start = file.read(_SNIFFED_BYTES).decode("utf-8-sig", "replace").lstrip()
            found = _first(start)
            if found is None and start.startswith("{") and path.stat().st_size < _MOST_BYTES:
                file.seek(0)
                found = json.loads(file.read())
    except (OSError, EOFError, ValueError, RecursionError, zlib.error):
        return None
    return found if isinstance(found, dict) else None


def _first(start: str) -> Any:
    """The value that a text starts with, or that its list starts with; None where it does not end in it."""
    text = start[1:].lstrip() if start.startswith("[") else start
    try:
        value = json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None
    return json.loads(value) if isinstance(value, str) else value


def _object(row: Any) -> dict[str, Any]:
    if isinstance(row, Malformed):
        raise row
    if isinstance(row, Unread):
        raise Malformed("is cut off or not JSON", str(row))
    if isinstance(row, str):
        try:
            row = json.loads(row)
        except ValueError as error:
            raise Malformed("is not JSON", str(error)) from None
    if not isinstance(row, dict):
        raise Malformed("is not an object", type(row).__name__)
    return row


def whole_in(record: Mapping[str, Any], name: str) -> int:
    """A whole number of at least 0 by its name."""
    if name not in record:
        raise Malformed("is of an unknown version", f"it has no {name}")
    return _whole(record[name], name)


def counts_in(record: Mapping[str, Any], name: str) -> list[int]:
    """A list of whole numbers of at least 0 by its name."""
    value = record.get(name)
    if not isinstance(value, list):
        raise Malformed("is of an unknown version", f"{name} is {value!r}, expected a list of counts")
    return [_whole(entry, name) for entry in value]


def _whole(value: Any, name: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        raise Malformed("is no count", f"{name} is {value!r}, expected a whole number of at least 0")
    return value
