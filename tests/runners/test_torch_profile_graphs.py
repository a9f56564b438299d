"""A profile over captured sizes: one shape for each size, and a table that is a staircase over them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lightspec_bench.core import BenchError
from lightspec_bench.latency_file import load_latency, read_latency_csv
from lightspec_bench.latency_format import Point
from lightspec_bench.profiling import ProfileJob, grid, profile
from lightspec_bench.profiling_fit import points
from lightspec_bench.profiling_graphs import captured_sizes, step_rows
from lightspec_bench.runners.torch_dummy import dummy_drafter
from lightspec_bench.runners.torch_graphs import Graphs, make_graphs
from lightspec_bench.runners.torch_profile import Shape, Timing, time_shapes
from lightspec_bench.runners.torch_targets import dummy_target
from tests.runners.torch_recorded import RecordedCapture

JOB = ProfileJob(
    Path("t.csv"), architecture="tiny", drafter="eagle", max_draft_tokens=3, requests=(1, 3), contexts=(8,), repeats=2,
    graph_sizes="1,2,4,8",
)  # fmt: skip


def quiet(stage: str, done: int, total: int, said: str) -> None:
    pass


def test_of_rows_that_are_padded_alike_one_is_timed() -> None:
    graphs = Graphs((1, 2, 4, 8))
    assert step_rows(range(1, 13), 3, 3, graphs) == [3, 5, 9, 10, 11, 12]  # 3 and 4 are both 4 rows, 5 to 8 are 8
    assert step_rows(range(1, 13), 3, 3, Graphs()) == list(range(3, 13))


def test_rows_are_the_captured_sizes_and_some_above_them_where_none_are_named() -> None:
    target = dummy_target("tiny", "float32", graph_sizes="1,2,4,8")
    assert rows_of(grid(JOB, 3, target)) == {1: [1, 2, 4], 3: [3, 8, 10, 12]}
    target.graphs = Graphs()
    assert rows_of(grid(JOB, 3, target)) == {1: [1, 2, 3, 4], 3: [3, 4, 6, 8, 12]}


def rows_of(shapes: list[Shape]) -> dict[int, list[int]]:
    numbers = {shape.requests for shape in shapes}
    return {number: [shape.rows for shape in shapes if shape.requests == number] for number in numbers}


def test_the_table_says_which_sizes_are_captured(tmp_path: Path) -> None:
    out = tmp_path / "mine.csv"
    found = profile(replace(JOB, out=out), quiet)
    header, latency = read_latency_csv(out).header, load_latency(str(out))
    assert (header["graph_sizes"], header["draft_graph_sizes"]) == ("1,2,4,8", "1,2,4,8")
    assert header["engine"].endswith(", padded as for CUDA graphs up to 8 rows")
    assert {point.rows for point in found.points if point.part == "target"} == {1, 2, 4, 8, 10, 12}
    assert latency.graph_sizes.tolist() == [1, 2, 4, 8]
    assert latency.verify_s(5, 3, 24) == latency.verify_s(8, 3, 24)  # up to the edge a step is padded


def test_a_profile_of_a_parallel_head_has_the_targets_sizes_alone(tmp_path: Path) -> None:
    out = tmp_path / "mine.csv"
    profile(replace(JOB, out=out, drafter="parallel", requests=(2,)), quiet)
    header = read_latency_csv(out).header
    assert (header["graph_sizes"], "draft_graph_sizes" in header) == ("1,2,4,8", False)


@pytest.mark.parametrize("kind", ["eagle", "parallel"])
def test_what_is_timed_is_replayed(kind: str) -> None:
    capture = RecordedCapture()
    target = dummy_target("tiny", "float32")
    target.graphs = Graphs((1, 2, 4, 8), capture)
    found = dict(time_shapes(target, dummy_drafter(kind, target, 3), [Shape(6, 2, 9)], 3, repeats=2))  # type: ignore[arg-type]
    assert [timing.shape for timing in found[Shape(6, 2, 9)]] == [Shape(6, 2, 9)] * 2
    # verify, what the drafter reads and what it says; a parallel head also runs its block of 6 and says three tokens
    assert sorted(capture.replays) == ([3, 3, 3] if kind == "eagle" else [3, 3, 3, 9])


def test_a_pass_that_could_not_be_captured_has_no_sizes() -> None:
    target = dummy_target("tiny", "float32")
    drafter = dummy_drafter("eagle", target, 3)
    timings = [Timing("verify", Shape(3, 2, 9), np.ones(1)), Timing("first", Shape(3, 2, 9), np.ones(1))]
    target.graphs = Graphs((1, 2, 4, 8), refused={"the pass of tiny": "why"})
    labels, padded = captured_sizes(target, drafter, timings)
    assert labels == {"draft_graph_sizes": "1,2,4"}
    assert points(timings, **padded) == [Point("target", 3, 2, 18, 1e3), Point("draft", 4, 2, 18, 1e3)]
    assert str(target.graphs) == "padded as for CUDA graphs up to 8 rows, but not the pass of tiny"


def test_sizes_are_refused_in_a_sentence() -> None:
    with pytest.raises(BenchError, match=r"graph sizes holds 'few', expected a size, .*, or none"):
        make_graphs(torch.device("cpu"), "few")
