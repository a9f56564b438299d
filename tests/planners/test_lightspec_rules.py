"""Vectors 17 to 54 of the reference: statistics, objective, plans, and the trace of a short service."""

import numpy as np
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.planners.lightspec_reference import LightSpec, align_depths
from lightspec_bench.planners.lightspec_statistics import Average
from lightspec_bench.planners.lightspec_tables import CostTable, Mode

A, B = {2: 1.0, 4: 1.1, 8: 10.0}, {2: 0.1, 4: 0.1, 8: 0.2}


def rules(
    mode: Mode = "eagle_with_att",
    max_draft_tokens: int = 3,
    target: dict[int, float] | None = None,
    draft: dict[int, float] | None = None,
) -> LightSpec:
    return LightSpec(mode, max_draft_tokens, CostTable.of(target or {}), CostTable.of(draft or {}))


def learn(planner: LightSpec, accept_lengths: list[int], rows: int, depth: int, times: int = 1) -> LightSpec:
    for _ in range(times):
        planner.update(rows, depth, np.array(accept_lengths))
    return planner


def progress(planner: LightSpec, *configurations: tuple[int, int, int]) -> list[float]:
    return [planner.prices.progress(*c) for c in configurations]


def survival(planner: LightSpec) -> list[float | None]:
    return [None if np.isnan(s) else float(s) for s in planner.statistics.survival]


def close(values):
    return pytest.approx(values, abs=1e-6)


def test_configurations_are_averaged_one_by_one() -> None:
    """Vector 17."""
    planner = learn(learn(rules(), [2, 2], 4, 1), [1, 1], 4, 3)
    assert planner.statistics.progress == {2: {(4, 1): Average(1.0, 1), (4, 3): Average(0.5, 1)}}


def test_a_step_is_one_sample_whatever_its_size() -> None:
    """Vector 18."""
    planner = learn(rules(), [1] * 128, 128, 1)
    assert planner.statistics.progress == {128: {(128, 1): Average(1.0, 1)}}


def test_full_width_steps_teach_survival_and_survival_prices_the_unseen() -> None:
    """Vectors 19 and 20."""
    planner = learn(rules(), [2, 1], 8, 3)
    assert survival(planner) == [0.5, 0, 0]
    assert progress(planner, (2, 4, 3), (2, 2, 3), (2, 4, 2)) == [0.75, 1.0, 0.75]
    assert progress(planner, (2, 8, 3), (2, 3, 3), (2, 6, 3)) == close([0.375, 0.833333, 0.5])


def test_survival_is_that_of_the_prefix() -> None:
    """Vectors 21 and 22."""
    planner = learn(rules(), [4, 2], 8, 3)
    assert survival(planner) == [1, 0.5, 0.5]
    assert progress(planner, (2, 6, 2), (2, 8, 3), (2, 5, 3), (2, 7, 3)) == close([5 / 6, 0.75, 0.9, 0.785714])


def test_rows_beyond_the_depth_gain_nothing() -> None:
    assert progress(learn(rules(), [4, 2], 8, 3), (2, 8, 1)) == [0.5]


def test_averages_keep_nine_tenths() -> None:
    """Vector 23."""
    planner, seen = rules(), []
    for lengths in ([4, 4], [1, 1], [2, 1]):
        learn(planner, lengths, 8, 3)
        seen.append((*progress(planner, (2, 8, 3)), *survival(planner)))
    assert np.array(seen) == close(np.array([[1, 1, 1, 1], [0.925, 0.9, 0.9, 0.9], [0.87, 0.86, 0.81, 0.81]]))


def test_a_narrow_step_teaches_no_survival_and_the_unseen_is_hoped_for() -> None:
    """Vector 24."""
    planner = learn(rules(), [2, 2], 6, 3)
    assert survival(planner) == [None, None, None]
    assert progress(planner, (2, 4, 3), (2, 6, 3)) == close([1.0, 0.666667])


def test_depths_never_measured_count_as_accepted() -> None:
    """Vector 25."""
    planner = learn(rules("eagle3"), [2, 1], 4, 1)
    assert survival(planner) == [0.5, None, None]
    assert progress(planner, (2, 8, 3), (2, 6, 2)) == close([0.875, 0.833333])


