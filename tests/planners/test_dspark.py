"""Vectors 55 to 61 of the reference, and how the queue of capacities follows an engine's steps."""

import numpy as np
import pytest

from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.dspark import DSpark, DSparkCapacity, head_confidence, top_sums
from lightspec_bench.planners.lightspec_tables import CostTable

from .support import TableModel, batch, engine

TARGET, DRAFT = {2: 1.0, 4: 1.1, 8: 10.0}, {6: 0.5}


def core(target: dict[int, float] | None = None) -> DSparkCapacity:
    return DSparkCapacity(3, CostTable.of(target or TARGET), CostTable.of(DRAFT))


def confidence(value: float, num_requests: int = 2):
    return np.full((num_requests, 3), value)


def test_sums_of_the_largest_survivals() -> None:
    """Vector 55."""
    sums = top_sums(np.array([[0.1, 0.9], [0.4, 0.7]]), np.array([0, 2, 4]))
    assert sums == pytest.approx([0, 1.6, 2.1])


def test_plain_order_uses_a_capacity_one_plan_later() -> None:
    """Vector 56."""
    planner, capacities = core(), []
    for _ in range(2):
        planner.update(confidence(0.9), 2)
        capacities.append(planner.capacity(2, 8))
    assert capacities == [8, 4]


def test_throughput_of_each_captured_size() -> None:
    """Vector 57."""
    planner = core()
    assert planner.candidates(2)[0].tolist() == [2, 4, 8]
    assert planner.throughput(confidence(0.9), 2) == pytest.approx([1.0, 1.809524, 0.615940], abs=1e-6)


def test_equal_throughputs_take_fewer_rows() -> None:
    """Vector 58."""
    planner = core({2: 1.0, 4: 1.2, 8: 10.0})
    assert planner.throughput(confidence(0.1), 2)[:2].tolist() == [1.0, 1.0]
    planner.update(confidence(0.1), 2)
    planner.update(confidence(0.9), 2)
    assert list(planner.pending) == [2, 4]


def test_overlapped_order_uses_a_capacity_two_plans_later() -> None:
    """Vector 59."""
    planner = core()
    capacities = [planner.capacity(2, 8), planner.capacity(2, 8)]
    for value in (0.01, 0.9, 0.01, 0.9, 0.01, 0.9):
        planner.update(confidence(value), 2)
        capacities.append(planner.capacity(2, 8))
    assert capacities == [8, 8, 8, 2, 4, 2, 4, 2]


@pytest.mark.parametrize(("num_requests", "origin", "rows"), [(5, 20, 5), (1, 4, 4), (1, 2, 2)])
def test_a_capacity_is_only_kept_within_its_bounds(num_requests: int, origin: int, rows: int) -> None:
    """Vector 60."""
    planner = core()
    planner.pending.extend([4, 4])
    assert planner.capacity(num_requests, origin) == rows


def test_confidences_of_the_head() -> None:
    """Vector 61."""
    logits = np.array([[-10.0, 0.0, 10.0], [10.0, 0.0, -10.0]])
    assert head_confidence(logits, 2).tolist() == [[0.01, 0.5], [0.99, 0.5]]


def test_a_full_queue_drops_its_oldest_capacity() -> None:
    planner = core()
    for value in (0.9, 0.01, 0.9):
        planner.update(confidence(value), 2)
    assert list(planner.pending) == [2, 4]


def test_positions_past_a_proposal_count_as_never_accepted() -> None:
    ragged = np.array([[0.9, np.nan, np.nan], [0.9, 0.9, np.nan]])
    tokens = core().throughput(ragged, 2) * core().candidates(2)[1]
    assert tokens == pytest.approx([2, 3.8, 2 + 0.9 + 0.9 + 0.81])


def drive(lag_steps: int, values: list[float]) -> list[int]:
    """Budgets of two requests whose proposal verified at step t has confidence `values[t - 1]`; step 0 has none."""
    latency = TableModel(TARGET, DRAFT)
    planner = DSpark(engine(3, "parallel", latency, lag_steps=lag_steps), graph_max_batch_size=2)
    shown = [np.nan, *values]
    budgets = []
    for t in range(len(shown)):
        seen = shown[t - lag_steps] if t >= lag_steps else np.nan
        made = planner.plan(batch([3 * (t > 0)] * 2, t, [[seen] * 3] * 2))
        assert made == Plan(num_draft_tokens=3, num_target_tokens=made.num_target_tokens)
        budgets.append(made.num_target_tokens)
    return budgets


def test_age_of_a_budget_in_an_engine() -> None:
    """A proposal verified at step t decides step t + 1 without lag, t + 2 with it."""
    values = [0.01, 0.9, 0.01, 0.9, 0.9]
    assert drive(0, values) == [2, 8, 2, 4, 2, 4]
    assert drive(1, values) == [2, 8, 8, 2, 4, 2]


def test_a_newcomer_has_no_part_in_the_capacity() -> None:
    planner = DSpark(engine(3, "parallel", TableModel(TARGET, DRAFT)))
    planner.plan(batch([3, 3, 0], 0, [[0.9] * 3, [0.9] * 3, [np.nan] * 3]))
    twin = DSpark(engine(3, "parallel", TableModel(TARGET, DRAFT)))
    twin.plan(batch([3, 3], 0, [[0.9] * 3, [0.9] * 3]))
    assert planner.core.pending == twin.core.pending


def test_other_drafters_are_priced_by_their_own_kind() -> None:
    modes = {kind: DSpark(engine(3, kind)).core.mode for kind in ("parallel", "autoregressive", "ngram")}
    assert modes == {"parallel": "dspark", "autoregressive": "eagle3", "ngram": "eagle_no_att"}


def test_it_cannot_do_without_confidences() -> None:
    with pytest.raises(BenchError, match="dspark: the batch has no confidences"):
        DSpark(engine()).plan(batch([3, 3]))
