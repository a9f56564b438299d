"""Validation and repeats: errors, noise, ranks and sentences from hand-made summaries, written out in full."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.reports.html_validation import validation_page
from lightspec_bench.reports.pictures import png
from lightspec_bench.reports.repeats import repeat_lines, repeats_frame
from lightspec_bench.reports.validation import (
    SINGLE_RUN_NOISE,
    Agreement,
    agreements,
    median_error,
    noise_of,
    validation_figure,
    validation_frame,
    verdict_lines,
)
from lightspec_bench.reports.validation_table import validation_table


def summary(throughputs: dict[tuple[str, int], float], length: float = 2.0) -> pd.DataFrame:
    """A row per (planner, repeat) at 8 requests: 100 s, 1000 steps, of which `none` verified nothing."""
    rows: list[dict[str, Any]] = []
    for (planner, seed), throughput in throughputs.items():
        speculates = planner != "none"
        rows.append(
            {
                "trace": "t", "latency": "l", "concurrency": 8, "planner": planner, "seed": seed, "origin": "o",
                "latency_origin": "measured", "throughput": throughput, "elapsed_s": 100.0, "num_steps": 1000.0,
                "mean_acceptance_length": length if speculates else math.nan,
                "num_spec_steps": 500.0 if speculates else 0.0, "step_time_s": 0.1,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


MEASURED = {("none", 0): 100.0, ("none", 1): 104.0, ("static:k=1", 0): 150.0, ("static:k=1", 1): 154.0,
            ("lightspec", 0): 160.0, ("lightspec", 1): 176.0}  # fmt: skip


def frame(predicted: dict[tuple[str, int], float], length: float = 2.02) -> pd.DataFrame:
    measured = summary(MEASURED)
    held_out = measured["planner"] == "lightspec"
    return validation_frame(measured, summary(predicted, length), held_out)


def test_repeats_are_pooled_and_errors_are_relative() -> None:
    found = frame(MEASURED | {("lightspec", 0): 168.0, ("lightspec", 1): 184.8})
    assert found["planner"].tolist() == ["none", "static:k=1", "lightspec"]
    assert found["throughput_measured"].tolist() == [102.0, 152.0, 168.0]
    assert found["throughput_error"].tolist() == pytest.approx([0.0, 0.0, 0.05])
    assert found["mean_acceptance_length_error"].tolist() == pytest.approx([math.nan, 0.01, 0.01], nan_ok=True)
    assert found["held_out"].tolist() == [False, False, True]
    assert median_error(found, "throughput") == 0.0
    assert median_error(found[found["held_out"]], "throughput") == pytest.approx(0.05)
    assert math.isnan(median_error(found[:1], "mean_acceptance_length"))


def test_cells_must_be_the_same() -> None:
    with pytest.raises(BenchError, match="measured and predicted cells differ"):
        validation_frame(summary(MEASURED), summary({("none", 0): 1.0}), pd.Series([True]))


def test_noise_comes_from_repeats_where_there_are_any() -> None:
    spread = [math.sqrt(8) / 102, math.sqrt(8) / 152, math.sqrt(128) / 168]  # standard deviations over means
    expected = 2.0 * math.sqrt(2.0 / 2.0) * math.sqrt(sum(value**2 for value in spread) / 3)
    assert noise_of(summary(MEASURED)) == {8: pytest.approx(expected)}
    assert noise_of(summary({("none", 0): 1.0, ("lightspec", 0): 2.0})) == {8: SINGLE_RUN_NOISE}


def test_only_pairs_that_measurement_tells_apart_are_held_to_their_order() -> None:
    found = frame(MEASURED | {("lightspec", 0): 90.0, ("lightspec", 1): 94.0})  # predicted slowest, measured fastest
    assert agreements(found, {8: 0.2}) == [Agreement(8, 0.2, num_pairs=2, num_alike=1)]
    assert agreements(found, {8: 0.01}) == [Agreement(8, 0.01, num_pairs=3, num_alike=1)]
    assert agreements(found, {8: 1.0}) == [Agreement(8, 1.0, num_pairs=0, num_alike=0)]


def test_sentences_say_what_was_reached() -> None:
    found = frame(MEASURED | {("lightspec", 0): 176.0, ("lightspec", 1): 193.6}, length=2.01)
    assert verdict_lines(found, [Agreement(8, 0.03, 3, 2), Agreement(9, 0.5, 0, 0)]) == [
        "Median error of throughput: 0.0 % over all 3 cells, 10.0 % over 1 held out; target 5 %: missed.",
        "Median error of mean acceptance length: 0.5 % over all 3 cells, 0.5 % over 1 held out; target 1 %: reached.",
        "At 8 requests 2 of 3 pairs of planners that differ by more than 3.0 % (noise) are ranked alike.",
        "At 9 requests no two planners differ by more than 50.0 % (noise).",
    ]


def test_table_picture_and_page_show_every_cell() -> None:
    found = frame(MEASURED)
    assert validation_table(found).row_count == 3
    figure = validation_figure(found, "measured here")
    assert png(figure)[:4] == b"\x89PNG"
    page = validation_page(found, figure, "measured here", ["It is right."], ["A note."], {"suite": {}})
    assert page.count("<tr><th scope=row>") == 3
    assert "It is right." in page
    assert "held out" in page


def test_repeats_have_medians_and_ratios_within_a_repeat() -> None:
    found = repeats_frame(summary(MEASURED)).set_index("planner")
    row = found.loc["lightspec"]
    assert (row["num_repeats"], row["throughput"], row["throughput_low"]) == (2, 168.0, 160.0)
    assert row["ratio_to_none"] == pytest.approx((1.6 + 176 / 104) / 2)
    assert (row["ratio_to_best_static_low"], row["ratio_to_best_static_high"]) == pytest.approx((160 / 150, 176 / 154))
    assert found.loc["none", "ratio_to_none"] == 1.0
    assert repeat_lines(found.reset_index()) == [
        "At 8 requests, 2 repeats: lightspec 168.0 tok/s, +64.6 % [+60.0 %, +69.2 %] against no speculation, "
        "+10.5 % [+6.7 %, +14.3 %] against best static K (medians over repeats and the range of ratios within one)."
    ]


def test_one_run_has_no_repeats_to_speak_of() -> None:
    assert repeat_lines(repeats_frame(summary({("none", 0): 1.0, ("lightspec", 0): 2.0}))) == []
    with pytest.raises(BenchError, match="a cell appears twice"):
        repeats_frame(pd.concat([summary(MEASURED), summary(MEASURED)]))
