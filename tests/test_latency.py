"""What a batch shape costs: staircase and eager curve, roofline, line, and the host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import lightspec_bench
from lightspec_bench.core import BenchError
from lightspec_bench.latency import (
    H200,
    QWEN3_14B,
    QWEN3_14B_EAGLE3,
    VLLM_49548_TPOT_MS,
    AffineCurve,
    HostCost,
    LinearLatency,
    RooflineCurve,
    RooflineLatency,
    TableCurve,
    TableLatency,
    vllm_49548,
)
from lightspec_bench.latency_curves import NO_SIZES, fit_table
from lightspec_bench.latency_file import Point, latency_names, load_latency, read_latency_csv


def table(points: dict[int, float], graph_sizes: list[int] | None = None) -> TableLatency:
    """A table of whole seconds, so that the tests can be read; no context cost."""
    rows = np.array(sorted(points), dtype=np.int64)
    base = np.array([points[row] for row in sorted(points)])
    curve = TableCurve(rows, base, np.zeros(len(rows)), np.array(graph_sizes or [], dtype=np.int64))
    return TableLatency(name="test", origin="modelled", source="this test", target=curve)


def shipped_points(name: str) -> Sequence[Point]:
    return read_latency_csv(Path(lightspec_bench.__file__).parent / "latency_tables" / f"{name}.csv").points


def seconds(latency: TableLatency, rows: list[int]) -> list[float]:
    """The cost at each size, asked one by one and all at once: both must agree."""
    one_by_one = [float(latency.verify_s(row, 1, 0)) for row in rows]
    np.testing.assert_allclose(latency.verify_s(np.array(rows), 1, 0), one_by_one, rtol=1e-12)
    return one_by_one


def test_captured_sizes_round_up_and_continue_in_proportion():
    """LightLLM's table {4: 1, 8: 2} (cost of its CUDA graphs), asked at sizes on, between, below and above its keys."""
    rows = [1, 3, 4, 5, 7, 8, 9, 10, 12, 16]
    assert seconds(table({4: 1.0, 8: 2.0}, [4, 8]), rows) == [1, 1, 1, 2, 2, 2, 2.25, 2.5, 3, 4]
    assert seconds(table({128: 0.9, 256: 1.0}, [128, 256]), [1, 200, 257, 1024]) == [0.9, 1.0, 1.00390625, 4.0]


def test_above_the_edge_only_the_eager_curve_counts():
    """Interpolated between eager sizes, held below the first one, continued past the last: never across the edge."""
    latency = table({4: 1.0, 8: 2.0, 16: 10.0, 32: 14.0}, [4, 8])
    assert seconds(latency, [8, 9, 15, 16, 24, 32, 40]) == [2, 10, 10, 10, 12, 14, 16]


def test_one_eager_size_continues_in_proportion():
    assert seconds(table({8: 2.0, 16: 10.0}, [8]), [8, 9, 16, 24]) == [2, 10, 10, 15]


def test_a_captured_size_that_was_not_measured_lies_between_its_neighbours():
    latency = table({4: 1.0, 8: 2.0, 64: 50.0}, [2, 4, 6, 8, 10])
    assert seconds(latency, [1, 4, 5, 6, 7, 9, 10, 11]) == [1, 1, 1.5, 1.5, 2, 2, 2, 50]


def test_without_captured_sizes_everything_is_interpolated_and_stays_as_measured():
    """A float32 CPU is slower at 3 rows than at 4: the table says so."""
    latency = table({1: 57.0, 3: 117.0, 4: 80.0, 8: 90.0})
    assert seconds(latency, [1, 2, 3, 4, 6, 8, 16]) == [57, 87, 117, 80, 85, 90, 110]
    assert latency.graph_sizes.tolist() == []


def test_a_falling_tail_is_not_continued_downwards():
    assert seconds(table({1: 5.0, 2: 3.0}), [2, 100]) == [3, 3]


