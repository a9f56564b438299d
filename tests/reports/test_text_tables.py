"""Tables as Markdown, CSV and LaTeX."""

from __future__ import annotations

import io

import pandas as pd

from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.text_tables import as_csv, as_latex, as_markdown, latex_words, markdown_table
from tests.reports import tiny
from tests.reports.test_table import SWEEP, comparison


def test_markdown_has_a_table_per_place_with_the_origin_below() -> None:
    lines = as_markdown(comparison()).splitlines()
    assert lines[0] == "### chat · h200"
    assert lines[2].startswith("| requests | planner | tok/s | vs no spec. | vs best static K |")
    assert lines[3].startswith("| ---: | --- | ---: |")
    assert lines[4].startswith("| 1 | dspark | 160.0 | +60.0 % [56.0, 65.1] | +6.7 % |")
    assert lines[-1] == "Simulated from a recorded trace; latency: h200, modelled."
    assert not any("static:k=0" in line for line in lines)
    assert "static:k=0" in as_markdown(comparison(), all_static=True)


def test_what_markdown_would_read_is_escaped() -> None:
    assert markdown_table(["a|b", "c"], [["x_y", "`z`"]]) == "| a\\|b | c |\n| ---: | --- |\n| x\\_y | \\`z\\` |"


def test_csv_has_exact_numbers_and_their_origin() -> None:
    frame = compare(tiny.summary(SWEEP))
    read = pd.read_csv(io.StringIO(as_csv(frame, all_static=True)), keep_default_na=False, na_values=[""])
    assert read["throughput"].tolist() == frame["throughput"].tolist()
    assert read["planner"].tolist() == frame["planner"].tolist()
    assert set(read["origin"]) == {"simulated from a recorded trace"}


def test_latex_is_a_table_with_everything_escaped() -> None:
    text = as_latex(compare(tiny.summary({(1, "none"): 1.0, (1, "my_planner:k=1"): 2.0}, trace="50%_of {chat}")))
    assert text.startswith("\\begin{table}\n\\centering\n\\caption{50\\%\\_of \\{chat\\} \\textperiodcentered{} h200. ")
    assert "\\begin{tabular}{rl" in text
    assert "1 & my\\_planner:k=1 & 2.00 & +100.0 \\% & " in text
    assert text.endswith("\\bottomrule\n\\end{tabular}\n\\end{table}\n")
    assert latex_words("a\\b~c^d&e#f$") == r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\&e\#f\$"