def test_tokens_stay_between_one_per_request_and_the_whole_draft() -> None:
    """Vectors 27 and 28."""
    flat = {4: 1.0, 8: 1.0, 16: 1.0}
    planner = rules("eagle3", 3, flat, flat)
    planner.statistics.progress[4] = {(16, 1): Average(1.0), (16, 3): Average(0.1)}
    assert (planner.prices.price(4, 16, 1), planner.prices.price(4, 16, 3)) == (0.25, 1.0)


def test_price_rounds_up_to_captured_sizes() -> None:
    """Vector 29."""
    planner = rules("eagle_with_att", 3, {4: 1.0, 8: 3.0}, {4: 0.25, 8: 1.0})
    assert (planner.prices.price(4, 8, 1), planner.prices.target.estimate(7)) == (0.5, 3.0)


def plan(planner: LightSpec, num_requests: int, num_ready: int | None = None, origin: int | None = None):
    """(rows, depth verified now, depth drafted next)."""
    most = num_requests * (planner.max_draft_tokens + 1)
    made = planner.plan(
        num_requests, num_requests if num_ready is None else num_ready, most if origin is None else origin
    )
    return made.num_target_tokens, made.previous_depth, made.next_depth


def test_cold_it_verifies_and_drafts_everything() -> None:
    """Vectors 31 and 32: without tables, and with tables that alone do not start it."""
    ramp = {2: 2.0, 4: 4.0, 8: 8.0}
    assert plan(rules(), 2) == (8, 3, 3)
    assert plan(rules("eagle_with_att", 3, ramp, ramp), 2) == (8, 3, 3)


@pytest.mark.parametrize(("ready", "rows", "all_ready"), [(0, 2, False), (1, 5, False), (2, 8, True)])
def test_requests_without_a_proposal_bound_the_rows(ready: int, rows: int, all_ready: bool) -> None:
    """Vector 33."""
    made = rules().plan(2, ready, 8)
    assert (made.num_target_tokens, made.all_ready) == (rows, all_ready)


@pytest.mark.parametrize(("mode", "depth"), [("eagle3", 1), ("eagle_no_att", 0)])
def test_an_idle_step_takes_the_smallest_depth(mode: Mode, depth: int) -> None:
    """Vectors 34 and 35."""
    planner = rules(mode)
    planner.depth = 2
    assert plan(planner, 0) == (0, 2, depth)
    assert planner.depth == depth


def test_a_cliff_above_four_rows_is_avoided() -> None:
    """Vectors 36, 37 and 38."""
    planner = learn(rules("eagle_with_att", 3, A, B), [4, 4], 8, 3, times=8)
    first = [planner.prices.price(2, rows, 3) for rows in (2, 4, 8)]
    assert first == close([0.65, 0.35, 1.30])
    second = planner.candidates(2)
    second.refresh()
    assert second.depth.tolist() == [1, 1, 2, 2, 2, 3, 3, 3]
    assert second.rows.tolist() == [2, 4, 2, 4, 6, 2, 4, 8]
    assert second.price == close(np.array([0.55, 0.30, 0.60, 0.325, 1.716667, 0.65, 0.35, 1.30]))
    assert plan(planner, 2) == (4, 3, 1)


def test_a_chain_of_models_keeps_its_depth() -> None:
    """Vector 39."""
    planner = learn(rules("vanilla_with_att", 3, A, B), [4, 4], 8, 3)
    assert [*planner.prices.depths] == [3]
    assert plan(planner, 2) == (4, 3, 3)


def test_a_block_drafter_moves_only_the_rows() -> None:
    """Vectors 40 and 41."""
    planner = learn(rules("dflash", 7, {2: 1, 4: 1.1, 8: 3, 16: 8}, {14: 0.5}), [3, 3], 16, 7, times=8)
    assert progress(planner, *((2, rows, 7) for rows in (2, 4, 8, 16))) == close([1, 1, 0.75, 0.375])
    prices = [planner.prices.price(2, rows, 7) for rows in (2, 4, 8, 16)]
    assert prices == close([1.0, 0.525, 0.666667, 1.511905])
    assert plan(planner, 2) == (4, 7, 7)


def test_a_shallow_draft_recovers_its_depth() -> None:
    """Vectors 42 and 43."""
    flat = {2: 0.01, 4: 0.01, 6: 0.01, 8: 0.01}
    planner = learn(rules("eagle_with_att", 3, {2: 1, 4: 1.1, 6: 1.2, 8: 1.3}, flat), [4, 4], 8, 3)
    planner.depth = 1
    best = [planner.prices.price(2, 2 * (depth + 1), depth) for depth in (1, 2, 3)]
    assert best == close([0.2775, 0.203333, 0.16625])
    assert [plan(planner, 2), plan(planner, 2)] == [(4, 1, 3), (8, 3, 3)]