@pytest.mark.parametrize(
    ("context_cost", "expected"),
    [
        # Size 2 was measured at one context only: it takes the value on the line between its neighbours.
        ("per-size", [[1.0, 2.0], [2.7, 4.2], [4.0, 6.0]]),
        ("common", [[0.75, 2.25], [2.7, 4.2], [4.25, 5.75]]),  # (0.1 + 0.2) / 2 per token
        (0.0, [[1.5, 1.5], [3.0, 3.0], [5.0, 5.0]]),
    ],
)
def test_context_costs_a_line_in_the_tokens_of_the_batch(context_cost, expected):
    rows, context = np.array([1, 1, 2, 3, 3]), np.array([0.0, 10.0, 2.0, 0.0, 10.0])
    curve = fit_table(rows, context, np.array([1.0, 2.0, 3.0, 4.0, 6.0]), NO_SIZES, context_cost)
    got = curve.seconds(np.array([[1], [2], [3]]), 1, np.array([0, 10]))
    np.testing.assert_allclose(got, expected)


def test_a_context_cost_that_eats_the_whole_step_is_refused():
    with pytest.raises(BenchError, match="a step of 4 rows costs nothing once its context is paid"):
        fit_table(np.array([4]), np.array([100.0]), np.array([0.5]), NO_SIZES, 0.01)


def test_sampling_is_paid_per_row():
    latency = LinearLatency(
        name="x", origin="quoted", source="x", target=AffineCurve(1.0), draft=AffineCurve(0.5),
        sampling_row_s=0.25, draft_sampling_row_s=0.125,
    )  # fmt: skip
    assert float(latency.verify_s(4, 1, 0)) == 2.0
    assert float(latency.draft_pass_s(4, 0)) == 1.0


def test_a_line_is_a_line():
    """5.886 ms + 21.01 us per row + 39.26 ns per context token: Llama-3.1-8B on an H100."""
    latency = load_latency("h100-llama-3.1-8b")
    assert float(latency.verify_s(64, 64, 64 * 500)) == pytest.approx(
        (5.886 + 64 * 0.02101 + 32000 * 3.926e-5) / 1e3, rel=1e-4
    )
    # Three passes cost what the published line asks for one whole proposal of 3 N tokens.
    passes = 3 * float(latency.draft_pass_s(64, 32000))
    assert passes == pytest.approx((2.135 + 192 * 0.841e-3 + 32000 * 2.378e-6) / 1e3, rel=1e-3)


ROOFLINE_MS = {  # (rows, context per request): ms, with min(rows, 256) requests
    (1, 300): 7.49, (8, 600): 7.71, (32, 1000): 9.02, (64, 2000): 13.40, (128, 600): 12.67, (256, 300): 16.66,
    (256, 2000): 34.54, (512, 600): 29.63, (768, 1000): 44.44, (1024, 600): 50.85, (1536, 300): 69.11,
    (2048, 2000): 111.99, (3072, 300): 134.5, (3072, 2000): 159.2,
}  # fmt: skip
EAGLE3_MS = {1: 0.35, 64: 0.42, 128: 0.51, 256: 0.74, 512: 1.12, 1024: 1.94, 2048: 3.62, 3072: 5.32}


@pytest.mark.parametrize("name", ["h200-qwen3-14b", "h200-qwen3-14b-roofline"])
def test_qwen3_14b_on_an_h200(name):
    """The figures of the estimate, from the table and from the formula: within 1 %."""
    latency = load_latency(name)
    for (rows, context), ms in ROOFLINE_MS.items():
        requests = min(rows, 256)
        assert 1e3 * float(latency.verify_s(rows, requests, requests * context)) == pytest.approx(ms, rel=0.01)
    for rows, ms in EAGLE3_MS.items():
        assert 1e3 * float(latency.draft_pass_s(rows, 600 * min(rows, 256))) == pytest.approx(ms, rel=0.01)


def test_every_row_of_the_modelled_table_comes_out_of_both_models():
    points = shipped_points("h200-qwen3-14b")
    for name in ("h200-qwen3-14b", "h200-qwen3-14b-roofline"):
        latency = load_latency(name)
        for part, count in (("target", 172), ("draft", 172)):
            chosen = [p for p in points if p.part == part]
            rows, requests, context, ms = (np.array([getattr(p, a) for p in chosen]) for a in
                                           ("rows", "requests", "context_tokens", "ms"))  # fmt: skip
            got = latency.verify_s(rows, requests, context) if part == "target" else latency.draft_pass_s(rows, context)
            assert len(chosen) == count
            np.testing.assert_allclose(1e3 * got, ms, rtol=1e-3)


