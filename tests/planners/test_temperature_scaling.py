"""Temperatures kept while serving."""

import numpy as np
import pytest

from lightspec_bench.planners.temperature_scaling import GRID, TemperatureScaling, logits

MIDDLE = 0.8175745  # sigmoid(1.5), the middle of a bin


def fed(confidence: float, accepted: list[int], times: int = 100, depth: int = 1) -> TemperatureScaling:
    scaling = TemperatureScaling(depth)
    shown = np.full((len(accepted), depth), confidence, dtype=np.float32)
    for _ in range(times):
        scaling.observe(shown, np.full(len(accepted), depth), np.array(accepted))
    return scaling


def test_nothing_changes_before_an_outcome() -> None:
    shown = np.array([[0.3, np.nan]], dtype=np.float32)
    np.testing.assert_allclose(TemperatureScaling(2).acceptance(shown), [[0.3, np.nan]], rtol=1e-6)


def test_a_calibrated_head_keeps_its_temperature() -> None:
    """9 of 11 accepted where .8176 was said."""
    assert fed(MIDDLE, [1] * 9 + [0] * 2).temperatures == pytest.approx([1.0])


def test_overconfidence_is_cooled_and_modesty_sharpened() -> None:
    """Half accepted where .82 was said: the highest temperature of the grid, less what the prior keeps."""
    over, under = fed(MIDDLE, [1, 0]), fed(MIDDLE, [1] * 50)
    assert 4.0 < over.temperatures[0] < GRID[-1]
    assert over.acceptance(np.array([[MIDDLE]])) == pytest.approx(0.5, abs=0.1)
    assert under.temperatures[0] < 0.5
    assert under.acceptance(np.array([[MIDDLE]])) > 0.95


def test_a_few_outcomes_move_little() -> None:
    """One position: own weight 2 / 66 towards ln 8, the rest towards the pooled fit, which has the same weight."""
    share = 2 / 66
    expected = np.exp(np.log(8.0) * (share + (1 - share) * share))
    assert fed(MIDDLE, [1, 0], times=1).temperatures == pytest.approx([expected])


def test_a_position_never_reached_follows_the_pooled_fit() -> None:
    scaling = fed(MIDDLE, [0, 0], depth=2)  # the first token is always refused
    assert scaling.temperatures[1] == pytest.approx(scaling.temperatures[0], rel=0.5)
    assert scaling.temperatures[1] > 2.0


def test_logits_are_finite() -> None:
    assert np.isfinite(logits(np.array([0.0, 1.0], dtype=np.float32))).all()
