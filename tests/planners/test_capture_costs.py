"""Cost curves as vLLM reads them: a staircase over captured sizes, a line above them."""

import numpy as np
import pytest

from lightspec_bench.planners.capture_costs import DEFAULT_SIZES, CaptureCurve, captured_sizes, profiled_sizes

from .support import TableModel


def test_sizes_that_are_profiled() -> None:
    """vLLM's own test: captured 8 and 1024, 4096 tokens at most."""
    assert profiled_sizes(np.array([8, 1024]), 4096).tolist() == [8, 1024, 1536, 2048, 4096]
    assert profiled_sizes(np.array([8, 64]), 64).tolist() == [8, 64]
    assert profiled_sizes(np.array([8, 64]), 80).tolist() == [8, 64, 80]


def test_a_size_costs_what_the_next_captured_one_does_and_lines_never_cross_the_edge() -> None:
    sizes = np.array([8, 1024, 1536, 2048, 4096])
    curve = CaptureCurve(sizes, sizes.astype(float), 1024)
    asked = np.array([0, 5, 8, 9, 1024, 1025, 1792, 4096, 5000])
    assert curve.at(asked).tolist() == [8, 8, 8, 1024, 1024, 1536, 1792, 4096, 5000]


def test_a_curve_never_falls() -> None:
    assert CaptureCurve(np.array([1, 2, 4]), np.array([5.0, 3.0, 6.0]), 4).at(np.arange(1, 5)).tolist() == [5, 5, 6, 6]


def test_one_point_is_a_constant_and_the_floor_holds() -> None:
    assert CaptureCurve(np.array([4]), np.array([2.0]), 4).at(np.array([1, 100])).tolist() == [2.0, 2.0]
    assert CaptureCurve(np.array([4]), np.array([0.0]), 4, 1e-9).at(np.array([1])) == pytest.approx(1e-9)


def test_captured_sizes_are_those_of_the_latency_model_or_of_vllm() -> None:
    assert captured_sizes(TableModel({2: 1.0, 8: 2.0}), 4).tolist() == [2]
    assert captured_sizes(TableModel({8: 2.0}), 4).tolist() == [8]  # the smallest, where all are larger
    assert captured_sizes(TableModel({}), 20).tolist() == [1, 2, 4, 8, 16]
    assert DEFAULT_SIZES[-1] == 512
