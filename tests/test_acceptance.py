"""Acceptance from counts: the definitions by name, what is unknown and what is undefined, pooled and per request."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest
from hypothesis import given, strategies as st

from lightspec_bench.acceptance import (
    Counts,
    conditional_per_pos,
    from_steps,
    length_bounds,
    missing,
    pooled,
    rates,
    survival_per_pos,
)
from lightspec_bench.acceptance_summary import AcceptanceSummary, Mean, Sample, document, means


def known(counts: Counts) -> dict[str, float]:
    return {name: value for name, value in rates(counts).items() if value is not None}


def test_every_definition_of_one_set_of_counts() -> None:
    """35 cycles of one draft token, 29 accepted: 35 + 29 = 64 tokens out of 70 target rows."""
    counts = replace(from_steps([1] * 35, [1] * 29 + [0] * 6), num_request_steps=40)
    assert known(counts) == pytest.approx(
        {
            "mean_acceptance_length": 1 + 29 / 35,
            "mean_tokens_per_step": 69 / 40,
            "mean_tokens_per_spec_step": 64 / 35,
            "target_efficiency": 69 / 75,
            "target_efficiency_of_spec_steps": 64 / 70,
            "verify_acceptance_rate": 0.8286,
            "draft_acceptance_rate": 0.8286,
        },
        abs=5e-5,
    )


def test_what_a_source_does_not_tell_is_unknown_and_names_what_is_missing() -> None:
    counts = Counts(num_accepted_tokens=66, num_draft_tokens=66)
    assert known(counts) == {"draft_acceptance_rate": 1.0}
    assert missing(counts, "mean_acceptance_length") == ("num_spec_steps",)
    assert missing(counts, "target_efficiency") == ("num_verify_tokens", "num_request_steps")
    assert length_bounds(counts) is None


def test_nothing_accepted_is_a_length_of_one_and_nothing_drafted_is_undefined() -> None:
    assert known(from_steps([5] * 99, [0] * 99))["mean_acceptance_length"] == 1.0
    assert known(from_steps([5] * 99, [0] * 99))["draft_acceptance_rate"] == 0.0
    skipped = known(from_steps([0, 0], [0, 0]))  # skipped drafts are not drafts
    assert {name for name, value in skipped.items() if math.isnan(value)} == set(skipped)


def test_positions_divide_by_what_was_verified_there() -> None:
    """Of three drafts one is short: the second position is at risk once in the two that got there and verified it."""
    counts = from_steps([3, 1, 3], [2, 1, 0])
    assert (counts.num_survived_per_pos, counts.num_at_risk_per_pos) == ((2, 1, 0), (3, 1, 1))
    assert survival_per_pos(counts) == pytest.approx((2 / 3, 1 / 3, 0.0))
    assert conditional_per_pos(counts) == pytest.approx((2 / 3, 1.0, 0.0))
    assert conditional_per_pos(replace(counts, num_at_risk_per_pos=None)) is None  # 7 verified are not 3 x 3
    full = replace(from_steps([2, 2], [2, 0]), num_at_risk_per_pos=None)
    assert conditional_per_pos(full) == (0.5, 1.0)


def test_a_sum_is_unknown_where_a_part_is() -> None:
    told, silent = from_steps([2, 2], [1, 0]), Counts(num_accepted_tokens=5, num_draft_tokens=9)
    total = pooled([told, silent])
    assert (total.num_accepted_tokens, total.num_draft_tokens) == (6, 13)
    assert (total.num_spec_steps, total.num_survived_per_pos) == (None, None)
    assert pooled([]) == Counts()


def test_bounds_of_the_length_where_the_number_of_drafts_is_not_pinned_down() -> None:
    rough = Counts(num_accepted_tokens=100, spec_steps_bounds=(50, 100))
    exact = from_steps([2] * 50, [2] * 50)
    assert length_bounds(rough) == (2.0, 3.0)
    assert length_bounds(pooled([rough, exact])) == pytest.approx((1 + 200 / 150, 3.0))
    assert rates(pooled([rough, exact]))["mean_acceptance_length"] is None


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda s: (max(s), min(s)))), min_size=1))
def test_pooling_requests_is_counting_their_steps_together(requests: list[list[tuple[int, int]]]) -> None:
    parts = [from_steps([d for d, _ in steps], [a for _, a in steps]) for steps in requests]
    together = [step for steps in requests for step in steps]
    assert pooled(parts) == from_steps([d for d, _ in together], [a for _, a in together])


def summary(*requests: tuple[list[int], list[int]]) -> AcceptanceSummary:
    samples = [Sample(f"r{i}", from_steps(*steps)) for i, steps in enumerate(requests)]
    return AcceptanceSummary("test", "file", "request", tuple(samples))


def test_pooled_and_mean_of_requests_may_order_two_runs_differently() -> None:
    """Run A has one long request with a length of 2 and a short one of 4, run B two of 2.5 tokens per step."""
    a = summary(([3] * 30, [1] * 30), ([3] * 2, [3] * 2))
    b = summary(([3] * 20, [1, 2] * 10), ([3] * 4, [1, 2] * 2))
    pooled_a, pooled_b = (rates(run.counts)["mean_acceptance_length"] for run in (a, b))
    mean_a, mean_b = (means(run.samples)["mean_acceptance_length"] for run in (a, b))
    assert (pooled_a, pooled_b) == (1 + 36 / 32, 2.5)
    assert (mean_a, mean_b) == (Mean(3.0, 2, False), Mean(2.5, 2, False))


def test_a_mean_leaves_out_what_is_unknown_and_takes_printed_figures() -> None:
    samples = [
        Sample("counted", from_steps([2, 2], [2, 0])),
        Sample("printed", Counts(), printed={"mean_acceptance_length": 3.0}),
        Sample("idle", from_steps([], [])),
    ]
    assert means(samples)["mean_acceptance_length"] == Mean(2.5, 2, True)
    assert means(samples)["target_efficiency"] is None


def test_the_document_is_json_and_tells_unknown_from_undefined() -> None:
    found = json.loads(json.dumps(document(summary(([0], [0]))), allow_nan=False))
    assert found["pooled"]["mean_acceptance_length"] is None
    assert "mean_acceptance_length" in found["undefined"]
    assert found["unknown"]["mean_tokens_per_step"] == ["num_request_steps"]
    assert found["counts"] == json.loads(json.dumps(asdict(from_steps([0], [0]))))
    assert (found["unit"], found["num_samples"], found["mean_over_requests"]["draft_acceptance_rate"]) == (
        "request", 1, None,
    )  # fmt: skip
