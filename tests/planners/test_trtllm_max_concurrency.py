"""TensorRT-LLM's max_concurrency: the three numbers compared with it, and the values of AUTO."""

from __future__ import annotations

from typing import Any

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.trtllm_max_concurrency import TrtLlmMaxConcurrency

from .support import batch, engine


def depths(sizes: list[int], max_num_seqs: int = 256, max_draft_tokens: int = 7, **options: Any) -> list[int]:
    planner = TrtLlmMaxConcurrency(engine(max_draft_tokens, max_num_seqs=max_num_seqs), **options)
    return [int(planner.plan(batch([0] * size)).num_draft_tokens) for size in sizes]


def test_it_is_sound() -> None:
    assert check_planner("trtllm-max-concurrency") == []


def test_auto() -> None:
    """3 draft tokens up to 32 requests; an engine for at most 4 requests drafts 5."""
    assert depths([0, 1, 32, 33]) == [0, 3, 3, 0]
    assert depths([1, 4], max_num_seqs=4) == [5, 5]
    assert depths([1], max_num_seqs=4, max_draft_tokens=2) == [2]


def test_given_numbers() -> None:
    assert depths([7, 8, 9], max_concurrency=8, k=6) == [6, 6, 0]


def test_a_batch_never_counts_more_than_its_maximum() -> None:
    assert depths([8, 9, 200], max_concurrency=8, max_batch_size=8) == [3, 3, 3]


def test_a_small_token_budget_keeps_speculation_on() -> None:
    """120 tokens / (1 + 3) = 30 requests at most: never above 32. With 140 it is 35, and 33 requests are too many."""
    assert depths([33, 256], max_num_tokens=120) == [3, 3]
    assert depths([32, 33, 256], max_num_tokens=140) == [3, 0, 0]


def test_a_token_budget_without_room_for_one_proposal_never_speculates() -> None:
    assert depths([1, 2], max_num_tokens=3) == [0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_concurrency": -1}, "max_concurrency is -1, expected at least 0"),
        ({"max_batch_size": 0}, "max_batch_size is 0, expected at least 1"),
        ({"max_num_tokens": 0}, "max_num_tokens is 0, expected at least 1"),
        ({"k": 8}, r"k is 8, expected 0 to 7 \(the drafter's max_draft_tokens\)"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"^trtllm-max-concurrency: {message}"):
        TrtLlmMaxConcurrency(engine(7), **options)
