"""SGLang's throughput-aware policy: windows per position, scores, and when a change is made."""

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.sglang_throughput_aware import PositionWindows, SGLangThroughputAware

from .support import TableModel, batch, engine, step

# One request at S verifies S + 1 rows for 1 s and drafts at 0.1 s a token: 1.1, 1.3, 1.5, 1.7 s for S = 1, 3, 5, 7.
LATENCY = TableModel({8: 1.0, 64: 4.0}, {1: 0.1})


def planner_of(**options: Any) -> SGLangThroughputAware:
    given = {"window_size": 2, "update_interval": 2, **options}
    return SGLangThroughputAware(engine(7, latency=LATENCY, max_num_seqs=16), **given)


def drive(planner: SGLangThroughputAware, accepted: list[int], num_requests: int = 1) -> list[int]:
    """S after each step; every request accepts as many as named, of what was drafted."""
    depths = []
    for number in accepted:
        verify = [planner.steps] * num_requests
        planner.observe(step(Plan(planner.steps, 0), verify, verify, [min(number, planner.steps)] * num_requests))
        depths.append(int(planner.plan(batch(verify)).num_draft_tokens))
    return depths


def test_windows_count_the_share_of_requests_that_got_further() -> None:
    """SGLang's own numbers: of 4 requests 2 got past position 0, 1 past 1 and 2; further ones follow geometrically."""
    windows = PositionWindows(5, 20)
    windows.add(np.array([3, 1, 0, 0]), 3)
    ratio = 0.5**0.5
    assert windows.means() == pytest.approx([0.5, 0.25, 0.25, 0.25 * ratio, 0.25 * ratio**2])


@pytest.mark.parametrize(
    ("accepted", "drafted", "means"),
    [([1, 0], 1, [0.5, 0.5, 0.5]), ([0], 1, [0.0, 0.0, 0.0]), ([2, 2], 2, [1.0, 1.0, 1.0])],
)
def test_extrapolation(accepted: list[int], drafted: int, means: list[float]) -> None:
    windows = PositionWindows(3, 20)
    windows.add(np.array(accepted), drafted)
    assert windows.means().tolist() == means


def test_windows_slide_and_are_cleared() -> None:
    windows = PositionWindows(2, 2)
    for accepted in (2, 0, 1):
        windows.add(np.array([accepted]), 2)
    assert windows.means().tolist() == [0.5, 0.0]
    windows.clear_from(1)
    assert not windows.full(2)
    assert windows.full(1)


def test_scores_are_expected_tokens_per_second() -> None:
    planner = planner_of()
    drive(planner, [5])
    assert planner.scores(1)[[1, 3, 5, 7]] == pytest.approx([2 / 1.1, 4 / 1.3, 6 / 1.5, 8 / 1.7])


def test_it_starts_in_the_middle_and_moves_when_windows_are_full() -> None:
    """Nothing accepted: S = 1 after two steps. Then everything is: what is past position 0 was forgotten, so 7."""
    planner = planner_of()
    assert planner.plan(batch([0])).num_draft_tokens == 5
    assert drive(planner, [0, 0, 1, 1]) == [5, 1, 1, 7]


def test_windows_that_are_not_full_put_the_decision_off() -> None:
    assert drive(planner_of(window_size=3), [0, 0, 0, 0]) == [5, 5, 5, 1]


def test_hysteresis_asks_for_more_gain() -> None:
    """7 is better than 5 by 4.706 / 4, 17.6 %."""
    assert drive(planner_of(hysteresis=0.1), [5, 5]) == [5, 7]
    assert drive(planner_of(hysteresis=0.2), [5, 5]) == [5, 5]


def test_a_larger_batch_has_its_own_candidates_at_once() -> None:
    planner = planner_of(candidates={1: [1, 3, 5, 7], "8": [1, 3]})
    assert planner.plan(batch([5] * 8)).num_draft_tokens == 3  # the middle of two: nothing is known yet
    drive(planner, [0])
    assert planner.plan(batch([3] * 2)).num_draft_tokens == 3


def test_candidates_are_cut_to_the_drafter() -> None:
    planner = SGLangThroughputAware(engine(2), initial_steps=2)
    assert planner.steps == 2
    assert SGLangThroughputAware(engine(2), initial_steps=3).steps == 2  # not a candidate: the middle of 1 and 2


def test_cost_is_that_of_the_next_profiled_batch_size() -> None:
    planner = planner_of(profile_batch_sizes=[2, 8, 99])
    assert planner.sizes.tolist() == [2, 8, 16]
    assert planner.scores(3)[1] == pytest.approx(1.0 / (4.0 + 0.1))  # 8 requests at S = 1 verify 16 rows


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window_size": 0}, "window_size is 0, expected at least 1"),
        ({"update_interval": 0}, "update_interval is 0, expected at least 1"),
        ({"hysteresis": -0.1}, "hysteresis is -0.1, expected at least 0"),
        ({"profile_context_tokens": 0}, "profile_context_tokens is 0, expected at least 1"),
        ({"candidates": {}}, "candidates is {}, expected at least one batch size"),
        ({"candidates": {2: [1]}}, "candidates is from batch size 2 up, expected a list from 1 up"),
        ({"candidates": {1: [0, 1]}}, r"candidates.1. is \[0, 1\], expected at least 1 each"),
        ({"candidates": {1: []}}, r"candidates.1. is \[\], expected a list of whole numbers"),
        ({"profile_batch_sizes": [0]}, r"profile_batch_sizes is \[0\], expected whole numbers"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"sglang-throughput-aware: {message}"):
        planner_of(**options)


@pytest.mark.parametrize("options", ["", ":candidates={1: [1, 3], 5: [2, 9]},window_size=1,update_interval=1"])
def test_it_is_a_sound_planner(options: str) -> None:
    assert check_planner(f"sglang-throughput-aware{options}") == []
