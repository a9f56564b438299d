"""What one step says about acceptance per draft position."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lightspec_bench.core import Plan
from lightspec_bench.planners.position_counts import position_counts

from .support import step


def counted(verify: list[int], accepted: list[int], depth: int):
    return position_counts(step(Plan(0, 0), [depth] * len(verify), verify, accepted), depth)


def test_counts_per_position() -> None:
    """Three requests: all 3 verified tokens accepted; 1 of 2; no proposal."""
    counts = counted([3, 2, 0], [3, 1, 0], 4)
    assert counts.verified.tolist() == [2, 2, 1, 0]
    assert counts.accepted.tolist() == [2, 1, 1, 0]
    assert counts.at_risk.tolist() == [2, 2, 1, 0]
    np.testing.assert_array_equal(counts.survival(), [1.0, 0.5, 1.0, np.nan])


def test_at_risk_ends_at_the_first_miss() -> None:
    """Positions after it were verified for nothing: they lower survival, but say nothing given the prefix."""
    counts = counted([3, 3], [0, 1], 3)
    assert counts.verified.tolist() == [2, 2, 2]
    assert counts.at_risk.tolist() == [2, 1, 0]
    np.testing.assert_array_equal(counts.survival(), [0.5, 0.0, 0.0])
    np.testing.assert_array_equal(counts.conditional(), [0.5, 0.0, np.nan])


def test_an_empty_step_says_nothing() -> None:
    assert counted([], [], 2).verified.tolist() == [0, 0]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_survival_is_the_product_of_conditionals_where_all_verify_alike(pairs: list[tuple[int, int]]) -> None:
    accepted = [min(a, 5) for a, _ in pairs]
    counts = counted([5] * len(accepted), accepted, 5)
    reached = np.cumprod(np.nan_to_num(counts.conditional()))
    assert counts.survival() == pytest.approx(reached)
