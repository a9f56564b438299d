"""Rounds: an outcome belongs to what was planned one step earlier, at any lag."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lightspec_bench.core import Step
from lightspec_bench.planners.rounds import Round, Rounds
from lightspec_bench.planners.windowed_rewards import WindowedRewards

from .driven import outcome


def timed(step: Step, **seconds: float) -> Step:
    return replace(step, **{"verify_s": 0.0, "draft_s": 0.0, "host_s": 0.0, **seconds})


def test_a_round_is_drafted_in_one_step_and_verified_in_the_next() -> None:
    """Its time is the drafting of the step before and all of this step but its own drafting and prefill."""
    rounds: Rounds[str] = Rounds()
    rounds.play(0, "a")
    assert rounds.observe(timed(outcome([1, 2], [0, 0], [0, 0]), verify_s=9.0, draft_s=2.0)) is None
    rounds.play(1, "b")
    step = timed(
        outcome([1, 2], [4, 3], [3, 0], index=1),
        verify_s=1.0,
        draft_s=50.0,
        host_s=0.5,
        prefill_s=70.0,
        exposed_planner_s=0.25,
    )
    ended = rounds.observe(step)
    assert ended == Round("a", 2, 7, 3, 5, 3.75)
    assert ended.tokens_per_s == pytest.approx(5 / 3.75)
    assert rounds.observe(timed(outcome([1, 2], [1, 1], [0, 0], index=2), verify_s=1.0)) == Round("b", 2, 2, 0, 2, 51.0)


@pytest.mark.parametrize("lag_steps", [0, 1, 3])
def test_lag_delays_outcomes_and_keeps_their_owners(lag_steps: int) -> None:
    rounds: Rounds[int] = Rounds()
    steps = [timed(outcome([1], [t], [0], index=t), verify_s=1.0) for t in range(8)]
    played = []
    for t in range(8):
        rounds.play(t, 10 * t)
        if t >= lag_steps:
            ended = rounds.observe(steps[t - lag_steps])
            played += [] if ended is None else [(ended.played, ended.num_verify_tokens)]
    assert played == [(10 * (t - 1), t) for t in range(1, 8 - lag_steps)]


def test_newcomers_end_no_round_but_their_tokens_count() -> None:
    rounds: Rounds[str] = Rounds()
    rounds.play(0, "a")
    rounds.observe(timed(outcome([1, 2], [0, 0], [0, 0]), verify_s=1.0))
    rounds.play(1, "b")
    assert rounds.observe(timed(outcome([3, 2], [0, 4], [0, 4], index=1), verify_s=2.0)) == Round("a", 1, 4, 4, 6, 2.0)
    rounds.play(2, "c")
    assert rounds.observe(timed(outcome([5], [0], [0], index=2), verify_s=1.0)) is None
    assert rounds.observe(timed(outcome([5], [0], [0], index=3), verify_s=1.0)) == Round("c", 1, 0, 0, 1, 1.0)


def test_steps_that_were_not_planned_or_took_no_time_end_nothing() -> None:
    rounds: Rounds[str] = Rounds()
    rounds.observe(outcome([1], [0], [0], index=0))
    assert rounds.observe(outcome([1], [1], [1], index=1)) is None
    rounds.play(1, "a")
    assert rounds.observe(timed(outcome([1], [1], [1], index=2), draft_s=-0.1)) is not None
    rounds.play(2, "b")
    assert rounds.observe(timed(outcome([1], [1], [1], index=3))) is None


def test_windowed_rewards_by_hand() -> None:
    rewards = WindowedRewards(2, 3)
    for reward in (1.0, 2.0, 4.0, 9.0):
        rewards.take(1, reward)
    assert rewards.plays.tolist() == [0, 4]
    assert rewards.mean.tolist() == [0.0, 5.0]
    assert rewards.variance.tolist() == [0.0, 13.0]  # of 2, 4, 9
    assert rewards.largest == 9.0
    rewards.take(0, 6.0)
    assert (rewards.mean.tolist(), rewards.variance.tolist()) == ([6.0, 5.0], [0.0, 13.0])
