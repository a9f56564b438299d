"""Files: written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lightspec_bench.core import BenchError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """`write` fills a temporary file in the same folder, which then takes the place of `path`.

    Raises `BenchError` naming the file where the folder cannot be written to; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name[-100:]}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise BenchError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # gone already, or never there
            temporary.unlink()
