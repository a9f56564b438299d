"""TensorRT-LLM's draft_len_schedule in both meanings of its keys; vectors of its own documentation and tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.trtllm_schedule import TrtLlmSchedule
from lightspec_bench.registry import make_planner

from .support import batch, engine

LOWER, UPPER = {1: 4, 4: 2, 8: 0}, {4: 4, 8: 2, 32: 1}


def lengths(sizes: list[int], max_draft_tokens: int = 7, **options: Any) -> list[int]:
    planner = TrtLlmSchedule(engine(max_draft_tokens), **options)
    return [planner.draft_len(size) for size in sizes]


@pytest.mark.parametrize("options", [{"meaning": "lower"}, {"meaning": "upper", "floor": 1}])
def test_it_is_sound(options: dict[str, Any]) -> None:
    assert check_planner("trtllm-schedule", options=options) == []


def test_keys_as_lower_bounds() -> None:
    """1.2 and before: from 1 request 4, from 4 requests 2, from 8 none."""
    assert lengths([1, 3, 4, 7, 8, 500], meaning="lower") == [4, 4, 2, 2, 0, 0]


def test_keys_as_upper_bounds() -> None:
    """#10860: up to 4 requests 4, up to 8 two, up to 32 one, none above."""
    assert lengths([1, 4, 5, 8, 9, 32, 33, 4096], meaning="upper") == [4, 4, 2, 2, 1, 1, 0, 0]


def test_the_same_mapping_means_another_thing() -> None:
    mapping = {1: 4, 4: 2}
    assert lengths([1, 2, 4, 5], meaning="lower", draft_len_schedule=mapping) == [4, 4, 2, 2]
    assert lengths([1, 2, 4, 5], meaning="upper", draft_len_schedule=mapping) == [4, 2, 2, 0]


def test_floor() -> None:
    """The vectors of #16888: sizes 1, 8, 32 as scheduled, the implicit tier and an explicit 0 raised to the floor."""
    assert lengths([1, 8, 32, 33, 4096], meaning="upper", floor=1) == [4, 2, 1, 1, 1]
    assert lengths([8], meaning="upper", draft_len_schedule={4: 4, 8: 0}, floor=1) == [1]
    assert lengths([8], meaning="upper", draft_len_schedule={4: 4, 8: 0}) == [0]


def test_order_spelling_and_the_drafters_depth() -> None:
    assert lengths([1, 4, 8], 3, meaning="lower", draft_len_schedule={"8": 1, "1": 4, 4: 2}) == [3, 2, 1]


def test_an_empty_batch_counts_as_one_request() -> None:
    assert lengths([0], meaning="lower") == lengths([1], meaning="lower") == [4]


def test_what_is_pending_when_the_length_changes() -> None:
    """Lower: drafted and verified in one iteration, so all is verified. Upper: cut to the iteration's length."""
    nine = batch([4, 4, 4, 4, 4, 4, 0, 0, 1])
    lower = TrtLlmSchedule(engine(7), "lower").plan(nine)
    assert (lower.num_draft_tokens, lower.num_target_tokens) == (0, 9 + 25)
    upper = TrtLlmSchedule(engine(7), "upper").plan(nine)
    assert upper.num_draft_tokens == 1
    np.testing.assert_array_equal(upper.num_verify_tokens, [1, 1, 1, 1, 1, 1, 0, 0, 1])


def test_the_meaning_has_to_be_given() -> None:
    with pytest.raises(BenchError, match=r"trtllm-schedule: option .meaning. is missing, expected lower \| upper"):
        make_planner("trtllm-schedule", engine(7))


def test_from_a_spec() -> None:
    planner = make_planner("trtllm-schedule:meaning=upper,draft_len_schedule={2: 3, 6: 1}", engine(7))
    assert [planner.plan(batch([0] * n)).num_draft_tokens for n in (2, 3, 6, 7)] == [3, 1, 1, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"meaning": "lower", "draft_len_schedule": {2: 3}}, r"draft_len_schedule is {2: 3}, expected a key 1"),
        ({"meaning": "lower", "draft_len_schedule": {}}, "draft_len_schedule is {}, expected at least one batch size"),
        (
            {"meaning": "lower", "draft_len_schedule": {1: 3}, "max_draft_len": 4},
            r"draft_len_schedule\[1\] is 3, expected 4, which is max_draft_len",
        ),
        (
            {"meaning": "upper", "draft_len_schedule": {4: 3, 8: 2}, "max_draft_len": 5},
            r"draft_len_schedule\[4\] is 3, expected 5, which is max_draft_len",
        ),
        (
            {"meaning": "upper", "draft_len_schedule": {4: 3, 8: 4}},
            r"draft_len_schedule\[8\] is 4, expected at most 3, which is max_draft_len",
        ),
        (
            {"meaning": "upper", "draft_len_schedule": {4: -1}},
            r"draft_len_schedule\[4\] is -1, expected a whole number",
        ),
        ({"meaning": "upper", "draft_len_schedule": {0: 1}}, "draft_len_schedule batch size is 0, expected at least 1"),
        ({"meaning": "upper", "draft_len_schedule": {"few": 1}}, "batch size is 'few', expected a whole number"),
        ({"meaning": "upper", "draft_len_schedule": {"4": 1, 4: 1}}, "batch size is 4, expected each size once"),
        ({"meaning": "upper", "floor": 8}, r"floor is 8, expected 0 to 7 \(the drafter's max_draft_tokens\)"),
        ({"meaning": "upper", "max_draft_len": 0}, "max_draft_len is 0, expected at least 1"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=rf"^trtllm-schedule: .*{message}"):
        TrtLlmSchedule(engine(7), **options)
