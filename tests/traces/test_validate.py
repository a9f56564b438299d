"""Validation: each invariant, broken once, is named with its request and position; all of them are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.traces.library import load_trace, trace_names
from lightspec_bench.traces.validate import Violations, check_trace, validate
from tests.traces.tiny import tiny_trace


def with_value(name: str, index: Any, value: float) -> dict[str, Any]:
    values = getattr(tiny_trace(), name).copy()
    values[index] = value
    return {name: values}


def test_a_valid_trace_has_no_violations() -> None:
    assert validate(tiny_trace()) == Violations(0, {}, "")
    check_trace(tiny_trace(), "t.parquet")


@pytest.mark.parametrize("name", trace_names())
def test_every_shipped_trace_is_valid(name: str) -> None:
    assert validate(load_trace(name)) == Violations(0, {}, "")


ACCEPTED = "(max_draft_tokens 2, num_draft_tokens there, and tokens left before the last)"


@pytest.mark.parametrize(
    ("changes", "rule", "first"),
    [
        (
            with_value("num_accepted", 2, -1),
            "num_accepted",
            f"0 ('a') has num_accepted -1 at position 2, expected 0 to 1 {ACCEPTED}",
        ),
        (
            with_value("num_accepted", 1, 3),
            "num_accepted",
            f"0 ('a') has num_accepted 3 at position 1, expected 0 to 2 {ACCEPTED}",
        ),
        (
            with_value("num_accepted", 6, 1),
            "num_accepted",
            f"1 ('b') has num_accepted 1 at position 2, expected 0 to 0 {ACCEPTED}",
        ),
        (
            with_value("num_draft_tokens", 1, 1),
            "num_accepted",
            f"0 ('a') has num_accepted 2 at position 1, expected 0 to 1 {ACCEPTED}",
        ),
        (
            with_value("num_draft_tokens", 3, 5),
            "num_draft_tokens",
            "0 ('a') has num_draft_tokens 5 at position 3, expected 0 to 2 (max_draft_tokens)",
        ),
        (
            with_value("confidence", (5, 1), 1.5),
            "confidence",
            "1 ('b') has confidence[1] 1.5 at position 1, expected 0 to 1",
        ),
        (
            with_value("confidence", (5, 0), np.nan),
            "confidence",
            "1 ('b') has confidence[0] nan at position 1, expected 0 to 1",
        ),
        (
            with_value("confidence", (0, 1), -0.5),
            "confidence",
            "0 ('a') has confidence[1] -0.5 at position 0, expected 0 to 1",
        ),
        (
            with_value("entropy", (6, 0), -0.25),
            "entropy",
            "1 ('b') has entropy[0] -0.25 at position 2, expected a finite number of at least 0",
        ),
        (
            with_value("entropy", (6, 0), np.inf),
            "entropy",
            "1 ('b') has entropy[0] inf at position 2, expected a finite number of at least 0",
        ),
        (
            with_value("arrival_s", 1, np.nan),
            "arrival_s",
            "1 ('b') has arrival_s nan, expected a finite number of at least 0",
        ),
        (
            with_value("arrival_s", 0, -1.0),
            "arrival_s",
            "0 ('a') has arrival_s -1.0, expected a finite number of at least 0",
        ),
        (
            with_value("num_prompt_tokens", 1, -1),
            "num_prompt_tokens",
            "1 ('b') has num_prompt_tokens -1, expected at least 0",
        ),
        (
            with_value("repeats_from", 1, 4),
            "repeats_from",
            "1 ('b') has repeats_from 4, expected a position of the request, or num_output_tokens",
        ),
        (
            {"request_id": np.array(["a", "a"])},
            "request_id",
            "1 ('a') has request_id a, expected an id that no request before it has",
        ),
    ],
)
def test_each_invariant(changes: dict[str, Any], rule: str, first: str) -> None:
    assert validate(tiny_trace(**changes)) == Violations(1, {rule: 1}, f"request {first}")


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"offsets": np.array([0, 3, 7])}, "offsets are not the running sum of num_output_tokens, starting at 0"),
        ({"category": np.array(["chat"])}, "category has shape (1,), expected (2,)"),
        ({"num_accepted": np.zeros(6, np.int16)}, "num_accepted has shape (6,), expected (7,)"),
        ({"confidence": np.zeros((7, 3), np.float32)}, "confidence has shape (7, 3), expected (7, 2)"),
        ({"num_output_tokens": np.array([7, 0])}, "request 1 has num_output_tokens 0, expected at least 1"),
    ],
)
def test_arrays_that_do_not_fit_together_are_said_before_values(changes: dict[str, Any], first: str) -> None:
    assert validate(tiny_trace(**changes)) == Violations(1, {"structure": 1}, first)


def test_nan_may_stand_where_nothing_was_proposed() -> None:
    fewer = with_value("num_draft_tokens", 5, 1)
    assert validate(tiny_trace(**fewer, **with_value("confidence", (5, 1), np.nan))) == Violations(0, {}, "")


def test_the_sentence_names_the_first_and_counts_all() -> None:
    accepted = np.array([0, 2, 1, 0, 0, 9, 9], np.int16)
    broken = tiny_trace(
        num_accepted=accepted, num_prompt_tokens=np.array([1, -1]), **with_value("entropy", (3, 1), -1.0)
    )
    with pytest.raises(BenchError) as caught:
        check_trace(broken, "t.parquet")
    assert str(caught.value) == (
        "t.parquet: request 0 ('a') has entropy[1] -1.0 at position 3, expected a finite number of at least 0; "
        "4 violations in all (num_prompt_tokens 1, num_accepted 2, entropy 1)"
    )
