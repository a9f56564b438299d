"""The report page and its folder: self-contained, well-formed, escaped, complete."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.reports.charts import Chart
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.html import report_page
from lightspec_bench.reports.ranking import rank
from lightspec_bench.reports.report import charts_of, write_report
from lightspec_bench.reports.timeline import Timeline
from tests.reports import tiny
from tests.reports.test_table import SWEEP, comparison

VOID = {"meta", "img", "input"}


class Page(HTMLParser):
    """Checks nesting and collects words, tables and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.sources: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        self.sources += [value or "" for name, value in attributes if name in ("src", "href")]

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass  # SVG's are closed in themselves

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] += f"{data} "


def page_of(frame: pd.DataFrame, charts: dict[str, Chart] | None = None) -> tuple[str, Page]:
    text = report_page(frame, charts or {}, {"suite": "<quick>"}, {"python": "3.11"}, ["dspark was skipped on <code>."])
    return text, Page(text)


def test_the_page_is_well_formed_and_needs_nothing_from_elsewhere() -> None:
    timeline = Timeline("chat", "h200", "modelled", 4, [("dspark", tiny.run())])
    charts = charts_of(comparison(), [timeline], True, rank(comparison()))
    text, page = page_of(comparison(), charts)
    assert page.open == []
    assert text.count("<figure") == len(charts) == 9
    assert all(source.startswith("#") for source in page.sources)
    assert not re.search(r"https?://|url\(|@import|<link|src=", text)


def test_the_page_says_the_answer_its_origin_and_what_was_skipped() -> None:
    _, page = page_of(comparison())
    words = " ".join("".join(page.words).replace("\xa0", " ").split())
    assert words.startswith("lightspec-bench: would dynamic MTP pay? Would dynamic MTP pay? Dynamic planning pays:")
    assert "Simulated from a recorded trace; latency: h200, modelled." in words
    assert "dspark was skipped on <code>." in words
    assert '"suite": "<quick>"' in words


def test_the_table_has_every_row_and_reads_like_the_terminal_one() -> None:
    _, page = page_of(comparison())
    rows = [[cell.strip() for cell in row] for row in page.rows][len({load for load, _ in SWEEP}) + 1 :]
    assert rows[0][:5] == ["planner", "requests", "tok/s", "vs no\nspec.", "vs best\nstatic K"]
    assert [row[:5] for row in rows[1:4]] == [
        ["dspark", "1", "160.0", "+60.0 % [56.0, 65.1]", "+6.7 %"],
        ["static:k=3", "1", "150.0", "+50.0 % [46.0, 55.1]", "0.0 %"],
        ["best static (K=3)", "1", "150.0", "+50.0 % [46.0, 55.1]", "0.0 %"],
    ]
    assert len(rows) == 1 + len(SWEEP) + 2


def test_names_are_escaped() -> None:
    hostile = "my:Planner:note=<script>alert(1)</script>&\"'"
    frame = compare(tiny.summary({(1, "none"): 1.0, (1, "static:k=1"): 1.0, (1, hostile): 2.0}, trace="<b>"))
    text, page = page_of(frame)
    assert "<script>alert" not in text
    assert "<b>" not in text
    assert page.open == []
    assert any(hostile in row[0] for row in page.rows)


def test_a_folder_gets_the_page_and_every_picture(tmp_path: Path) -> None:
    timeline = Timeline("chat", "h200", "modelled", 4, [("dspark", tiny.run())])
    paths = write_report(tmp_path, comparison(), [timeline], {"suite": "quick"}, {"python": "3.11"})
    charts = ["gain", "pareto", "best_k", "waterfall", "acceptance", "throughput", "verify_volume", "timeline_1"]
    names = ["report.html", *(f"{name}{kind}" for name in charts for kind in (".png", ".svg"))]
    assert [path.name for path in paths] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert {path.read_bytes()[:4] for path in paths[1::2]} == {b"\x89PNG"}
    assert {path.read_bytes()[:5] for path in paths[2::2]} == {b"<?xml"}
    assert re.findall(r'<figure class="chart[ a-z]*" id="(\w+)">', paths[0].read_text(encoding="utf-8")) == charts


def test_without_no_speculation_there_is_no_chart_of_the_gain() -> None:
    assert list(charts_of(compare(tiny.summary({(1, "static:k=1"): 1.0})))) == [
        "pareto", "best_k", "waterfall", "acceptance", "throughput", "verify_volume",
    ]  # fmt: skip


def test_a_bad_timeline_leaves_nothing_behind(tmp_path: Path) -> None:
    bad = Timeline("chat", "h200", "modelled", 4, [("dspark", tiny.run(steps=None))])
    with pytest.raises(BenchError):
        write_report(tmp_path, comparison(), [bad])
    assert list(tmp_path.iterdir()) == []
