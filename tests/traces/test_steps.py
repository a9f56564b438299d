"""From step logs to positions."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from lightspec_bench.core import IntArray
from lightspec_bench.traces.steps import Positions, positions_from_steps


def test_a_log_by_hand() -> None:
    # position 1: verified 3, accepted 2, so the next step starts at 4: verified 2, accepted 0, next at 5
    log = positions_from_steps(np.array([3, 2]), np.array([2, 0]), 7)
    assert log.num_accepted.tolist() == [0, 2, 1, 0, 0, 0, 0]
    assert log.num_draft_tokens.tolist() == [0, 3, 2, 1, 2, 0, 0]
    assert log.step.tolist() == [-1, 0, 0, 0, 1, -1, -1]
    assert log.into.tolist() == [0, 0, 1, 2, 0, 0, 0]


def test_a_request_that_ends_inside_its_last_step() -> None:
    log = positions_from_steps(np.array([3]), np.array([3]), 3)
    assert log.num_accepted.tolist() == [0, 1, 0]  # the token at the end is the bonus token
    assert log.num_draft_tokens.tolist() == [0, 3, 2]


def test_no_steps_at_all() -> None:
    log = positions_from_steps(np.array([], np.int64), np.array([], np.int64), 2)
    assert log.num_accepted.tolist() == [0, 0]
    assert log.num_draft_tokens.tolist() == [0, 0]


def replay(positions: Positions, verified: list[int]) -> list[int]:
    """Accepted tokens of each step when the derived positions are replayed with the same verify tokens."""
    accepted, at = [], 1
    for count in verified:
        assert count <= positions.num_draft_tokens[at]
        accepted.append(min(count, int(positions.num_accepted[at])))
        at += accepted[-1] + 1
    return accepted


@given(st.lists(st.integers(0, 6).flatmap(lambda v: st.tuples(st.just(v), st.integers(0, v))), max_size=20))
def test_replaying_a_log_as_it_was_gives_the_log(steps: list[tuple[int, int]]) -> None:
    verified: IntArray = np.array([v for v, _ in steps], np.int64)
    accepted: IntArray = np.array([a for _, a in steps], np.int64)
    length = 1 + int(accepted.sum()) + len(steps)
    log = positions_from_steps(verified, accepted, length)
    assert replay(log, verified.tolist()) == accepted.tolist()
    assert (log.num_accepted <= log.num_draft_tokens).all()
    assert (log.num_accepted <= np.arange(length)[::-1]).all()
