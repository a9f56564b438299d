"""Where an output began to repeat itself until its end."""

from __future__ import annotations

import numpy as np

from lightspec_bench.traces.loops import LEAST_TOKENS, repeats_from


def test_the_second_round_is_where_it_repeats() -> None:
    start, loop = np.array([7, 8, 9]), np.array([1, 2, 3, 4])
    assert repeats_from(np.concatenate((start, np.tile(loop, 10)))) == 3 + 4
    assert repeats_from(np.concatenate((start, np.tile(loop, 10), [1, 2]))) == 3 + 4  # cut inside a round
    assert repeats_from(np.zeros(40, np.int64)) == 1


def test_what_is_no_loop() -> None:
    assert repeats_from(np.arange(50)) == 50
    twice = np.tile(np.arange(30), 2)
    assert repeats_from(twice) == 60  # said twice is not over and over
    ended = np.concatenate((np.tile([1, 2], 30), [3]))
    assert repeats_from(ended) == 61  # it got out of it
    assert (
        repeats_from(np.concatenate((np.arange(5, 30), np.zeros(LEAST_TOKENS - 1, np.int64)))) == 25 + LEAST_TOKENS - 1
    )
    assert repeats_from(np.array([1])) == 1
    assert repeats_from(np.tile(np.arange(100), 5)) == 500  # a period longer than is looked for
