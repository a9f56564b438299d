"""vLLM's live re-derivation: a schedule from the prior, and from what was met."""

from typing import Any

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.vllm_live_schedule import VllmLiveSchedule

from .support import TableModel, batch, engine, step

# Drafting costs 1 ms a pass. Steps of 1 request at K = 0, 1, 2: 11, 11, 14 ms; of 2 requests: 11, 13, 32 ms.
LATENCY = TableModel({2: 0.010, 4: 0.012, 6: 0.030}, {1: 0.001})


def planner_of(**options: Any) -> VllmLiveSchedule:
    return VllmLiveSchedule(engine(2, latency=LATENCY, max_num_seqs=2), **options)


def test_the_prior_makes_the_first_schedule() -> None:
    """1, 1.78 and 2.33 tokens: 71.2, 126.3, 136.1 tokens/s at one request; 141.8, 220.0, 132.3 at two."""
    assert planner_of().schedule() == [[1, 1, 2], [2, 2, 1]]
    assert planner_of().plan(batch([2])) == Plan(2, 3)
    assert planner_of().plan(batch([2, 0])) == Plan(1, 4)
    assert planner_of().plan(batch([])) == Plan(2, 0)


def test_overheads_decide_with() -> None:
    """Without them 2.33 / 14 ms is still the best at one request; a dear token evens everything out."""
    assert planner_of(overhead_s=0.0, overhead_per_token_s=0.0).schedule() == [[1, 1, 2], [2, 2, 1]]
    assert planner_of(overhead_s=1.0, overhead_per_token_s=0.0).schedule() == [[1, 2, 2]]


def test_nothing_accepted_ends_drafting_and_equal_neighbours_are_merged() -> None:
    planner = planner_of(rederive_drafts=4, min_observations=2)
    miss = step(Plan(2, 6), [2, 2], [2, 2], [0, 0])
    planner.observe(miss)
    assert planner.schedule() == [[1, 1, 2], [2, 2, 1]]
    planner.observe(miss)
    assert planner.schedule() == [[1, 2, 0]]


def test_counts_are_halved_and_thin_positions_keep_their_survival() -> None:
    planner = planner_of(rederive_drafts=2, min_observations=3)
    planner.observe(step(Plan(2, 6), [2, 2], [2, 2], [0, 0]))
    assert planner.survival.tolist() == [0.78, 0.55]
    planner.observe(step(Plan(2, 6), [2, 2], [2, 2], [2, 1]))
    assert planner.survival == pytest.approx([2 / 3, 1 / 3])  # of 1 + 2 counted, 2 and 1 were accepted


def test_requests_without_a_draft_do_not_count() -> None:
    planner = planner_of(rederive_drafts=2, min_observations=1)
    planner.observe(step(Plan(2, 6), [2, 0], [2, 0], [0, 0]))
    assert planner.survival.tolist() == [0.78, 0.55]


def test_the_prior_goes_on_falling() -> None:
    assert VllmLiveSchedule(engine(9)).survival[6:] == pytest.approx([0.08, 0.056, 0.0392])


def test_a_size_between_two_profiled_ones_takes_the_larger() -> None:
    planner = VllmLiveSchedule(engine(2, latency=LATENCY, max_num_seqs=8), request_grid=[1, 4, 99])
    assert planner.grid.tolist() == [1, 4, 8]
    assert planner.schedule()[0][0] == 1
    assert planner.schedule()[-1][1] == 8
    depths = [int(planner.plan(batch([0] * n)).num_draft_tokens) for n in (2, 3, 4)]
    assert len(set(depths)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rederive_drafts": 0}, "rederive_drafts is 0, expected at least 1"),
        ({"min_observations": 0}, "min_observations is 0, expected at least 1"),
        ({"overhead_s": -1.0}, "overhead_s is -1.0, expected seconds from 0 up"),
        ({"overhead_per_token_s": -1.0}, "overhead_per_token_s is -1.0, expected seconds from 0 up"),
        ({"request_grid": []}, r"request_grid is \[\], expected whole numbers from 1 up"),
        ({"profile_context_tokens": -5}, "profile_context_tokens is -5, expected at least 0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"vllm-live-schedule: {message}"):
        planner_of(**options)


def test_it_is_a_sound_planner() -> None:
    assert check_planner("vllm-live-schedule:rederive_drafts=10,min_observations=2") == []
