"""vLLM's online estimator of acceptance: cold start, one damped Newton step, and what it refuses."""

import numpy as np
import pytest

from lightspec_bench.planners.online_acceptance import OnlineAcceptance, feature_of


def estimator(depth: int = 1, refit_interval: int = 1, damping: float = 50.0) -> OnlineAcceptance:
    return OnlineAcceptance(depth, refit_interval, damping, 1e-3)


def observe(made: OnlineAcceptance, confidence: float, verified: int, accepted: list[int]) -> None:
    shape = (len(accepted), len(made.intercept))
    counts = np.full(len(accepted), verified)
    made.observe(np.full(shape, confidence, dtype=np.float32), counts, np.array(accepted))


def test_features_are_logits_within_forty() -> None:
    assert feature_of(np.array([0.5, 0.0, 1.0], dtype=np.float32)).tolist() == [0.0, -40.0, 40.0]
    assert np.isnan(feature_of(np.array([np.nan], dtype=np.float32)))


def test_before_any_outcome_every_token_has_the_same_chance() -> None:
    shown = np.array([[0.2, 0.9]], dtype=np.float32)
    assert estimator(2).acceptance(shown) == pytest.approx(np.full((1, 2), 0.81757), abs=1e-5)


def test_one_newton_step_of_an_intercept() -> None:
    """100 tokens of logit 0, half accepted: residual 50 - 81.757, weight 14.915 + .001, damped by 100 / 150."""
    made = estimator()
    observe(made, 0.5, 1, [1, 0] * 50)
    assert made.slope == 0.0
    assert made.intercept == pytest.approx([1.5 - 31.757 / 14.916 * 100 / 150], abs=1e-3)


def test_a_slope_appears_where_the_surer_tokens_are_the_accepted_ones() -> None:
    made = estimator(damping=0.0)
    for confidence, accepted in ((0.9, 1), (0.1, 0)):
        made.refit_interval = 2
        observe(made, confidence, 1, [accepted] * 50)
    assert made.slope > 0.3
    low, high = made.acceptance(np.array([[0.1], [0.9]], dtype=np.float32))[:, 0]
    assert high > 0.8 > 0.5 > low


def test_a_negative_slope_is_refused() -> None:
    made = estimator(refit_interval=2)
    observe(made, 0.9, 1, [0] * 50)
    observe(made, 0.1, 1, [1] * 50)
    assert made.slope == 0.0


def test_positions_that_were_not_reached_hold_still() -> None:
    """Two of three tokens verified, the first of them refused: only the first position learns."""
    made = estimator(depth=3)
    observe(made, 0.5, 2, [0] * 20)
    assert made.intercept[0] < 1.5
    assert made.intercept[1:].tolist() == [1.5, 1.5]


def test_refits_come_at_their_interval_and_start_anew() -> None:
    made = estimator(refit_interval=3)
    counts = []
    for _ in range(7):
        observe(made, 0.5, 1, [1])
        counts.append(made.num_refits)
    assert counts == [0, 0, 1, 1, 1, 2, 2]


def test_it_finds_a_logistic_truth() -> None:
    """Tokens whose logit overstates by 1: p = sigmoid(0.7 logit - 1), the same at both positions."""
    rng = np.random.default_rng(0)
    made = OnlineAcceptance(2, 100, 50.0, 1e-3)
    for _ in range(600):
        confidence = rng.uniform(0.05, 0.95, (256, 2)).astype(np.float32)
        truth = 1.0 / (1.0 + np.exp(-(0.7 * feature_of(confidence) - 1.0)))
        accepted = np.cumprod(rng.random((256, 2)) < truth, axis=1).sum(axis=1)
        made.observe(confidence, np.full(256, 2), accepted)
    assert made.slope == pytest.approx(0.7, abs=0.05)
    assert made.intercept == pytest.approx([-1.0, -1.0], abs=0.1)
