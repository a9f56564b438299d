"""Scan: where a search upwards ends that stops at the first value which is no better."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import FloatArray


def first_drop(values: FloatArray) -> int:
    """The index before the first value that is not above the one before it; the last one where all rise."""
    rises = values[1:] > values[:-1]
    return len(rises) if rises.all() else int(np.argmin(rises))
