"""Published figures beside ours: what is computed, what is shown, and that a claim nobody can check is an error."""

from __future__ import annotations

import io
from dataclasses import replace

import pandas as pd
import pytest
from rich.console import Console

from lightspec_bench.core import BenchError
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.html import report_page
from lightspec_bench.reports.html_published import published_section
from lightspec_bench.reports.published import (
    Changes,
    Claim,
    Figures,
    Group,
    Input,
    Published,
    Row,
    beside,
    cells,
    headings,
    latencies,
)
from lightspec_bench.reports.table import published_table
from tests.reports import tiny
from tests.reports.test_report import Page

CLAIM = Claim("chat", "static:k=2", target_efficiency_gain=0.4, throughput_ratio=1.5)
PUBLISHED = Published(
    name="Paper",
    source="a paper (2026)",
    claims=(CLAIM,),
    inputs=(Input("step costs", "a table", "modelled", "by `hand`"),),
    notes=("5 % of nothing & <more>.",),
)
EFFICIENCY = {"none": 1.0, "static:k=1": 0.8, "static:k=2": 0.5, "dspark": 0.625, "oracle": 1.0}


def comparison() -> pd.DataFrame:
    """Two latency models; best static is K=1 with the first and no speculation with the second."""
    first = {"none": 100.0, "static:k=1": 120.0, "static:k=2": 80.0, "dspark": 110.0, "oracle": 160.0}
    second = {"none": 300.0, "static:k=1": 240.0, "static:k=2": 160.0, "dspark": 200.0, "oracle": 400.0}
    frames = []
    for latency, throughput in (("slow host", first), ("fast host", second)):
        frame = tiny.summary({(8, planner): value for planner, value in throughput.items()}, latency=latency)
        efficiency = frame["planner"].map(EFFICIENCY)
        frames.append(frame.assign(target_efficiency=efficiency, verify_volume=1.0 / efficiency))
    return compare(pd.concat(frames, ignore_index=True))


def test_quoted_first_then_references_then_planners_then_bounds() -> None:
    (group,) = beside(comparison(), PUBLISHED)
    assert replace(group, rows=()) == Group("chat", 8, "static:k=2", ())
    assert [(row.planner, row.origin) for row in group.rows] == [
        ("Paper", "quoted"),
        ("static:k=2", tiny.ORIGIN),
        ("none", tiny.ORIGIN),
        ("best-static", tiny.ORIGIN),
        ("dspark", tiny.ORIGIN),
        ("oracle", tiny.ORIGIN),
    ]


def test_a_row_has_its_changes_at_every_latency_model() -> None:
    (group,) = beside(comparison(), PUBLISHED)
    assert group.rows[0] == Row("Paper", "quoted", quoted=Changes(0.4, None, 1.5))
    assert group.rows[4].at == {
        "slow host": Figures("dspark", 0.625, 1.6, 110.0, Changes(0.125, 1.25, 1.375)),
        "fast host": Figures("dspark", 0.625, 1.6, 200.0, Changes(0.125, 1.25, 1.25)),
    }


def test_the_text_of_a_group() -> None:
    groups = beside(comparison(), PUBLISHED)
    assert headings(groups) == [
        "planner", "origin", "target\neff.", "change", "rows/\ntoken", "times\nfewer",
        "tok/s\nslow host", "change", "tok/s\nfast host", "change",
    ]  # fmt: skip
    assert [cells(row, latencies(groups)) for row in groups[0].rows] == [
        ["Paper", "quoted", "", "+40 points", "", "", "", "+50.0 %", "", ""],
        ["static:k=2", "simulated", "50.0 %", "+0 points", "2.00", "1.0x", "80.00", "0.0 %", "160.0", "0.0 %"],
        ["none", "simulated", "100.0 %", "+50 points", "1.00", "2.0x", "100.0", "+25.0 %", "300.0", "+87.5 %"],
        [
            "best static (K=1)", "simulated", "80.0 %", "+30 points", "1.25", "1.6x", "120.0", "+50.0 %",
            "300.0 (none)", "+87.5 %",
        ],
        ["dspark", "simulated", "62.5 %", "+12 points", "1.60", "1.2x", "110.0", "+37.5 %", "200.0", "+25.0 %"],
        ["oracle", "simulated", "100.0 %", "+50 points", "1.00", "2.0x", "160.0", "+100.0 %", "400.0", "+150.0 %"],
    ]  # fmt: skip


def test_a_claim_without_figures_only_names_what_changes_are_against() -> None:
    (group,) = beside(comparison(), replace(PUBLISHED, claims=(Claim("chat", "static:k=1"),)))
    assert [row.planner for row in group.rows] == ["static:k=1", "none", "best-static", "dspark", "oracle"]


def test_a_planner_that_ran_at_one_latency_model_only_leaves_the_other_empty() -> None:
    frame = comparison()
    groups = beside(frame[(frame["latency"] == "slow host") | (frame["planner"] != "dspark")], PUBLISHED)
    row = next(row for row in groups[0].rows if row.planner == "dspark")
    assert cells(row, latencies(groups))[-4:] == ["110.0", "+37.5 %", "", ""]


@pytest.mark.parametrize("claim", [Claim("code", "static:k=2"), Claim("chat", "static:k=7")])
def test_a_claim_that_nothing_was_run_for(claim: Claim) -> None:
    with pytest.raises(BenchError, match=f"published: no run of '{claim.against}' on trace '{claim.trace}'"):
        beside(comparison(), replace(PUBLISHED, claims=(claim,)))


def test_an_input_says_where_it_is_from() -> None:
    with pytest.raises(BenchError, match="input 'host': origin is 'guessed', expected one of published, modelled"):
        Input("host", "10 ms", "guessed", "")


def test_the_section_of_the_page_has_table_notes_and_inputs() -> None:
    frame = comparison()
    text = report_page(frame, {}, {}, {}, first=published_section(frame, PUBLISHED))
    page = Page(text)
    assert page.open == []
    rows = [[cell.strip() for cell in row] for row in page.rows]
    assert rows[1] == ["chat · 8 requests, against static:k=2"]
    assert rows[2][:4] == ["Paper", "quoted", "", "+40 points"]
    assert ["step costs", "a table", "modelled", "by  hand"] in rows
    words = " ".join("".join(page.words).replace("\xa0", " ").split())
    assert "Quoted: a paper (2026). Simulated from a recorded trace; latency: slow host, modelled" in words
    assert "5 % of nothing & <more>." in words
    assert text.index("<section id=beside-the-published-figures>") < text.index("<section id=summary>")


def test_the_terminal_table() -> None:
    file = io.StringIO()
    Console(width=140, file=file, color_system=None).print(published_table(comparison(), PUBLISHED))
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    shown = {line.split("  ")[0].strip(): line.split() for line in lines if line.strip()}
    assert lines[0] == "Paper"
    assert shown["dspark"] == [
        "dspark", "simulated", "62.5", "%", "+12", "points", "1.60", "1.2x", "110.0", "+37.5", "%", "200.0", "+25.0",
        "%",
    ]  # fmt: skip
    assert "chat · 8 requests, against static:k=2" in shown
