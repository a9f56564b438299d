"""vLLM's online goodput manager, on the table of its own example."""

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.vllm_dsd_online import VllmDsdOnline, bilinear, profile

from .support import TableModel, batch, engine, step

EXAMPLE: dict[Any, Any] = {
    1: {0: 6.87, 1: 7.97, 3: 9.41, 4: 9.91, 5: 10.8, 7: 12.29},
    4: {0: 6.87, 1: 7.97, 3: 9.41, 4: 9.91, 5: 10.8, 7: 12.29},
    16: {0: 7.3, 1: 8.39, 3: 9.95, 4: 10.8, 5: 11.59, 7: 13.11},
    32: {0: 7.64, 1: 8.97, 3: 10.78, 4: 11.79, 5: 12.81, 7: 14.86},
    64: {0: 8.53, 1: 10.44, 3: 13.16, 4: 15.7, 5: 17.54, 7: 120.57},
    128: {0: 8.53, 1: 15.44, 3: 25.16, 4: 30.7, 5: 37.54, 7: 220.57},
}
SMALL: dict[Any, Any] = {1: {0: 1.0, 1: 1.2, 2: 1.4}, 4: {0: 2.0, 1: 3.2, 2: 4.4}}


def depth(planner: VllmDsdOnline, num_requests: int) -> int:
    return int(planner.plan(batch([0] * num_requests)).num_draft_tokens)


@pytest.mark.parametrize(("num_requests", "k"), [(1, 3), (4, 3), (16, 3), (64, 2), (96, 1), (128, 0)])
def test_decisions_of_the_example(num_requests: int, k: int) -> None:
    """At 1: 2.27 / 9.41 is the best. At 96, halfway: 1.68 / 12.94 beats 2.07 / 16.05 and 1 / 8.53."""
    planner = VllmDsdOnline(engine(7, max_num_seqs=128), table=EXAMPLE)
    assert depth(planner, num_requests) == k


def test_times_are_interpolated_in_both_directions() -> None:
    grid = bilinear(
        np.array([1, 5]), np.array([0, 2]), np.array([[1.0, 3.0], [5.0, 7.0]]), np.array([0, 3, 9]), np.array([1])
    )
    assert grid.tolist() == [[2.0], [4.0], [6.0]]


def test_counts_replace_the_prior_after_warming_up() -> None:
    """Half of everything is accepted at position 0, nothing after: 1.5 / 1.2 at K = 1 against 1.5 / 1.4."""
    planner = VllmDsdOnline(engine(2, max_num_seqs=4), table=SMALL, acceptance=[0.9, 0.8], warmup_steps=1)
    assert depth(planner, 1) == 2
    half = step(Plan(2, 6), [2, 2], [2, 2], [1, 0])
    planner.observe(half)
    assert planner.acceptance.tolist() == [0.9, 0.8]
    planner.observe(half)
    assert planner.acceptance.tolist() == [0.5, 0.0]
    assert depth(planner, 1) == 1


def test_what_was_never_drafted_counts_as_never_accepted() -> None:
    planner = VllmDsdOnline(engine(2, max_num_seqs=4), table=SMALL, warmup_steps=0)
    planner.observe(step(Plan(1, 4), [1, 1], [1, 1], [1, 1]))
    assert planner.acceptance.tolist() == [1.0, 0.0]
    assert depth(planner, 1) == 1


def test_counts_forget_nothing() -> None:
    planner = VllmDsdOnline(engine(1, max_num_seqs=4), table={1: {0: 1, 1: 1.1}, 4: {0: 1, 1: 1.1}}, warmup_steps=0)
    for accepted in (1, 1, 1, 0):
        planner.observe(step(Plan(1, 2), [1], [1], [accepted]))
    assert planner.acceptance.tolist() == [0.75]


def test_k_never_exceeds_the_table_or_the_drafter() -> None:
    free: dict[Any, Any] = {1: {0: 1.0, 1: 1.0}, 8: {0: 1.0, 1: 1.0}}
    assert depth(VllmDsdOnline(engine(5, max_num_seqs=8), table=free), 3) == 1
    assert depth(VllmDsdOnline(engine(1, max_num_seqs=128), table=EXAMPLE), 1) == 1


def test_anchors_of_the_latency_model() -> None:
    sizes, depths, itl = profile(engine(11, latency=TableModel({1: 2.0}, {1: 0.5}), max_num_seqs=40), 100)
    assert sizes.tolist() == [1, 4, 16, 32, 40]
    assert depths.tolist() == [0, 1, 3, 4, 5, 7, 11]
    assert itl[0].tolist() == [2.5, 2.5, 3.5, 4.0, 4.5, 5.5, 7.5]  # an autoregressive drafter: one pass, then K - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": {4: {0: 1, 1: 2}}}, "table is for .4. requests, expected 1 request among them"),
        ({"table": {1: {0: 1, 1: 2}}}, r"table is for .1. requests, expected max_num_seqs \(4\) among them"),
        ({"table": {1: {0: 1}, 4: {0: 1}}}, r"table.1. is at K \[0\], expected 0 and 1 among them"),
        ({"table": {1: {0: 1, 1: 2}, 4: {0: 1, 1: 2, 3: 3}}}, r"table.4. is at K \[0, 1, 3\], expected the K of 1"),
        ({"table": {1: {0: 1, 1: 0}, 4: {0: 1, 1: 2}}}, "table.1..1. is 0, expected milliseconds above 0"),
        ({"table": {1: {0: 1, "x": 2}, 4: {0: 1, 1: 2}}}, "table.1. K is 'x', expected a whole number"),
        ({"table": {1: [1, 2], 4: [1, 2]}}, "table.1. is .1, 2., expected a mapping"),
        ({"table": {}}, "table is {}, expected at least one batch size"),
        ({"acceptance": [0.5, 1.0]}, r"acceptance is \[0.5, 1.0\], expected rates above 0 and below 1"),
        ({"acceptance": []}, r"acceptance is \[\], expected rates"),
        ({"warmup_steps": -1}, "warmup_steps is -1, expected at least 0"),
        ({"profile_context_tokens": -1}, "profile_context_tokens is -1, expected at least 0"),
    ],
)
def test_options_that_vllm_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"vllm-dsd-online: {message}"):
        VllmDsdOnline(engine(3, max_num_seqs=4), **options)


def test_it_is_a_sound_planner() -> None:
    assert check_planner("vllm-dsd-online:warmup_steps=2") == []
