"""JSON and JSON lines of prompts, row by row: what cannot be read is named and counted, the rows around it are kept."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from lightspec_bench.core import BenchError
from lightspec_bench.traces.prompts_rows import PROMPT_FIELDS, Malformed

# Where a row stands, and the row itself, or `Malformed`, or `Unread`, which is the last of its file.
Row: TypeAlias = "tuple[str, Any]"
_CHUNK_BYTES = 1 << 20


class Unread(Exception):
    """The rest of a file could not be read; its text is a sentence for the user."""


def read_json(path: Path, one_row: bool = False) -> Iterator[Row]:
    """("FILE line 7" or "FILE row 7", row or `Malformed`) for each row of a JSON or JSON lines file, plain or gzip.

    A list is read element by element, so that a file cut off in the middle gives every row that is whole, then an
    `Unread` that says how much was not; an empty file gives only that. Lines end at "\\n" only; U+2028 inside a text
    is no line end. An object may hold the rows in its only list, unless `one_row`: then it is the row. Raises
    `BenchError` where the file cannot be opened.
    """
    try:
        with path.open("rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        with path.open("rb") as file:
            yield from _rows(cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file, path, one_row)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        yield str(path), Unread(f"{path} is a truncated or damaged gzip file ({error}): what follows was not read")
    except OSError as error:
        raise BenchError(f"{path}: cannot be read: {error.strerror or error}") from None


def _rows(file: IO[bytes], path: Path, one_row: bool) -> Iterator[Row]:
    start = file.read(4096)
    while start and not start.strip():
        start = file.read(4096)
    if not start:
        yield str(path), Unread(f"{path} is empty")
        return
    first = start.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    file.seek(0)
    if first == b"[":
        yield from _elements(file, path)
    elif ".jsonl" in path.name.lower():
        yield from _lines(file, path)
    else:
        yield from _document(file, path, one_row)


def _document(file: IO[bytes], path: Path, one_row: bool) -> Iterator[Row]:
    """One object that holds the rows in its only list, or is a row; else JSON lines under another name."""
    try:
        document = json.loads(file.read())
    except (ValueError, RecursionError):
        file.seek(0)
        yield from _lines(file, path)
        return
    lists = [value for value in document.values() if _is_rows(value)] if isinstance(document, dict) else []
    if len(lists) == 1 and not one_row and not _is_row(document):
        yield from ((f"{path} row {number}", row) for number, row in enumerate(lists[0], 1))
    else:
        yield f"{path} row 1", document


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _is_row(document: dict[str, Any]) -> bool:
    return any(document.get(name) is not None for name in PROMPT_FIELDS)


def _lines(file: IO[bytes], path: Path) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if line.strip():
            yield f"{path} line {number}", _parsed(line)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return Malformed("is not JSON", str(error))


def _elements(file: IO[bytes], path: Path) -> Iterator[Row]:
    """The elements of a JSON list as they come; memory holds one element and the chunk around it."""
    reader = _Text(file)
    reader.expect("[")
    number = 0
    while True:
        char = reader.peek()
        if number and char == ",":
            reader.expect(",")
            char = reader.peek()
        elif number and char not in ("]", ""):
            break
        if char == "]":
            return
        found = reader.value() if char else None
        if found is None:
            break
        number += 1
        yield f"{path} row {number}", found[0]
    total, left = reader.num_bytes_left()
    row = f"row {number + 1}"
    rest = f"from {row} on {left} of {total} bytes are cut off or not JSON and were not"
    yield f"{path} {row}", Unread(f"{path}: {number} whole rows were read; {rest}")


class _Text:
    """Text of a file, decoded in chunks, read value by value."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        # What is not UTF-8 becomes lone surrogates: the row that holds them is refused, and their bytes are counted.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._json = json.JSONDecoder()
        self._text, self._at, self._ended = "", 0, False

    def peek(self) -> str:
        """The next character that is no white space, "" at the end."""
        while True:
            rest = self._text[self._at : self._at + 1]
            if rest and not rest.isspace():
                return rest
            if rest:
                self._at += 1
            elif not self._more(_CHUNK_BYTES):
                return ""

    def expect(self, char: str) -> None:
        assert self.peek() == char
        self._at += 1

    def value(self) -> tuple[Any] | None:
        """The JSON value that starts here, in a tuple; None where it is cut off or broken."""
        size = _CHUNK_BYTES
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                if not self._more(size):
                    return None
                size *= 2  # so that a long value is tried a few times only
                continue
            if end == len(self._text) and self._more(size):  # a number may go on in the next chunk
                continue
            self._at = end
            return (value,)

    def num_bytes_left(self) -> tuple[int, int]:
        """(bytes of the file, bytes that no value returned so far holds)."""
        while self._more(_CHUNK_BYTES):
            pass
        return self._file.tell(), len(self._text[self._at :].lstrip(", \t\r\n").encode("utf-8", "surrogateescape"))

    def _more(self, size: int) -> bool:
        """Read on and drop what was passed; False once the end had been reached before."""
        if self._ended:
            return False
        chunk = self._file.read(size)
        self._ended = not chunk
        self._text = self._text[self._at :] + self._decoder.decode(chunk, final=self._ended)
        self._at = 0
        return True
