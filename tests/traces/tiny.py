"""A trace of two requests, small enough to read."""

from __future__ import annotations

from typing import Any

import numpy as np

from lightspec_bench.core import Trace, TraceInfo

INFO: dict[str, Any] = {
    "name": "tiny", "target": "target", "drafter": "drafter", "drafter_kind": "autoregressive", "max_draft_tokens": 2,
    "dataset": "by hand", "sampling": "greedy", "indexing": "position", "origin": "recorded", "made_by": "a test",
    "licence": "none",
}  # fmt: skip
NAN = float("nan")


def tiny_trace(**changes: Any) -> Trace:
    """Requests "a" (4 tokens) and "b" (3 tokens, looping from position 2), D = 2."""
    signal = [[NAN, NAN], [0.9, 0.8], [0.7, 0.25], [0.5, 0.125], [NAN, NAN], [0.75, 0.5], [1.0, 0.0]]
    values: dict[str, Any] = {
        "info": TraceInfo(**INFO),
        "request_id": np.array(["a", "b"]),
        "category": np.array(["chat", "code"]),
        "arrival_s": np.array([0.0, 1.5]),
        "num_prompt_tokens": np.array([10, 20]),
        "num_output_tokens": np.array([4, 3]),
        "repeats_from": np.array([4, 2]),
        "offsets": np.array([0, 4, 7]),
        "num_accepted": np.array([0, 2, 1, 0, 0, 1, 0], np.int16),
        "num_draft_tokens": np.array([0, 2, 2, 2, 0, 2, 2], np.int16),
        "confidence": np.array(signal, np.float32),
        "entropy": np.array(signal, np.float32) + np.float32(0.5),
        **changes,
    }
    return Trace(**values)


def assert_same(a: Trace, b: Trace) -> None:
    """Equal metadata and arrays, NaN equal to NaN."""
    assert a.info == b.info
    for name in Trace.__slots__:
        if name != "info":
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
