"""Two runs held against each other: pairs, intervals, words, the gate, and what is only on one side."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.core import BenchError
from lightspec_bench.reports.regression import Change, compare_runs
from lightspec_bench.reports.regression_words import (
    cells_of,
    change_words,
    failures,
    regression_markdown,
    sentences,
)
from tests.reports import tiny

# vllm#48944, tokens/s of two repeats each: one schedule is 4 % slower, another is level.
MAIN, SLOWER, LEVEL = (2631.5, 2622.8), (2551.3, 2494.6), (2650.7, 2635.1)


def summary(speeds: tuple[float, ...], planner: str = "schedule", seconds: float = 60.0, seed: int = 0) -> pd.DataFrame:
    """A repeat per speed, of a minute each."""
    repeats = [
        tiny.summary({(64, planner): speed}, seed=seed + place, elapsed_s=seconds, num_output_tokens=speed * seconds)
        for place, speed in enumerate(speeds)
    ]
    return pd.concat(repeats, ignore_index=True)


def change(base: tuple[float, ...], new: tuple[float, ...]) -> Change:
    (found,) = compare_runs(summary(base), summary(new)).changes
    return found


def test_a_loss_of_four_percent_is_declared_with_its_interval() -> None:
    found = change(MAIN, SLOWER)
    assert found.word == "worse"
    assert change_words(found) == "worse, -4.0 % [-5.3, -2.7]"
    assert found.fails(0.02)
    assert not found.fails(0.05)


def test_a_gain_of_a_half_percent_is_no_difference() -> None:
    found = change(MAIN, LEVEL)
    assert found.word == "no difference shown"
    assert change_words(found).startswith("no difference shown, +0.6 % [")
    assert not found.fails(0.0)


def test_repeats_that_disagree_show_no_difference() -> None:
    assert change((100.0, 100.0, 100.0), (90.0, 112.0, 96.0)).word == "no difference shown"


def test_a_clear_gain_is_better() -> None:
    assert change_words(change((100.0, 101.0, 99.0), (120.0, 122.0, 118.0))).startswith("better, +20.0 % [")


def test_a_single_run_has_no_interval_and_fails_by_its_figure_alone() -> None:
    found = compare_runs(summary((100.0,)), summary((96.0,)))
    assert (found.changes[0].word, found.overall.word) == ("no interval", "no interval")
    assert math.isnan(found.changes[0].low)
    assert sentences(found, 0.02) == [
        "Over 1 cells: -4.0 %, no interval.",
        "Cells that ran once have no interval: repeat the runs with several seeds to have one.",
        "Gate failed: slower by more than 2 %: all cells (-4.0 %); chat · h200 · 64 · schedule (-4.0 %).",
    ]
    assert failures(found, 0.05) == []


def test_repeats_are_paired_by_seed() -> None:
    """A drift that both runs share widens nothing."""
    drift = (100.0, 130.0, 80.0, 115.0)
    found = change(drift, tuple(0.95 * speed for speed in drift))
    assert found.low == pytest.approx(0.95)
    assert found.high == pytest.approx(0.95)
    assert found.word == "worse"


def test_ratio_of_sums_and_mean_of_ratios_are_two_figures() -> None:
    """Repeats of other lengths: a long one that is level, a short one twice as fast."""
    base = pd.concat([summary((100.0,), seconds=90.0), summary((100.0,), seconds=10.0, seed=1)])
    new = pd.concat([summary((100.0,), seconds=90.0), summary((200.0,), seconds=5.0, seed=1)])
    (found,) = compare_runs(base, new).changes
    assert found.ratio == pytest.approx(100.0 / 95.0)
    assert found.mean_of_ratios == pytest.approx(1.5)


def requests(*seconds: float) -> pd.DataFrame:
    """Requests of 10 tokens that took so long each."""
    rows = {"request_id": range(len(seconds)), "start_s": 0.0, "finish_s": seconds, "num_output_tokens": 10}
    return pd.DataFrame(
        {"trace": "chat", "latency": "h200", "concurrency": 64, "planner": "schedule", "seed": 0, **rows}
    )


def test_the_mean_of_request_ratios_is_named_apart() -> None:
    """Spec-Bench's figure: of two requests the short one is three times as fast, the long one as fast as before."""
    found = compare_runs(summary((100.0,)), summary((110.0,)), requests(3.0, 30.0), requests(1.0, 30.0)).changes[0]
    assert found.ratio == pytest.approx(1.1)
    assert found.mean_of_request_ratios == pytest.approx((3.0 + 1.0) / 2)
    assert cells_of(found)[4:9] == ["+10.0 %", "–", "no interval", "1", "+100.0 %"]


