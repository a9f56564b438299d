"""Synthetic traces meet what their dials ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightspec_bench.core import BenchError, Trace
from lightspec_bench.traces.describe import describe
from lightspec_bench.traces.library import select
from lightspec_bench.traces.shapes import KINDS, WORKLOADS, shape
from lightspec_bench.traces.synthetic import Dials, synthesize
from lightspec_bench.traces.validate import check_trace
from tests.traces.tiny import assert_same


def made(**dials: Any) -> dict[str, Any]:
    return describe(checked(Dials(**dials)))


def checked(dials: Dials) -> Trace:
    trace = synthesize(dials)
    check_trace(trace, "synthetic")
    return trace


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("drafter", KINDS)
def test_acceptance_auc_and_ece_meet_their_targets(drafter: str, workload: str) -> None:
    found = made(shape=drafter, workload=workload, num_requests=128)
    survival = np.cumprod(shape(drafter, workload, 7, 0.94))
    assert found["served"]["acceptance_rate_per_pos"] == pytest.approx(survival.tolist(), abs=0.01)
    assert found["confidence"]["auc"] == pytest.approx([0.82] * 7, abs=0.02)
    assert found["confidence"]["ece"] == pytest.approx([0.05] * 7, abs=0.01)
    assert found["confidence"]["bias"] == pytest.approx([0.0] * 7, abs=0.01)


def test_the_mean_acceptance_length_is_the_published_one() -> None:
    """DSpark paper, 1 + the sum of Figure 2's survivals: EAGLE3 on chat 2.41, DSpark on maths 5.56."""
    assert made()["served"]["mean_acceptance_length"] == pytest.approx(2.41, abs=0.02)
    dspark = made(shape="dspark", workload="math")
    assert dspark["served"]["mean_acceptance_length"] == pytest.approx(5.56, abs=0.02)


def test_a_mean_acceptance_length_shifts_the_whole_shape() -> None:
    found = made(mean_acceptance_length=2.35, max_draft_tokens=11, num_requests=128)
    assert found["served"]["mean_acceptance_length"] == pytest.approx(2.35, abs=0.02)
    lengths = (2.35, None)
    wanted, as_published = (Dials(mean_acceptance_length=m, max_draft_tokens=11).conditional("chat") for m in lengths)
    shift = np.log(wanted / (1 - wanted)) - np.log(as_published / (1 - as_published))
    assert shift == pytest.approx(np.full(11, shift[0]))
    assert shift[0] < -0.05


def test_a_drafter_cut_short_keeps_its_first_positions() -> None:
    deep = Dials(mean_acceptance_length=4.5, max_draft_tokens=11).conditional("code")
    short = Dials(mean_acceptance_length=4.5, mean_acceptance_length_at=11, max_draft_tokens=3).conditional("code")
    assert short == pytest.approx(deep[:3])


def test_acceptance_of_ones_own_on_all_positions() -> None:
    found = made(acceptance=[0.9, 0.5, 0.25], max_draft_tokens=5, decay=0.5, measured_on="positions", num_requests=64)
    wanted = [0.9, 0.5, 0.25, 0.125, 0.0625]
    assert found["conditional_acceptance_rate_per_pos"] == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("auc", [0.55, 0.7, 0.95])
def test_the_auc_dial(auc: float) -> None:
    assert made(auc=auc, num_requests=128)["confidence"]["auc"] == pytest.approx([auc] * 7, abs=0.02)


def test_quality_dials_per_draft_token() -> None:
    found = made(
        max_draft_tokens=3, auc=[0.9, 0.8, 0.7], ece=[0.02, 0.06, 0.1], bias=[-0.02, 0.0, 0.1], num_requests=128
    )
    assert found["confidence"]["auc"] == pytest.approx([0.9, 0.8, 0.7], abs=0.01)
    assert found["confidence"]["ece"] == pytest.approx([0.02, 0.06, 0.1], abs=0.01)
    assert found["confidence"]["bias"] == pytest.approx([-0.02, 0.0, 0.1], abs=0.01)


