"""What a uniform step costs, by the round prices of `tests.support`."""

import numpy as np
import pytest

from lightspec_bench.core import Drafter, DrafterKind, EngineConfig
from lightspec_bench.planners.step_price import drafting_s, step_grid_s, step_s, verify_s
from tests.support import RoundLatency


def engine(kind: DrafterKind = "autoregressive") -> EngineConfig:
    return EngineConfig(Drafter(kind, 3), RoundLatency(), 8)


def test_a_step_of_two_requests_at_depth_three() -> None:
    """8 rows: 10 + 8 to verify; a pass over them, 2 + 0.8, and two over the requests, 2 + 0.2 each; 0.75 of host."""
    assert verify_s(engine(), 2, 3, 0) == pytest.approx(18.0)
    assert drafting_s(engine(), 2, 3, 0) == pytest.approx(2.8 + 2 * 2.2)
    assert step_s(engine(), 2, 3, 0) == pytest.approx(25.95)


@pytest.mark.parametrize(("kind", "seconds"), [("autoregressive_no_attention", 6.6), ("parallel", 5.4), ("ngram", 0.0)])
def test_drafting_follows_the_kind(kind: DrafterKind, seconds: float) -> None:
    assert drafting_s(engine(kind), 2, 3, 0) == pytest.approx(seconds)


def test_a_grid_has_a_row_per_batch_size_and_a_column_per_depth() -> None:
    sizes, depths = np.array([1, 2]), np.array([0, 3])
    grid = step_grid_s(engine(), sizes, depths, 100)
    assert grid == pytest.approx(np.array([[step_s(engine(), n, d, 0) for d in (0, 3)] for n in (1, 2)]))
    assert step_grid_s(engine(), sizes, depths, 100, host=False) == pytest.approx(grid - 0.75)
