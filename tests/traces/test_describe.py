"""The description of a trace: by hand on a tiny one, and against the published means of the recorded ones."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lightspec_bench.core import BoolArray, FloatArray
from lightspec_bench.traces.describe import auc, describe, ece, heterogeneity, known_depth, served_entries
from lightspec_bench.traces.library import load_trace
from tests.traces.tiny import tiny_trace


def test_a_tiny_trace_by_hand() -> None:
    found = describe(tiny_trace())
    # full windows of 2 tokens: position 1 of "a" alone (2 ahead); "b" has 1 ahead at most
    assert known_depth(tiny_trace()).tolist() == [0, 2, 0, 0, 0, 0, 0]
    assert found["num_counted_positions"] == 1
    assert found["mean_accepted_plus_one"] == 3.0
    assert found["acceptance_rate_per_pos"] == [1.0, 1.0]
    assert found["served"]["mean_acceptance_length"] == 3.0
    assert found["confidence"]["auc"] == [None, None]
    assert found["confidence"]["bias"] == [pytest.approx(-0.1), pytest.approx(-0.2)]
    assert found["num_output_tokens"] == {"mean": 3.5, "p5": 3.05, "p50": 3.5, "p95": pytest.approx(3.95)}
    assert found["num_looping_requests"] == 1
    assert found["categories"] == {
        "chat": {"num_requests": 1, "mean_accepted_plus_one": 3.0},
        "code": {"num_requests": 1, "mean_accepted_plus_one": None},
    }


def test_a_step_indexed_trace_counts_what_was_verified() -> None:
    trace = replace(tiny_trace(), info=replace(tiny_trace().info, indexing="step"))
    # known: a 0 2 1 0, b 0 1 0; accepted: a . 2 1 ., b . 1 .
    assert known_depth(trace).tolist() == [0, 2, 1, 0, 0, 1, 0]
    assert describe(trace)["conditional_acceptance_rate_per_pos"] == [1.0, 1.0]
    assert describe(trace)["mean_accepted_plus_one"] == pytest.approx(7 / 3)


def test_a_static_drafter_steps_over_what_it_accepted() -> None:
    trace = tiny_trace()
    everywhere = np.ones(trace.num_positions, np.bool_)
    # "a": position 1 accepts 2 and the bonus token ends it; "b": position 1 accepts 1 and the bonus ends it
    assert served_entries(trace, everywhere).tolist() == [1, 5]


def test_heterogeneity_by_hand() -> None:
    found = heterogeneity(np.array([0, 0, 0, 1, 1, 1]), np.array([1, 2, 3, 5, 6, 7]))
    assert found["mean_acceptance_length"] == 4.0
    assert found["within_request_variance"] == 1.0  # both requests vary by 1
    assert found["between_request_variance"] == pytest.approx((24.0 - 1.0) / 3.0)  # mean squares 24 and 1, 3 per group
    assert found["lag_1"] == 0.0  # deviations -1, 0, 1 in each
    assert found["request_mean_p5"] == pytest.approx(2.2)
    assert found["request_mean_p95"] == pytest.approx(5.8)


scored = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30)


def split(pairs: list[tuple[int, bool]]) -> tuple[FloatArray, BoolArray]:
    return np.array([p[0] / 5.0 for p in pairs]), np.array([p[1] for p in pairs])


@given(scored)
def test_auc_is_the_share_of_pairs_in_order(pairs: list[tuple[int, bool]]) -> None:
    hits, misses = [s for s, h in pairs if h], [s for s, h in pairs if not h]
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in itertools.product(hits, misses)]
    expected = sum(wins) / len(wins) if wins else None
    assert auc(*split(pairs)) == (None if expected is None else pytest.approx(expected))


@given(scored)
def test_ece_is_the_weighted_gap_of_the_bins(pairs: list[tuple[int, bool]]) -> None:
    score, hit = split(pairs)
    bins = [min(math.floor(s * 10), 9) for s in score]
    gaps = [abs(sum(s - h for s, h, b in zip(score, hit, bins, strict=True) if b == each)) for each in range(10)]
    assert ece(score, hit) == pytest.approx(sum(gaps) / len(pairs))


def test_the_recorded_traces_have_the_means_of_their_recording() -> None:
    """Over positions with a full window ahead; the documentation quotes them."""
    eagle = describe(load_trace("smollm2-135m-eagle"))
    assert eagle["mean_accepted_plus_one"] == pytest.approx(3.039, abs=0.0006)
    by_category = {name: row["mean_accepted_plus_one"] for name, row in eagle["categories"].items()}
    assert by_category == pytest.approx(
        {"humaneval": 3.771, "gsm8k": 3.294, "mt_bench": 2.369, "sharegpt_chat": 2.827}, abs=0.0006
    )
    assert eagle["acceptance_rate_per_pos"][:5] == pytest.approx([0.611, 0.397, 0.273, 0.195, 0.146], abs=0.0006)
    assert eagle["confidence"]["auc"][:3] == pytest.approx([0.857, 0.861, 0.869], abs=0.0006)
    assert (eagle["num_requests"], eagle["num_positions"], eagle["num_looping_requests"]) == (160, 25_298, 21)

    parallel = describe(load_trace("smollm2-135m-parallel"))
    assert parallel["mean_accepted_plus_one"] == pytest.approx(1.905, abs=0.0006)
    assert parallel["acceptance_rate_per_pos"][:4] == pytest.approx([0.453, 0.221, 0.111, 0.058], abs=0.0006)
    assert parallel["confidence"]["auc"][0] == pytest.approx(0.814, abs=0.0006)

    lookups = {name: describe(load_trace(f"smollm2-135m-{name}")) for name in ("ngram", "suffix")}
    lengths = {name: found["mean_accepted_plus_one"] for name, found in lookups.items()}
    assert lengths == pytest.approx({"ngram": 3.890, "suffix": 4.025}, abs=0.0006)
    # they know how sure to be of a match, not where it ends
    assert lookups["suffix"]["confidence"]["auc"][:2] == pytest.approx([0.827, 0.5], abs=0.0006)


def test_the_levvius_trace_has_the_entropy_auc_of_its_log() -> None:
    found = describe(load_trace("qwen2.5-14b-levvius"))
    assert found["entropy"]["auc"][0] == pytest.approx(0.77, abs=0.01)
    assert found["acceptance_rate_per_pos"][0] == pytest.approx(46 / 90)  # 46 of the 100 states, none of them a first