def test_constants_of_the_roofline():
    """27.98 GB read and 27.98 GFLOP per row, 163,840 bytes of KV cache and 819,200 FLOP per context token."""
    assert QWEN3_14B.num_weights * QWEN3_14B.weight_bytes == pytest.approx(27.98e9, rel=1e-3)
    assert (QWEN3_14B.kv_bytes_per_token, QWEN3_14B.attention_flop) == (163_840, 819_200)
    assert QWEN3_14B_EAGLE3.num_weights == pytest.approx(367e6 + 164e6, rel=1e-3)


def test_a_roofline_pads_rows_to_captured_sizes_but_not_attention():
    sizes = np.array([8, 64], dtype=np.int64)
    padded, exact = RooflineCurve(QWEN3_14B, H200, graph_sizes=sizes), RooflineCurve(QWEN3_14B, H200)
    assert padded.seconds(9, 9, 0) == exact.seconds(64, 64, 0)
    assert padded.seconds(9, 9, 900) - padded.seconds(9, 9, 0) == pytest.approx(
        exact.seconds(9, 9, 900) - exact.seconds(9, 9, 0)
    )
    assert padded.seconds(65, 65, 0) == exact.seconds(65, 65, 0)


def test_the_graph_limit_of_the_b300_is_a_cliff():
    latency = load_latency("b300-deepseek-v4-flash")
    got = latency.verify_s(np.array([121, 1008, 1009, 1024, 1025, 2047, 16384]), 256, 0)
    np.testing.assert_allclose(1e3 * got, [9.904, 20.634, 20.634, 20.634, 104.489, 104.489, 234.893])
    assert latency.graph_sizes[-1] == 1024


def test_the_b300_drafter_costs_what_vllm_charges_when_everything_is_verified():
    """Published: 2.431 ms for 64 requests. Half is paid over 64 x 7 rows, half over 64 x 8."""
    latency = load_latency("b300-deepseek-v4-flash")
    assert float(latency.draft_pass_s(64 * 7, 0)) == pytest.approx(2.431e-3 / 2)
    assert float(latency.draft_pass_s(64 * 7, 0) + latency.draft_pass_s(64 * 8, 0)) == pytest.approx(2.431e-3, rel=0.03)


def test_the_h100_table_is_jagged_as_measured():
    latency = load_latency("h100-internlm-20b")
    cost = latency.verify_s(np.array([512, 520, 1024, 1040]), 256, 0)
    assert cost[1] / cost[0] == pytest.approx(1.27, abs=0.01)
    assert cost[3] / cost[2] == pytest.approx(1.15, abs=0.01)
    assert (np.diff(latency.verify_s(latency.graph_sizes, 1, 0)) < 0).sum() > 20


@pytest.mark.parametrize(("name", "within"), [("cpu-smollm2-135m-fp32", 0.06), ("cpu-smollm2-135m-bf16", 0.14)])
def test_the_cpu_tables_give_back_what_was_measured(name, within):
    latency, points = load_latency(name), shipped_points(name)
    rows, context, ms = (np.array([getattr(p, a) for p in points]) for a in ("rows", "context_tokens", "ms"))
    np.testing.assert_allclose(1e3 * latency.verify_s(rows, 1, context), ms, rtol=within)
    assert (np.diff(latency.verify_s(np.unique(rows), 1, 256)) < 0).any()  # not monotone


@pytest.mark.parametrize("name", latency_names())
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_arrays_and_numbers_agree_in_every_table(name, data):
    latency = load_latency(name)
    rows = data.draw(st.lists(st.integers(1, 20_000), min_size=1, max_size=6))
    requests = data.draw(st.integers(1, 300))
    context = data.draw(st.integers(0, 10**6))
    verify = [latency.verify_s(row, requests, context) for row in rows]
    draft = [latency.draft_pass_s(np.int64(row), context) for row in rows]
    np.testing.assert_allclose(latency.verify_s(np.array(rows), requests, context), verify, rtol=1e-12)
    np.testing.assert_allclose(latency.draft_pass_s(np.array(rows), np.full(len(rows), context)), draft, rtol=1e-12)
    assert np.shape(verify[0]) == np.shape(latency.host_s(requests, True)) == ()
    assert min(*verify, *draft, *verify) > 0


