"""vLLM's verify-adaptive controller: scores of profiled levels, and the counts that follow."""

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.vllm_verify_adaptive import VllmVerifyAdaptive, levels

from .support import TableModel, batch, engine

LATENCY = TableModel({4: 1.0, 8: 1.9, 16: 4.0})


def counts(confidence: list[list[float]], pending: list[int] | None = None, **options: Any) -> list[int]:
    """Verify tokens of each request, D = 3, profiled at 2 and 4 requests with 2 and 4 rows each."""
    planner = VllmVerifyAdaptive(engine(3, latency=LATENCY, max_num_seqs=4), **options)
    plan = planner.plan(batch(pending or [3] * len(confidence), 0, confidence))
    assert plan.num_draft_tokens == 3
    assert plan.num_verify_tokens is not None
    return plan.num_verify_tokens.tolist()


def test_a_level_is_worth_its_cost() -> None:
    """At .9: (2 + 1.8) / 1 for 4 rows against 6.878 / 1.9 for 8. At .99: 3.98 / 1 against 7.881 / 1.9."""
    assert counts([[0.9] * 3] * 2) == [1, 1]
    assert counts([[0.99] * 3] * 2) == [3, 3]


def test_rows_go_to_the_highest_survivals() -> None:
    assert counts([[0.9] * 3, [0.1] * 3]) == [2, 0]


def test_a_batch_between_two_sizes_pays_for_the_larger() -> None:
    """3 requests on the level of 4: 8 rows, so 5 draft tokens: .9, .9, .9, .81, .81; ties are anybody's."""
    assert sum(counts([[0.9] * 3] * 3)) == 5


def test_newcomers_have_nothing_to_verify() -> None:
    assert counts([[0.9] * 3, [np.nan] * 3], [3, 0]) == [2, 0]
    assert counts([[np.nan] * 3] * 2, [0, 0]) == [0, 0]


def test_one_token_per_request_is_the_least_level() -> None:
    """Hopeless drafts are verified all the same: no level has fewer rows."""
    assert counts([[0.01] * 3] * 2) == [1, 1]


def test_max_query_len_bounds_every_request() -> None:
    assert counts([[0.99] * 3, [0.1] * 3], max_query_len=2) == [1, 1]


@pytest.mark.parametrize(
    ("most", "given", "sizes"),
    [(7, None, [2, 4, 6, 7]), (2, None, [2]), (1, None, [1]), (8, [4, 1, 4], [1, 4])],
)
def test_profiled_batch_sizes(most: int, given: list[int] | None, sizes: list[int]) -> None:
    assert levels(most, given).tolist() == sizes


def test_profiled_rows_per_request() -> None:
    assert VllmVerifyAdaptive(engine(11)).widths.tolist() == [2, 4, 6, 8, 10, 12]
    assert VllmVerifyAdaptive(engine(10)).widths.tolist() == [2, 4, 6, 8, 10, 11]
    assert VllmVerifyAdaptive(engine(1)).widths.tolist() == [2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_query_len": 1}, "min_query_len is 1, expected at least 2"),
        ({"max_query_len": 2, "min_query_len": 3}, "max_query_len is 2, expected at least min_query_len"),
        ({"query_len_step": 0}, "query_len_step is 0, expected at least 1"),
        ({"profile_context_tokens": 0}, "profile_context_tokens is 0, expected at least 1"),
        ({"batch_sizes": [0, 2]}, r"batch_sizes is \[0, 2\], expected whole numbers"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"vllm-verify-adaptive: {message}"):
        VllmVerifyAdaptive(engine(), **options)


def test_it_is_a_sound_planner() -> None:
    assert check_planner("vllm-verify-adaptive") == []
