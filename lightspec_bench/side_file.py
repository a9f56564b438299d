"""Side files: finished pieces of a long job, a JSON line each behind a line of settings, kept until the job is done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lightspec_bench.errors import BenchError


class SideFile:
    """Opened with the job's `settings` (JSON values), which a file from an earlier run must agree with.

    `entries` are what that run finished; a last line that it did not finish writing is dropped. Raises `BenchError`
    for a file of other settings, and for any file unless `resume`.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], resume: bool) -> None:
        self.path = path
        self.entries: list[dict[str, Any]] = []
        self._settings = json.loads(json.dumps(settings))
        whole = self._read(resume) if path.exists() else 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("r+b" if whole else "wb")
        self._file.truncate(whole)
        self._file.seek(whole)
        if not whole:
            self._write({"settings": self._settings})

    def append(self, entry: Mapping[str, Any]) -> None:
        """One finished piece; it is on its way to the disk when this returns."""
        self._write(entry)
        self.entries.append(dict(entry))

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """The job is done."""
        self.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> SideFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _write(self, entry: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(entry).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise BenchError(f"{self.path}: cannot be written: {error.strerror or error}") from error

    def _read(self, resume: bool) -> int:
        """Take over the entries of an earlier run; returns how many bytes of the file are whole lines."""
        whole, found = 0, []
        for line in _whole_lines(self.path):
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                break
            whole += len(line)
        if not found:
            return 0
        if not resume:
            held = f"{self.path} holds {len(found) - 1} finished pieces of an interrupted run"
            raise BenchError(f"{held}, expected --resume to go on, or the file to be removed")
        self._check(found[0])
        self.entries = found[1:]
        return whole

    def _check(self, first: Any) -> None:
        before = first.get("settings") if isinstance(first, dict) else None
        if not isinstance(before, dict):
            raise BenchError(f"{self.path}: no settings in its first line, expected a side file of this command")
        for key in sorted(before.keys() | self._settings.keys()):
            if before.get(key) != self._settings.get(key):
                raise BenchError(
                    f"{self.path}: was begun with {key} {before.get(key)!r}, expected {self._settings.get(key)!r}; "
                    "give the settings it was begun with, or remove the file"
                )


def _whole_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from (line for line in file if line.endswith(b"\n"))
    except OSError as error:
        raise BenchError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from error
