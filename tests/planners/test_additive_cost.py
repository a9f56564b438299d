"""The additive form of step costs, and the latency model put into it."""

import numpy as np
import pytest

from lightspec_bench.core import Drafter, EngineConfig
from lightspec_bench.planners.additive_cost import AdditiveCost, profile_additive
from tests.support import RoundLatency


def test_parts_are_interpolated_and_held_at_their_ends() -> None:
    cost = AdditiveCost(1.0, np.array([1, 3]), np.array([0.0, 2.0]), np.array([4, 8]), np.array([10.0, 30.0]))
    assert cost.step_s(2, np.array([1, 4, 6, 8, 100])).tolist() == [12.0, 12.0, 22.0, 32.0, 32.0]
    assert cost.step_s(9, np.array([4])).tolist() == [13.0]


def test_a_profile_of_round_prices() -> None:
    """Beside the rows: drafting 3 tokens after 4 or 8 rows, 2.4 + 2 * 2.1 or 2.8 + 2 * 2.2, and 0.75 of host."""
    cost = profile_additive(EngineConfig(Drafter("autoregressive", 3), RoundLatency(), 2), 100)
    assert cost.request_points.tolist() == [1, 2]
    assert cost.alpha_s == pytest.approx([7.35, 7.95])
    assert cost.row_points.tolist() == [1, 2, 4, 8]
    assert cost.theta_s == pytest.approx([11.0, 12.0, 14.0, 18.0])
    assert cost.step_s(2, np.array([8])) == pytest.approx(25.95)