def test_a_calibrated_confidence() -> None:
    assert max(made(max_draft_tokens=3, ece=0.0, num_requests=128)["confidence"]["ece"]) < 0.015


@pytest.mark.parametrize("lag_1", [0.05, 0.2])
def test_the_lag_1_dial(lag_1: float) -> None:
    assert made(lag_1=lag_1)["served"]["lag_1"] == pytest.approx(lag_1, abs=0.02)


def test_request_spread_makes_requests_differ() -> None:
    narrow, wide = (made(request_spread=s, lag_1=0.0, num_requests=64)["served"] for s in (0.0, 0.6))
    assert narrow["between_request_variance"] < 0.05
    assert wide["between_request_variance"] > 0.5


def test_phases_over_requests_keep_their_categories() -> None:
    dials = Dials(workload=["chat", "math"], order="requests", num_requests=128, arrivals_per_s=10.0)
    trace = checked(dials)
    assert trace.category.tolist() == ["chat"] * 64 + ["math"] * 64
    assert (np.diff(trace.arrival_s) > 0).all()
    for workload in ("chat", "math"):
        found = describe(select(trace, workload))["served"]["acceptance_rate_per_pos"]
        assert found == pytest.approx(np.cumprod(dials.conditional(workload)).tolist(), abs=0.01)


def test_phases_over_positions_shift_inside_every_request() -> None:
    trace = checked(Dials(workload=["chat", "math"], order="positions", num_requests=64))
    first = np.arange(trace.num_positions) % 256 < 128
    assert set(trace.category.tolist()) == {"chat>math"}
    assert trace.num_accepted[first].mean() + 1.0 < trace.num_accepted[~first].mean()


def test_mixed_phases_take_turns() -> None:
    trace = synthesize(Dials(workload=["chat", "code"], num_requests=4, num_output_tokens=40, lag_1=0.0))
    assert trace.category.tolist() == ["chat", "code", "chat", "code"]


def test_a_seed_gives_one_trace() -> None:
    dials = Dials(num_requests=8, num_output_tokens=60, length_spread=0.5)
    assert_same(synthesize(dials), synthesize(dials))
    other = synthesize(replace(dials, seed=1))
    assert other.num_output_tokens.tolist() != synthesize(dials).num_output_tokens.tolist()


@pytest.mark.parametrize(
    "dials", [Dials(num_requests=1, num_output_tokens=9), Dials(max_draft_tokens=1, num_requests=2)]
)
def test_the_smallest_traces_are_valid(dials: Dials) -> None:
    assert checked(dials).info.origin == "modelled"


def test_a_trace_says_how_it_was_made() -> None:
    info = synthesize(Dials(shape="dspark", num_requests=2, num_output_tokens=20, seed=3)).info
    assert (info.name, info.drafter_kind) == ("synthetic-dspark-chat", "parallel")
    assert "shape='dspark'" in info.made_by
    assert "seed=3" in info.made_by


@pytest.mark.parametrize(
    ("dials", "sentence"),
    [
        ({"num_requests": 0}, "num_requests is 0, expected 1 to 1000000"),
        ({"auc": [0.8, 0.3]}, "auc is 0.3, expected 0.5 to 0.99"),
        ({"order": "sorted"}, "order is 'sorted', expected one of mixed, requests, positions"),
        ({"workload": "poetry"}, "unknown workload 'poetry', expected one of chat, code, math"),
        ({"workload": []}, "workload and acceptance are lists of at least 1 entry"),
        ({"num_output_tokens": 8}, "num_output_tokens is 8, expected more than max_draft_tokens + 1 (8)"),
        ({"bias": 0.1}, "ece[0] is 0.05, expected at least the size of the bias, 0.1"),
        ({"acceptance": [0.5, 1.5]}, "acceptance is 1.5, expected 0.0 to 1.0"),
    ],
)
def test_a_dial_out_of_bounds_is_one_sentence(dials: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BenchError) as caught:
        synthesize(Dials(**dials))
    assert str(caught.value) == sentence
