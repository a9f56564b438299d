"""`lightspec` on the traces that ship: about level with the best static K, whatever the drafter and the costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightspec_bench.core import Trace
from lightspec_bench.runners.load import Load
from lightspec_bench.traces.library import load_trace
from tests.planners.test_lightspec import CLIFF, H200, replay, seconds_between, statics, tokens


@pytest.mark.parametrize(
    ("drafter", "latency", "number"),
    [
        ("eagle", H200, 4),
        ("eagle", CLIFF, 64),
        ("parallel", CLIFF, 4),
        ("parallel", H200, 64),
        ("ngram", H200, 4),
        ("ngram", CLIFF, 64),
    ],
)
def test_recorded_traces_run_about_as_fast_as_with_the_best_static_k(drafter: str, latency: str, number: int) -> None:
    trace = load_trace(f"smollm2-135m-{drafter}:loops=drop")
    assert_about_as_fast_as_the_best_static_k(trace, latency, number)


def test_lookups_with_confidences_run_so_too() -> None:
    """Half of the requests have no proposal in a step; rows that were counted on theirs would stand on no edge of the
    costs."""
    trace = load_trace("smollm2-135m-ngram:loops=drop")
    assert trace.num_draft_tokens is not None
    proposed = np.arange(trace.max_draft_tokens) < trace.num_draft_tokens[:, None]
    flat = np.where(proposed, np.float32(0.8), np.float32(np.nan))
    assert_about_as_fast_as_the_best_static_k(replace(trace, confidence=flat), CLIFF, 64)


def assert_about_as_fast_as_the_best_static_k(trace: Trace, latency: str, number: int) -> None:
    load = Load(number, num_requests=4 * number) if number < 16 else Load(number, "trace")  # the latter is shorter
    ours, *fixed = (replay(trace, spec, load, latency) for spec in ("lightspec", *statics(trace)))
    bounds = np.array([tokens(ours)[100], min(tokens(steps)[-1] for steps in (ours, *fixed))])
    best_s = min(seconds_between(steps, bounds)[0] for steps in fixed)
    assert best_s / seconds_between(ours, bounds)[0] >= 0.95