def test_everything_broadcasts():
    latency = load_latency("h200-qwen3-14b")
    rows, requests = np.arange(256, 259)[:, None], np.array([64, 256])
    assert latency.verify_s(rows, requests, 1000).shape == (3, 2)
    assert latency.verify_s(300, requests, 1000).shape == (2,)
    assert latency.draft_pass_s(rows, requests * 500).shape == (3, 2)
    assert latency.host_s(requests, False).dtype == np.float64


def test_depth_0_and_no_speculation_are_different_prices():
    host = HostCost(step_s=1.0, request_s=0.5, drafter_step_s=0.25, drafter_request_s=0.125)
    assert host.seconds(2, speculating=False) == 2.0
    assert host.seconds(2, speculating=True) == 2.5
    assert host.seconds(np.array([0, 2]), speculating=True).tolist() == [1.25, 2.5]


def test_what_a_loaded_drafter_that_never_drafts_costs():
    """vllm#49548: TPOT 14.374 -> 15.317 ms at concurrency 2 (+6.56 %), 77.164 -> 93.820 at 189 (+21.58 %)."""
    line = (77.164 - 14.374) / 187
    latency = LinearLatency(
        name="x", origin="quoted", source="vllm#49548", target=AffineCurve((14.374 - 2 * line) / 1e3, line / 1e3),
        host=vllm_49548(HostCost()),
    )  # fmt: skip
    for concurrency, (off_ms, on_ms) in VLLM_49548_TPOT_MS.items():
        none = float(latency.verify_s(concurrency, concurrency, 0) + latency.host_s(concurrency, speculating=False))
        depth_0 = float(latency.verify_s(concurrency, concurrency, 0) + latency.host_s(concurrency, speculating=True))
        assert (1e3 * none, 1e3 * depth_0) == pytest.approx((off_ms, on_ms))
        assert depth_0 / none - 1 == pytest.approx({2: 0.0656, 189: 0.2158}[concurrency], abs=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HostCost(step_s=-1.0), "host step_s is -1.0, expected a number of seconds from 0 up"),
        (lambda: AffineCurve(float("nan")), "fixed_s is nan, expected a number of seconds from 0 up"),
        (lambda: table({1: 0.0}), "a latency table holds a cost that is not above 0"),
        (lambda: table({}), "a latency table has no rows, expected at least one measured size"),
        (lambda: table({8: 1.0}, [4]), "the smallest measured size is 8 rows, expected one at or below the largest"),
        (lambda: table({8: 1.0}, [8, 8]), r"graph_sizes are \[8, 8\], expected ascending whole numbers from 1 up"),
        (
            lambda: TableLatency(name="x", origin="guessed", source="", target=table({1: 1.0}).target),
            "latency x: origin is 'guessed', expected one of measured, modelled, quoted",
        ),
        (
            lambda: RooflineLatency(
                name="x", origin="modelled", source="", target=RooflineCurve(QWEN3_14B, H200), max_num_seqs=0
            ),
            "latency x: max_num_seqs is 0, expected at least 1",
        ),
        (lambda: table({1: 1.0}).draft_pass_s(1, 0), "latency test: no cost of a drafter pass, expected a draft part"),
    ],
)
def test_costs_out_of_range_are_refused(make, message):
    with pytest.raises(BenchError, match=message):
        make()


def test_an_array_of_one_entry_stays_an_array() -> None:
    latency = LinearLatency(name="a", origin="modelled", source="b", target=AffineCurve(1.0), draft=AffineCurve(2.0))
    one = np.array([4])
    assert latency.verify_s(one, one, one).shape == latency.draft_pass_s(one, one).shape == (1,)
    assert latency.host_s(one, True).shape == (1,)