def test_a_longer_acceptance_length_does_not_make_a_slower_run_better() -> None:
    base = summary((767.8, 770.0)).assign(num_accepted_tokens=204.0, num_spec_steps=100.0)
    new = summary((732.3, 735.0)).assign(num_accepted_tokens=352.0, num_spec_steps=100.0)
    found = compare_runs(base, new).changes[0]
    assert found.word == "worse"
    assert (found.base_acceptance_length, found.new_acceptance_length) == pytest.approx((3.04, 4.52))


def test_over_all_cells_a_seed_is_drawn_for_all_at_once() -> None:
    """Two cells that move against each other within a seed: together little moves."""
    base = pd.concat([summary((100.0, 100.0), "a"), summary((100.0, 100.0), "b")])
    new = pd.concat([summary((80.0, 125.0), "a"), summary((125.0, 80.0), "b")])
    found = compare_runs(base, new).overall
    assert found.ratio == pytest.approx(1.025)
    assert found.high - found.low < 0.1 < change((100.0, 100.0), (80.0, 125.0)).high - 1.0


def test_cells_of_one_side_only_are_listed() -> None:
    base = pd.concat([summary(MAIN), summary((1.0,), "gone")])
    new = pd.concat([summary((*MAIN, 1.0)), summary((1.0,), "here")])
    found = compare_runs(base, new)
    assert found.only_base == ("chat · h200 · 64 · gone, seed 0",)
    assert found.only_new == ("chat · h200 · 64 · schedule, seed 2", "chat · h200 · 64 · here, seed 0")
    assert "1 cells of the base run only: chat · h200 · 64 · gone, seed 0." in sentences(found, None)


def test_runs_without_a_common_cell_are_refused() -> None:
    with pytest.raises(BenchError, match="no cell in common"):
        compare_runs(summary(MAIN, "a"), summary(MAIN, "b"))
    with pytest.raises(BenchError, match="--planner is 'c', which a run does not have, expected one of a"):
        compare_runs(summary(MAIN, "a"), summary(MAIN, "a"), planners=["c"])


def test_markdown_for_a_jobs_summary() -> None:
    found = compare_runs(summary(MAIN), summary(SLOWER))
    text = regression_markdown(found, "Measured; latency: cpu, measured", sentences(found, 0.02))
    assert text.startswith("- Over 1 cells: worse, -4.0 % [-5.3, -2.7].\n- Intervals rest on as few as 2 pairs; ")
    assert "| 64 | schedule | 2,627 | 2,523 | -4.0 % | [-5.3 %, -2.7 %] | worse | 2 |" in text
    assert text.endswith("Measured; latency: cpu, measured. Change: ratio of sums.\n")


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(50, 200), st.floats(50, 200)), min_size=2, max_size=6), st.floats(0.5, 2.0))
def test_the_interval_holds_the_change_and_turns_with_the_runs(pairs: list[tuple[float, float]], scale: float) -> None:
    base, new = (tuple(pair[place] for pair in pairs) for place in (0, 1))
    found, scaled = change(base, new), change(base, tuple(scale * speed for speed in new))
    assert found.low <= found.ratio * (1 + 1e-9)
    assert found.ratio <= found.high * (1 + 1e-9)
    assert np.allclose(
        [scaled.low, scaled.ratio, scaled.high], [scale * found.low, scale * found.ratio, scale * found.high]
    )
