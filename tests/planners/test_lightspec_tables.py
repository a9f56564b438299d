"""Vectors 1 to 16 of the reference: cost tables, captured sizes, draft costs."""

import numpy as np
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.planners.lightspec_tables import (
    CaptureOptions,
    CostTable,
    allowed_depths,
    cost_tables,
    draft_cost,
    graph_sizes,
)

from .support import TableModel, engine


@pytest.mark.parametrize(
    ("ends", "keys"),
    [((5, 10), [5, 8, 10]), ((10, 5), [5, 8, 10]), ((4, 8), [4, 8]), ((5, 7), [5, 7]), ((6, 6), [6])],
)
def test_keys_between_two_sizes(ends: tuple[int, int], keys: list[int]) -> None:
    """Vectors 1 and 2."""
    assert CostTable.of({4: 1.0, 8: 2.0}).keys_between(*ends).tolist() == keys


def test_a_cost_is_that_of_the_next_size_and_proportional_above_the_largest() -> None:
    """Vectors 3 and 4."""
    small = CostTable.of({8: 2.0, 4: 1.0}).estimate(np.array([1, 3, 4, 5, 7, 8, 9, 10, 12, 16]))
    assert small.tolist() == [1, 1, 1, 2, 2, 2, 2.25, 2.5, 3.0, 4.0]
    large = CostTable.of({128: 0.9, 256: 1.0}).estimate(np.array([1, 200, 257, 1024]))
    assert large.tolist() == [0.9, 1.0, 1.00390625, 4.0]


def test_registered_sizes_cost_what_was_measured() -> None:
    """Vectors 5 and 6 (under micro-batch overlap the keys arrive doubled)."""
    assert (CostTable.of({4: 1.2}).estimate(4), CostTable.of({4: 0.3}).estimate(4)) == (1.2, 0.3)
    assert CostTable.of({8: 1.2}).estimate(np.array([7, 8])).tolist() == [1.2, 1.2]
    assert CostTable.of({8: 0.3}).estimate(np.array([7, 8])).tolist() == [0.3, 0.3]


def test_an_empty_table_has_no_estimate() -> None:
    with pytest.raises(BenchError, match="the cost table is empty, expected at least one captured batch size"):
        CostTable.of({}).estimate(4)


def test_captured_sizes() -> None:
    """Vectors 7, 8 and 9."""
    assert graph_sizes(1, 4, 2, 128).tolist() == [1, 2, 3, *range(4, 129, 2)]
    assert graph_sizes(8, 32, 16, 32).tolist() == [8, 16, 24, 32]
    assert graph_sizes(7, 28, 14, 56).tolist() == [7, 14, 21, 28, 42, 56]


def test_the_largest_size_is_captured_even_off_the_stride() -> None:
    assert graph_sizes(1, 4, 3, 12).tolist() == [1, 2, 3, 4, 7, 10, 12]


@pytest.mark.parametrize(("max_draft_tokens", "count"), [(3, 184), (7, 368), (11, 552)])
def test_number_of_target_graphs(max_draft_tokens: int, count: int) -> None:
    sizes = CaptureOptions().target_sizes(max_draft_tokens)
    assert (len(sizes), sizes[-1]) == (count, 256 * (max_draft_tokens + 1))


def test_draft_graphs_hold_one_row_or_one_block_per_request() -> None:
    rows = [*range(1, 33), *range(48, 257, 16)]
    assert CaptureOptions().draft_sizes("eagle3", 7).tolist() == rows
    assert CaptureOptions().draft_sizes("dflash", 7).tolist() == [7 * r for r in rows]


@pytest.mark.parametrize("name", ["max_batch_size", "split_batch_size", "grow_step_size"])
def test_capture_options_are_positive(name: str) -> None:
    with pytest.raises(BenchError, match=f"graph_{name} is 0, expected at least 1"):
        CaptureOptions(**{name: 0})


@pytest.mark.parametrize(
    ("mode", "table", "n", "rows", "depth", "block", "cost"),
    [
        ("vanilla_with_att", {2: 0.1}, 4, 8, 3, 3, 0.8),  # 10
        ("vanilla_no_att", {2: 0.1}, 4, 8, 3, 3, 0.6),  # 11
        ("eagle_no_att", {2: 0.1}, 4, 8, 3, 3, 0.6),
        ("eagle_no_att", {2: 0.1}, 4, 8, 0, 3, 0.0),
        ("eagle_with_att", {2: 0.25}, 2, 8, 3, 3, 1.5),  # 12
        ("eagle_with_att", {2: 0.25}, 2, 8, 1, 3, 1.0),
        ("eagle3", {2: 2, 4: 4, 8: 8, 16: 16}, 8, 16, 7, 7, 64),  # 13
        ("eagle_with_att", {2: 2, 4: 4, 8: 8, 16: 16}, 8, 16, 7, 7, 64),
        ("eagle3", {2: 2, 4: 4, 8: 8, 16: 16}, 5, 9, 2, 7, 24),  # 14
        ("dflash", {8: 0.4}, 2, 16, 7, 7, 1.5),  # 15
        ("dspark", {8: 0.8}, 4, 8, 3, 3, 2.0),  # 16
    ],
)
def test_draft_cost(mode, table, n, rows, depth, block, cost) -> None:
    assert draft_cost(mode, CostTable.of(table), n, rows, depth, block) == pytest.approx(cost)


@pytest.mark.parametrize("mode", ["eagle3", "eagle_with_att", "vanilla_with_att"])
def test_a_drafter_with_attention_cannot_skip_a_step(mode) -> None:
    """Vector 10."""
    with pytest.raises(BenchError, match=f"draft depth is 0 for {mode}, expected at least 1"):
        draft_cost(mode, CostTable.of({2: 0.1}), 4, 8, 0, 3)


def test_allowed_depths() -> None:
    found = {mode: [*allowed_depths(mode, 3)] for mode in ("eagle3", "eagle_no_att", "vanilla_with_att", "dflash")}
    assert found == {"eagle3": [1, 2, 3], "eagle_no_att": [0, 1, 2, 3], "vanilla_with_att": [3], "dflash": [3]}


def test_tables_are_timed_with_dummy_requests_of_two_tokens() -> None:
    class Recorder(TableModel):
        def verify_s(self, num_target_tokens, num_requests, num_context_tokens):
            return 1e-3 * num_target_tokens + 1e-6 * num_requests + 1e-9 * num_context_tokens

        def draft_pass_s(self, num_rows, num_context_tokens):
            return 1e-3 * num_rows + 1e-9 * num_context_tokens

    target, draft = cost_tables(engine(3, latency=Recorder()), "eagle3", CaptureOptions(2, 1, 1))
    assert (target.sizes.tolist(), draft.sizes.tolist()) == ([*range(1, 9)], [1, 2])
    np.testing.assert_allclose(target.costs, (1e-3 + 1e-6 + 2e-9) * target.sizes)
    np.testing.assert_allclose(draft.costs, (1e-3 + 2e-9) * draft.sizes)


def test_an_ngram_drafter_drafts_for_free() -> None:
    _, draft = cost_tables(engine(3, "ngram"), "eagle_no_att", CaptureOptions())
    assert not draft.costs.any()
