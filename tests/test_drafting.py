"""What drafting costs, by the drafter's kind: LightLLM's own vectors, depth 0, and ragged depths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.core import DRAFTER_KINDS, Drafter
from lightspec_bench.drafting import draft_s, ragged_draft_s
from lightspec_bench.latency import AffineCurve, LinearLatency, TableCurve, TableLatency
from lightspec_bench.latency_file import load_latency


def captured(points: dict[int, float]) -> TableLatency:
    """A drafter whose measured sizes are captured; the target costs nothing that these tests look at."""
    rows, cost = np.array(list(points)), np.array(list(points.values()))
    curve = TableCurve(rows, cost, np.zeros(len(rows)), rows)
    return TableLatency(name="test", origin="modelled", source="this test", target=curve, draft=curve)


@pytest.mark.parametrize(
    ("kind", "max_draft_tokens", "points", "num_requests", "num_target_tokens", "depth", "expected"),
    [
        ("autoregressive", 3, {2: 0.1}, 4, 8, 3, 0.8),  # 0.4 + 2 * 0.2, in proportion past the largest size
        ("autoregressive", 3, {2: 0.25}, 2, 8, 3, 1.5),
        ("autoregressive", 3, {2: 0.25}, 2, 8, 1, 1.0),
        ("autoregressive", 7, {2: 2.0, 4: 4.0, 8: 8.0, 16: 16.0}, 8, 16, 7, 64.0),
        ("autoregressive", 7, {2: 2.0, 4: 4.0, 8: 8.0, 16: 16.0}, 5, 9, 2, 24.0),  # both rounded up
        ("autoregressive_no_attention", 3, {2: 0.1}, 4, 8, 3, 0.6),
        ("autoregressive_no_attention", 3, {2: 0.1}, 4, 8, 0, 0.0),
        ("parallel", 7, {8: 0.4}, 2, 16, 7, 1.5),  # 0.8 + 0.7, block 7
        ("parallel", 3, {8: 0.8}, 4, 8, 3, 2.0),  # 0.8 + 1.2, block 3
    ],
)
def test_lightllm_draft_costs(kind, max_draft_tokens, points, num_requests, num_target_tokens, depth, expected):
    latency, drafter = captured(points), Drafter(kind, max_draft_tokens)
    assert float(draft_s(latency, drafter, num_target_tokens, num_requests, depth, 0)) == pytest.approx(expected)


LINE = LinearLatency(  # D(r) = 1 + r / 8 + context / 1024: exact in binary
    name="line", origin="modelled", source="this test", target=AffineCurve(1.0), draft=AffineCurve(1.0, 1 / 8, 1 / 1024)
)


@pytest.mark.parametrize(
    ("kind", "at_depth_0_1_2_4"),
    [
        ("autoregressive", [3.0, 3.0, 4.5, 7.5]),  # D(16) = 3, D(4) = 1.5: depth 0 still follows the target
        ("autoregressive_no_attention", [0.0, 1.5, 3.0, 6.0]),
        ("parallel", [3.0, 6.0, 6.0, 6.0]),  # D(4 * 4) = 3, whatever the depth
        ("ngram", [0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_depth_0_and_deeper(kind, at_depth_0_1_2_4):
    """16 target rows of 4 requests, no context."""
    depth = np.array([0, 1, 2, 4])
    assert draft_s(LINE, Drafter(kind, 4), 16, 4, depth, 0).tolist() == at_depth_0_1_2_4
    assert [float(draft_s(LINE, Drafter(kind, 4), 16, 4, d, 0)) for d in (0, 1, 2, 4)] == at_depth_0_1_2_4


@pytest.mark.parametrize("kind", DRAFTER_KINDS)
def test_candidates_of_budget_and_depth_broadcast(kind):
    cost = draft_s(LINE, Drafter(kind, 4), np.array([8, 12, 16])[:, None], 4, np.arange(5), 1024)
    assert (cost.shape, cost.dtype) == ((3, 5), np.float64)


@pytest.mark.parametrize(
    ("kind", "num_extend_tokens", "rows_per_pass", "expected"),
    [
        ("autoregressive", 16, [4, 4, 1], 3.0 + 1.5 + 1.125),  # pass 0 is the extend pass
        ("autoregressive", 16, [], 3.0),  # depth 0: only follows
        ("autoregressive", 24, [4], 4.0),  # 8 rows of catching up
        ("autoregressive", 0, [], 0.0),  # asleep
        ("autoregressive_no_attention", 16, [4, 2], 1.5 + 1.25),
        ("autoregressive_no_attention", 16, [], 0.0),
        ("parallel", 16, [4, 2, 1], 3.0 + 3.0),  # the whole block for each of 4 requests
        ("parallel", 16, [], 3.0),
        ("ngram", 16, [4, 4], 0.0),
    ],
)
def test_requests_that_stop_early(kind, num_extend_tokens, rows_per_pass, expected):
    rows = np.array(rows_per_pass, dtype=np.int64)
    assert ragged_draft_s(LINE, Drafter(kind, 4), num_extend_tokens, rows, 0) == expected


def test_a_later_pass_reads_the_context_of_those_that_are_left():
    """4 requests with 4096 context tokens in all; one goes on to a second pass."""
    first, second = 1 + 16 / 8 + 4096 / 1024, 1 + 1 / 8 + 1024 / 1024
    assert ragged_draft_s(LINE, Drafter("autoregressive", 4), 16, np.array([4, 1]), 4096) == first + second


MODELS = {n: load_latency(n) for n in ("h200-qwen3-14b", "h200-qwen3-14b-roofline", "b300-deepseek-v4-flash")}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", DRAFTER_KINDS)
@given(
    num_requests=st.integers(1, 256),
    depth=st.integers(0, 11),
    verify=st.integers(0, 2816),
    context=st.integers(0, 10**6),
)
@settings(max_examples=20, deadline=None)
def test_equal_depths_cost_the_same_either_way(name, kind, num_requests, depth, verify, context):
    latency, drafter = MODELS[name], Drafter(kind, 11)
    rows = num_requests + verify
    uniform = float(draft_s(latency, drafter, rows, num_requests, depth, context))
    ragged = ragged_draft_s(latency, drafter, rows, np.full(depth, num_requests), context)
    assert ragged == pytest.approx(uniform, rel=1e-12)
