"""The page's ranking and its part per planner: well-formed, linked, escaped, and saying what the tables say."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from lightspec_bench.describe import Description, describe
from lightspec_bench.registry import Option
from lightspec_bench.reports.cells import CELL
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.figures import draw, grid
from lightspec_bench.reports.html_policies import anchors, policies_section, prose
from lightspec_bench.reports.html_ranking import ranking_section
from lightspec_bench.reports.ranking import OVERALL, rank, with_absent
from lightspec_bench.reports.ranking_chart import FLOOR, ranking_chart
from tests.reports import tiny
from tests.reports.test_report import Page
from tests.reports.test_table import SWEEP

NEEDY = "needy:note=<b>"
MINE = Description(
    name="dspark",
    target="mine.planners:DSpark",
    summary="Budgets from confidences.",
    rule="Budgets.\n\nThe budget maximises\n\n    tokens / T(B)\n\nOver `B` in\n- one\n- two,\n  again",
    module="My scheduler: one rule & no more.",
    confidence="lagged",
    requires=("confidence",),
    uses_drafter=True,
    reads_trace=False,
    options=(Option("rate", float, 0.5, False), Option("mode", str, None, True)),
    given={"mode": "fast"},
)


def comparison() -> pd.DataFrame:
    frames = [tiny.summary(SWEEP), tiny.summary(SWEEP, trace="code")]
    return compare(pd.concat(frames, ignore_index=True))


def ranking() -> pd.DataFrame:
    reason = f"{NEEDY} needs entropy, which trace chat does not have"
    rows = [("chat", "h200", 1, NEEDY, "skipped", reason)]
    return with_absent(rank(comparison()), pd.DataFrame(rows, columns=[*CELL, "status", "reason"]))


def cells_of(page: Page) -> list[list[str]]:
    return [[" ".join(cell.split()) for cell in row] for row in page.rows]


def test_the_ranking_has_a_table_over_all_and_one_per_trace() -> None:
    text = ranking_section(comparison(), ranking(), {"dspark": "planner-dspark"})
    page = Page(text)
    assert page.open == []
    assert re.findall(r"<summary>([^<]*)</summary>", text) == [OVERALL, "chat", "code", "chat", "code"]
    rows = cells_of(page)
    assert rows[0][:4] == ["planner", "place", "vs best static K", "vs no spec."]
    assert rows[1][:5] == ["dspark", "1", "+3.0 %", "+26.2 %", "-0.5 % chat · h200 · 64"]
    assert page.sources == ["#planner-dspark"] * 5  # in every table


def test_a_planner_without_a_result_is_in_the_table_with_the_reason() -> None:
    text = ranking_section(comparison(), ranking(), {})
    row = next(row for row in cells_of(Page(text)) if row[0] == NEEDY)
    assert row[1:4] == ["–", "–", "–"]
    assert row[-1] == f"1 {NEEDY} needs entropy, which trace chat does not have"
    assert "<b>" not in text


def test_the_matrix_shows_ratio_place_and_losses_of_every_cell() -> None:
    rows = cells_of(Page(ranking_section(comparison(), ranking(), {})))
    start = rows.index(["planner", "h200 1", "h200 64"])
    found = {row[0]: row[1:] for row in rows[start + 1 : start + 6]}
    assert found == {
        "dspark": ["+6.7 % #1", "-0.5 % #2"],
        "best static K (hindsight)": ["0.0 % K=3", "0.0 % no speculation"],
        "none": ["-33.3 % #3", "0.0 % #1"],
        "static:k=3": ["0.0 % #2", "-25.0 % #4"],
        "static:k=0": ["-36.0 % #4", "-5.0 % #3"],
    }


def test_losing_planners_are_named_per_cell() -> None:
    frame = compare(tiny.summary(SWEEP | {(64, "slow"): 1000.0}))
    words = " ".join(" ".join(Page(ranking_section(frame, with_absent(rank(frame), NONE), {})).words).split())
    assert "In 1 of 2 cells there is none." in words.replace("\xa0", " ")
    assert "chat · h200 · 64: 1 of 2 dynamic planners loses to no speculation: slow (-50.0 %)." in words.replace(
        "\xa0", " "
    )
    assert "-50.0 % #5 ✗" in [cell for row in cells_of(Page(ranking_section(frame, rank(frame), {}))) for cell in row]


NONE = pd.DataFrame(columns=[*CELL, "status", "reason"])


def test_a_planner_has_a_part_with_its_rule_options_needs_and_figures() -> None:
    text = policies_section([MINE], comparison(), ranking(), {"dspark": "planner-dspark"})
    page = Page(text)
    assert page.open == []
    assert "<details class=policy id=planner-dspark>" in text
    assert "<pre>    tokens / T(B)</pre>" in text
    assert "<ul><li>one</li><li>two, again</li></ul>" in text
    words = " ".join(" ".join(page.words).replace("\xa0", " ").split())
    assert "dspark My scheduler: one rule & no more." in words
    assert "Requires: confidence" in words
    assert "Confidences: reads those the pipeline has: one step old under lag" in words
    assert "place 1; vs best static K +3.0 %; vs no spec. +26.2 %; worst cell -0.5 % (chat · h200 · 64)" in words
    rows = cells_of(page)
    assert ["rate", "float", "0.5", ""] in rows
    assert ["mode", "str", "required", "'fast'"] in rows
    assert ["chat · h200", "+6.7 % +60.0 %", "-0.5 % -0.5 %"] in rows


def test_a_shipped_planner_that_ran_with_options_says_under_which_names() -> None:
    text = policies_section([describe("static")], comparison(), ranking(), {"static": "planner-static"})
    words = " ".join(" ".join(Page(text).words).split())
    assert "In this run as static:k=3 , static:k=0 ." in words
    missing = policies_section([describe("schedule")], comparison(), ranking(), {"schedule": "s"})
    assert "No result in this run." in missing


def test_anchors_are_plain_unique_and_shared_by_other_options() -> None:
    found = anchors(["static", "a:b=1", "a-b-1", "m:C:k=[1, 2]"], ["static:k=2", "none", "a:b=1"])
    assert found == {
        "static": "planner-static",
        "a:b=1": "planner-a-b-1",
        "a-b-1": "planner-a-b-1--2",
        "m:C:k=[1, 2]": "planner-m-c-k-1-2",
        "static:k=2": "planner-static",
    }


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("One\nsentence.", "<p>One sentence.</p>"),
        ("A < `b`.\n\n    x = 1\n    y\n\nC", "<p>A &lt; <code>b</code>.</p><pre>    x = 1\n    y</pre><p>C</p>"),
        ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("", ""),
    ],
)
def test_a_docstring_as_html(text: str, html: str) -> None:
    assert prose(text) == html


def test_the_picture_has_a_line_per_dynamic_planner_with_its_cells_and_mean() -> None:
    frame = compare(tiny.summary(SWEEP | {(1, "slow"): 40.0, (64, "slow"): 1900.0}))
    figure = draw(ranking_chart(frame, rank(frame)))
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["dspark  +3.0 %", "slow  -49.7 %"]
    drawn = [[round(float(x), 1) for x in line.get_xdata()] for line in axis.get_lines()]
    # of each planner cells, those that lose to no speculation, and the mean; then the line at no change
    assert drawn[:6] == [[6.7, -0.5], [], [3.0], [], [FLOOR, -5.0], [-49.7]]


def test_a_planner_of_some_cells_says_so_in_the_picture() -> None:
    frame = compare(tiny.summary({key: value for key, value in SWEEP.items() if key != (64, "dspark")}))
    (axis,) = draw(ranking_chart(frame, rank(frame))).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["dspark  +6.7 % (1 cell)"]


def test_text_is_laid_out_for_the_resolution_it_is_saved_in() -> None:
    assert grid(1, 1)[0].dpi == 120
