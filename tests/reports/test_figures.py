"""Pictures: what is drawn, in which style, with which words; files written whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from lightspec_bench.core import BenchError
from lightspec_bench.reports import pictures
from lightspec_bench.reports.acceptance import acceptance_chart
from lightspec_bench.reports.chart_loads import gain_chart, throughput_chart, verify_volume_chart
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.figures import draw
from lightspec_bench.reports.heights import not_below, spread
from lightspec_bench.reports.styles import KNOWN, style_of
from lightspec_bench.reports.timeline import MAX_POINTS, Timeline, timeline_chart
from tests.reports import tiny
from tests.reports.test_table import SWEEP

FOOT = "Simulated from a recorded trace; latency: h200, modelled"


@pytest.fixture(scope="module")
def comparison() -> pd.DataFrame:
    code = tiny.summary(SWEEP, trace="code")
    return compare(pd.concat([tiny.summary(SWEEP), code], ignore_index=True))


def lines(figure: Figure) -> dict[str, str]:
    """Legend entry -> colour."""
    return {line.get_label(): to_hex(line.get_color()) for line in figure.legends[0].get_lines()}


def test_a_panel_per_trace_and_latency_with_units_and_origin(comparison: pd.DataFrame) -> None:
    figure = draw(throughput_chart(comparison))
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["chat · h200", "code · h200"]
    assert figure.axes[0].get_ylabel() == "throughput (output tokens/s)"
    assert figure.axes[1].get_xlabel() == "concurrency (running requests)"
    assert figure.get_supxlabel() == FOOT


def test_a_planner_looks_the_same_in_every_picture(comparison: pd.DataFrame) -> None:
    expected = {
        "none: no speculation": "#000000", "best static K in hindsight": "#6e6e6e", "dspark": "#d55e00",
    }  # fmt: skip
    static = {"each static K": "#b5b5b5"}
    assert lines(draw(verify_volume_chart(comparison))) == expected
    assert lines(draw(throughput_chart(comparison))) == expected | static
    assert lines(draw(gain_chart(comparison))) == expected | static


def test_the_gain_is_drawn_in_percent_with_every_k_named(comparison: pd.DataFrame) -> None:
    axis = draw(gain_chart(comparison)).axes[0]
    drawn = {tuple(np.round(line.get_ydata(), 6)) for line in axis.get_lines()}
    assert drawn == {(60.0, -0.5), (50.0, 0.0), (0.0, 0.0), (-4.0, -5.0), (50.0, -25.0)}
    assert [text.get_text() for text in axis.texts] == ["K=3", "K=0"]


def test_bands_are_drawn_where_intervals_are_known(comparison: pd.DataFrame) -> None:
    banded = comparison.assign(
        throughput_low=0.9 * comparison["throughput"], throughput_high=1.1 * comparison["throughput"]
    )
    assert [len(axis.collections) for axis in draw(throughput_chart(comparison)).axes] == [0, 0]
    assert [len(axis.collections) for axis in draw(throughput_chart(banded)).axes] == [3, 3]


def test_acceptance_shows_survival_beside_the_conditional_rate(comparison: pd.DataFrame) -> None:
    figure = draw(acceptance_chart(comparison))
    assert [axis.get_title(loc="left") for axis in figure.axes[:2]] == [
        "chat: prefix survival", "chat: given the one before",
    ]  # fmt: skip
    heights = [[round(bar.get_height(), 1) for bar in axis.patches] for axis in figure.axes[:2]]
    assert heights == [[66.7, 33.3], [66.7, 66.7]]
    assert figure.axes[0].get_ylabel() == "draft tokens accepted (%)\nstatic:k=3, concurrency 1"


def test_rates_of_few_samples_are_outlined() -> None:
    summary = tiny.summary(
        {(1, "static:k=2"): 1.0}, num_spec_steps=40.0, num_at_risk_pos_1=40.0, num_at_risk_pos_2=29.0
    )
    figure = draw(acceptance_chart(compare(summary)))
    colours = [[to_hex(bar.get_facecolor()) for bar in axis.patches] for axis in figure.axes]
    assert colours == [["#56b4e9", "#56b4e9"], ["#56b4e9", "#ffffff"]]


@given(st.lists(st.floats(0.0, 1.0), max_size=12).map(sorted), st.floats(0.01, 0.2))
def test_labels_keep_their_order_and_distance_and_their_middle(heights: list[float], gap: float) -> None:
    moved = np.array(spread(heights, gap))
    assert (np.diff(moved) >= gap - 1e-9).all()
    assert moved.sum() == pytest.approx(sum(heights))
    if (np.diff(heights) >= gap).all():
        assert moved == pytest.approx(heights)


def test_acceptance_without_any_draft_says_so() -> None:
    summary = tiny.summary({(1, "none"): 1.0}, acceptance_rate_pos_1=np.nan, conditional_acceptance_rate_pos_1=np.nan)
    axis = draw(acceptance_chart(compare(summary))).axes[0]
    assert [text.get_text() for text in axis.texts] == ["no draft token was verified"]


def timeline(**columns: Any) -> Timeline:
    run = tiny.run(steps=tiny.steps([0.1] * 4, [3, 3, 2, 1]) | columns)
    return Timeline("chat", "h200", "modelled", 4, [("dspark", run), ("static:k=3", run)])


def test_a_timeline_draws_budget_depth_and_tokens_of_every_planner() -> None:
    figure = draw(timeline_chart(timeline()))
    drawn = [[line.get_ydata().tolist() for line in axis.get_lines()] for axis in figure.axes]
    assert drawn == [[[6, 6, 4, 2]] * 2, [[0, 1, 2, 0]] * 2, [[2, 2, 2, 2]] * 2]
    assert figure.axes[0].get_title(loc="left") == "Steps: chat, h200, concurrency 4"
    assert figure.get_supxlabel() == FOOT
    assert list(lines(figure)) == ["dspark", "static:k=3"]


def test_a_long_timeline_is_binned_with_a_band_from_least_to_most() -> None:
    count = 10 * MAX_POINTS
    steps = tiny.steps([0.1] * count, [1] * count) | {"draft_depth": np.arange(count) % 10}
    run = tiny.run(steps=steps)
    axis = draw(timeline_chart(Timeline("chat", "h200", "modelled", 1, [("dspark", run)]))).axes[1]
    (line,) = axis.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), np.full(MAX_POINTS, 4.5))
    np.testing.assert_array_equal(line.get_xdata(), np.arange(MAX_POINTS) * 10 + 4.5)
    assert axis.collections[0].get_datalim(axis.transData).intervaly.tolist() == [0.0, 9.0]


def test_a_timeline_needs_step_records() -> None:
    with pytest.raises(BenchError) as error:
        draw(timeline_chart(Timeline("chat", "h200", "modelled", 4, [("dspark", tiny.run(steps=None))])))
    assert str(error.value) == (
        "timeline: the run of planner dspark has no step records, expected a run that keeps them"
    )


def test_styles_are_distinct_and_keep_a_family_together() -> None:
    assert (
        len({style.colour for style in KNOWN.values()}) == len({style.marker for style in KNOWN.values()}) == len(KNOWN)
    )
    assert style_of("dspark:threshold=0.5").colour == KNOWN["dspark"].colour
    assert style_of("dspark:threshold=0.5") != KNOWN["dspark"]
    assert style_of("my:Planner") == style_of("my:Planner")
    assert style_of("static:k=2") == style_of("static:k=9")


def test_a_saved_picture_is_whole_and_always_the_same(tmp_path: Path) -> None:
    for name in ("timeline.png", "timeline.svg"):
        first = pictures.save(draw(timeline_chart(timeline())), tmp_path / name).read_bytes()
        assert pictures.save(draw(timeline_chart(timeline())), tmp_path / name).read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["timeline.png", "timeline.svg"]


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError) as error:
        pictures.save(Figure(), tmp_path / "a.gif")
    assert str(error.value) == f"{tmp_path / 'a.gif'}: ending is '.gif', expected .png or .svg"
    assert list(tmp_path.iterdir()) == []


def test_labels_are_pushed_back_from_the_edge() -> None:
    assert not_below([1.0, 2.0, 3.0, 4.0], 1.0, 3.0) == [0.0, 1.0, 2.0, 3.0]
    assert not_below([1.0, 5.0], 1.0, 9.0) == [1.0, 5.0]
