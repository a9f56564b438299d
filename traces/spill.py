"""Large arrays in an unnamed file that is mapped, so that a trace larger than memory can be read and replayed.

The file has no name, so nothing is left behind however the process ends. Pages that were written and given up (`rest`)
stay in the file and come back when they are looked at.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import BenchError

LARGE_BYTES = 256 * 2**20


def spilled(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of that shape: in memory below `LARGE_BYTES`, else in a file in the folder for temporary files.

    Raises `BenchError` where that folder has no room.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < LARGE_BYTES:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="lightspec-bench-") as file:
        try:
            _reserve(file.fileno(), size)
            mapped = mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise BenchError(
                f"{tempfile.gettempdir()}: {size / 2**20:.0f} MiB for a large trace could not be had there "
                f"({error.strerror}), expected room for it (TMPDIR says where)"
            ) from None
    return np.frombuffer(mapped, dtype).reshape(shape)


def rest(array: npt.NDArray[Any]) -> None:
    """Give up the memory of what was written so far, where the array lies in a file."""
    owner = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    mapped = owner.obj if isinstance(owner, memoryview) else owner
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _reserve(descriptor: int, size: int) -> None:
    """Take the room now: a mapped file that runs out of it later ends the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)
