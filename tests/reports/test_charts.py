"""Charts on the page and what they are drawn from: fronts, best K, acceptance, time, ticks and themes."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from lightspec_bench.core import BenchError
from lightspec_bench.reports.acceptance import acceptance_chart, wilson
from lightspec_bench.reports.best_k import best_k_chart, best_k_frame
from lightspec_bench.reports.chart_loads import gain_chart
from lightspec_bench.reports.charts import Squares, Stacks
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.figures import draw
from lightspec_bench.reports.html_chart import chart_block
from lightspec_bench.reports.pareto import FRONT, frontier, pareto_chart
from lightspec_bench.reports.shades import ink_on, shade
from lightspec_bench.reports.styles import KNOWN
from lightspec_bench.reports.themes import THEMES, contrast, on_dark, theme_of
from lightspec_bench.reports.ticks import linear_ticks, log_ticks, tick_name
from lightspec_bench.reports.time_parts import PARTS, waterfall_chart
from tests.reports import tiny
from tests.reports.test_table import SWEEP

values = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=20)


def comparison() -> pd.DataFrame:
    return compare(tiny.summary(SWEEP))


@given(values)
def test_the_front_is_what_nothing_beats(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array([pair[place] for pair in pairs], dtype=np.float64) for place in (0, 1))
    front = frontier(x, y)
    beats = (x[:, None] >= x) & (y[:, None] >= y) & ((x[:, None] > x) | (y[:, None] > y))
    unbeaten = {pair for pair, beaten in zip(pairs, beats.any(axis=0), strict=True) if not beaten}
    assert {pairs[place] for place in front} == unbeaten
    assert len(front) == len(unbeaten)
    assert (np.diff(x[front]) > 0).all()


def test_unknown_points_are_on_no_front() -> None:
    assert frontier(np.array([1.0, np.nan, 3.0]), np.array([5.0, 9.0, np.nan])).tolist() == [0]


def test_the_oracle_is_drawn_but_not_on_the_front_and_gpus_share_the_throughput() -> None:
    cells = {(8, "none"): 100.0, (8, "static:k=1"): 160.0, (8, "oracle"): 300.0}
    ((panel,),) = pareto_chart(compare(tiny.summary(cells, tpot_mean_s=0.0625)), {"h200": 4}).rows
    lines = {line.name: (line.x.tolist(), line.y.tolist()) for line in panel.lines}
    assert lines["oracle"] == ([16.0], [75.0])
    assert lines[FRONT] == ([16.0], [40.0])
    assert panel.y.label == "output tokens/s per GPU"
    assert panel.lines[0].texts == ["static:k=1, 8 requests: 40.00 tok/s/GPU, 16.00 tok/s/user"]


def test_best_k_names_the_depths_that_are_level_with_it() -> None:
    cells = {(1, "none"): 100.0, (1, "static:k=1"): 149.5, (1, "static:k=2"): 150.0, (8, "none"): 100.0,
             (8, "static:k=1"): 90.0, (8, "static:k=2"): 80.0}  # fmt: skip
    frame = compare(tiny.summary(cells))
    found = best_k_frame(frame)[["concurrency", "best", "depth", "least", "most"]]
    assert found.values.tolist() == [[1, "static:k=2", 2, 1, 2], [8, "none", 0, 0, 0]]
    ((panel,),) = best_k_chart(frame).rows
    assert isinstance(panel, Squares)
    assert [(s.shade, s.label, s.below) for s in panel.squares[0]] == [
        (1.0, "K=2 (1–2)", "+50.0 %"),
        (0.0, "none", "0.0 %"),
    ]
    assert panel.squares[0][0].text == (
        "chat, 1 requests: best fixed setting K=2, +50.0 % against no speculation; depths 1 to 2 are within 1 %"
    )


@pytest.mark.parametrize(
    ("successes", "trials", "bounds"),
    [(0, 10, (0.0, 0.2775)), (5, 10, (0.2366, 0.7634)), (10, 10, (0.7225, 1.0)), (81, 263, (0.2553, 0.3662))],
)
def test_wilsons_interval(successes: int, trials: int, bounds: tuple[float, float]) -> None:
    assert wilson(successes, trials) == pytest.approx(bounds, abs=5e-5)


def test_without_a_trial_there_is_no_interval() -> None:
    assert all(np.isnan(bound) for bound in wilson(0, 0))


def test_repetitions_of_a_request_do_not_narrow_the_whiskers() -> None:
    once, often = (
        acceptance_chart(comparison().assign(num_requests=n, num_distinct_requests=3.0)).panels[0].bars[0]
        for n in (3.0, 12.0)
    )
    assert once.value == often.value
    assert often.high - often.low > once.high - once.low


def test_the_parts_of_a_step_add_up_to_it_and_stand_by_throughput() -> None:
    chart = waterfall_chart(comparison(), "static:k=0")
    assert list(chart.choices) == ["1 request", "64 requests"]
    (panel,) = chart.panels
    assert isinstance(panel, Stacks)
    assert panel.title == "chat · h200 · 64 requests"
    assert [stack.name for stack in panel.stacks] == ["none", "best static (no speculation)", "dspark", "static:k=0"]
    for stack in panel.stacks:
        assert sum(length for _, length, _ in stack.parts) == pytest.approx(1000 * 4.0 / 8)
    assert panel.stacks[0].parts[4][2] == "planner 12.5 ms, 2.5 % of the step; 25.0 ms in all, the rest hidden"
    assert [part[0] for part in panel.stacks[0].parts] == list(PARTS)


def test_a_chart_on_the_page_holds_every_point_and_what_it_says() -> None:
    html = chart_block(gain_chart(comparison()), "gain")
    lines = re.findall(r'data-name="([^"]*)" data-points="([^"]*)"', html)
    shown = {name: [point[3] for point in json.loads(unescape(points))] for name, points in lines}
    assert shown == {
        "K=0": ["-4.0 %", "-5.0 %"],
        "K=3": ["+50.0 %", "-25.0 %"],
        "dspark": ["+60.0 %", "-0.5 %"],
        "no speculation": ["0.0 %", "0.0 %"],
        "best-static": ["+50.0 %", "0.0 %"],
    }
    keys = re.findall(r'<button type=button class=key aria-pressed=true data-group="([^"]*)"', html)
    assert keys == ["none: no speculation", "best static K in hindsight", "dspark", "each static K"]
    assert set(re.findall(r'class="line[^>]*data-group="([^"]*)"', html)) == set(keys)


def test_a_point_that_is_drawn_higher_is_worth_more() -> None:
    html = chart_block(gain_chart(comparison()), "gain")
    points = json.loads(unescape(re.findall(r'data-name="dspark" data-points="([^"]*)"', html)[0]))
    assert points[0][0] < points[1][0]  # 1 request left of 64
    assert points[0][1] < points[1][1]  # +60 % above -0.5 %


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(3, 9))
def test_linear_ticks_are_few_even_and_inside(low: float, width: float, most: int) -> None:
    ticks = linear_ticks(low, low + width, most)
    assert len(ticks) <= most
    assert all(low - 1e-6 * width <= tick <= low + (1 + 1e-6) * width for tick in ticks)


@given(st.floats(1e-3, 1e6), st.floats(1.0, 1e6))
def test_log_ticks_are_inside(low: float, factor: float) -> None:
    assert all(low * (1 - 1e-8) <= tick <= low * factor * (1 + 1e-8) for tick in log_ticks(low, low * factor))


def test_ticks_as_they_are_written() -> None:
    assert linear_ticks(-52.0, 124.0, 6) == [-50.0, 0.0, 50.0, 100.0]
    assert log_ticks(90.0, 11_000.0) == [100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0]
    assert [tick_name(tick) for tick in (0.5, 100.0, 2000.0, 10_000.0)] == ["0.5", "100", "2,000", "10k"]


@given(st.sampled_from(sorted(style.colour for style in KNOWN.values())))
def test_colours_can_be_told_from_a_dark_page(colour: str) -> None:
    assert contrast(on_dark(colour, "#16171a", 4.5), "#16171a") >= 4.5


@given(st.floats(0.0, 1.0))
def test_ink_can_be_read_on_every_shade(value: float) -> None:
    assert contrast(ink_on(shade(value)), shade(value)) >= 4.5


def test_contrast_is_wcags() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_themes_change_background_size_and_resolution() -> None:
    chart = gain_chart(comparison())
    looks = {name: draw(chart, theme) for name, theme in THEMES.items()}
    assert {name: figure.dpi for name, figure in looks.items()} == {"default": 120, "paper": 300, "dark": 120}
    assert looks["dark"].get_facecolor()[:3] == pytest.approx((0x16 / 255, 0x17 / 255, 0x1A / 255))
    assert looks["paper"].get_figwidth() < looks["default"].get_figwidth()
    fonts = {name: figure.axes[0].xaxis.label.get_fontname() for name, figure in looks.items()}
    assert fonts == {"default": "DejaVu Sans", "paper": "STIXGeneral", "dark": "DejaVu Sans"}


def test_an_unknown_theme_is_named() -> None:
    with pytest.raises(BenchError, match="unknown theme 'papre', did you mean 'paper'"):
        theme_of("papre")