def test_equal_prices_take_fewer_rows() -> None:
    """Vector 44."""
    planner = learn(rules("eagle3", 3, {2: 1, 4: 3}, {2: 1, 4: 1}), [2, 2], 4, 1)
    planner.depth = 1
    assert (planner.prices.price(2, 2, 1), planner.prices.price(2, 4, 1)) == (1.0, 1.0)
    assert plan(planner, 2)[0] == 2


def test_equal_prices_take_the_shallower_depth() -> None:
    """Vector 45."""
    planner = learn(rules("eagle_no_att", 1, {1: 1, 2: 1.5}, {1: 0.5}), [2], 2, 1)
    prices = [planner.prices.price(1, 1, 0), planner.prices.price(1, 2, 1), planner.prices.price(1, 1, 1)]
    assert prices == [1.0, 1.0, 1.5]
    assert plan(planner, 1, origin=2) == (2, 1, 0)


def test_cold_after_depth_zero_there_is_nothing_to_verify() -> None:
    """Vector 46."""
    planner = rules("eagle_no_att")
    planner.depth = 0
    assert plan(planner, 3) == (3, 0, 3)


def test_a_mixed_batch_after_learning() -> None:
    """Vector 47."""
    target = {n: 1 + 0.01 * n for n in range(1, 17)}
    planner = learn(rules("eagle3", 3, target, {16: 0.1}), [4, 4, 4, 4], 16, 3)
    plans = []
    for ready in range(5):
        planner.depth = 3
        plans.append(plan(planner, 4, ready))
    assert plans == [(4, 3, 3), (7, 3, 3), (10, 3, 3), (13, 3, 3), (16, 3, 3)]


def test_a_short_service() -> None:
    """Vectors 48 to 52."""
    target = {k: 2 + 0.05 * k for k in range(1, 17)}
    planner = rules("eagle3", 3, target, dict.fromkeys(range(1, 9), 0.2))
    assert [plan(planner, 4, 0), plan(planner, 4), plan(planner, 4)] == [(4, 3, 3), (16, 3, 3), (16, 3, 3)]
    learn(planner, [2, 1, 3, 1], 16, 3)
    assert (progress(planner, (4, 16, 3)), survival(planner)) == ([0.4375], [0.5, 0.25, 0])
    best = [planner.prices.price(4, rows, depth) for depth, rows in ((1, 8), (2, 12), (3, 12))]
    assert best == close([0.433333, 0.442857, 0.471429])
    assert plan(planner, 4) == (12, 3, 1)
    learn(planner, [2, 2, 1, 1], 12, 3)
    assert (progress(planner, (4, 12, 3)), survival(planner)) == ([0.5], [0.5, 0.25, 0])
    assert [plan(planner, 4), plan(planner, 4, 3)] == [(8, 1, 1), (7, 1, 1)]


def test_one_unlucky_step_is_for_ever() -> None:
    """Vector 53: B = N is not full width at depth 1, so nothing is measured again."""
    planner = rules("eagle3", 3, {1: 2, 2: 2.1, 3: 2.2, 4: 2.3}, dict.fromkeys(range(1, 5), 0.3))
    learn(planner, [1], 4, 3)
    assert survival(planner) == [0, 0, 0]
    for _ in range(20):
        rows, depth, following = plan(planner, 1)
        assert (rows, following) == (1, 1)
        learn(planner, [1], rows, depth)


def test_ranks_draft_to_the_deepest_depth_of_all() -> None:
    """Vector 54, and a busy rank whose own choice is the deeper one."""
    idle = rules("eagle3")
    made = idle.plan(0, 0, 2, peer_depths=(3,))
    assert (made.num_target_tokens, made.next_depth, idle.depth) == (2, 3, 3)
    assert rules("eagle3").plan(2, 2, 8, peer_depths=(1, 2)).next_depth == 3
    assert align_depths([1, 3, 2]) == 3


def test_dspark_has_a_planner_of_its_own() -> None:
    with pytest.raises(BenchError, match="mode is 'dspark', expected another mode"):
        rules("dspark")
