"""Terminal tables, whole: what a reader sees at 120 columns."""

from __future__ import annotations

import io
from collections.abc import Callable

import pandas as pd
import pytest
from rich.console import Console

from lightspec_bench.reports import columns
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.ranking import rank
from lightspec_bench.reports.table import ranking_table, tables
from tests.reports import tiny

SWEEP = {
    (1, "none"): 100.0, (1, "static:k=0"): 96.0, (1, "static:k=3"): 150.0, (1, "dspark"): 160.0,
    (64, "none"): 2000.0, (64, "static:k=0"): 1900.0, (64, "static:k=3"): 1500.0, (64, "dspark"): 1990.0,
}  # fmt: skip


def shown(comparison: pd.DataFrame, width: int = 120, all_static: bool = False) -> str:
    file = io.StringIO()
    console = Console(width=width, file=file, color_system=None)
    for table in tables(comparison, width, all_static):
        console.print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines() if line.strip())


def comparison() -> pd.DataFrame:
    """With bounds around the gains; those of no speculation against itself are a point."""
    frame = compare(tiny.summary(SWEEP))
    gain = frame["ratio_to_none"]
    return frame.assign(ratio_to_none_low=gain - 0.04 * (gain != 1), ratio_to_none_high=gain + 0.051 * (gain != 1))


def test_two_tables_at_120_columns() -> None:
    text = shown(comparison())
    assert text == EXPECTED
    assert max(map(len, text.splitlines())) <= 120


def test_a_static_planner_that_was_asked_for_is_not_folded() -> None:
    speed = tables(comparison(), named=("static:k=0",))[0]
    planners = [str(cell) for cell in speed.columns[1].cells]
    assert planners.count("static:k=0") == 2
    assert "static:k=3" not in planners


def test_every_static_k_on_request() -> None:
    text = shown(comparison(), all_static=True)
    assert text.count("static:k=0") == text.count("static:k=3") == 4
    assert "folded" not in text


def test_one_table_on_a_wide_terminal() -> None:
    text = shown(comparison(), width=220)
    assert text.count("dspark") == 2
    assert all(word in text for word in ("tok/s", "TPOT ms", "target", "drafts/"))


def test_a_planner_name_with_brackets_is_shown_as_it_is() -> None:
    name = "schedule:ranges=[[1,4,3]]"
    text = shown(compare(tiny.summary({(1, "none"): 1.0, (1, name): 2.0})), width=220)
    assert name in text


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (columns.count, 12345.6, "12,346"), (columns.count, 123.46, "123.5"), (columns.count, 1.239, "1.24"),
        (columns.gain, 1.2311, "+23.1 %"), (columns.gain, 0.96, "-4.0 %"), (columns.gain, 1.00001, "0.0 %"),
        (columns.gain, 0.99999, "0.0 %"), (columns.percent, 0.3333, "33.3 %"),
        (columns.milliseconds, 0.0000123, "0.012"), (columns.milliseconds, 0.00123, "1.23"),
        (columns.milliseconds, 0.0123, "12.3"), (columns.milliseconds, 0.123, "123"),
    ],
)  # fmt: skip
def test_numbers_as_shown(show: Callable[[float], str], value: float, text: str) -> None:
    assert show(value) == text


def test_the_ranking_is_a_line_per_planner_and_the_best_single_static_k() -> None:
    file = io.StringIO()
    frame = comparison()
    table = ranking_table(rank(frame), columns.origin_label(frame))
    Console(width=160, file=file, color_system=None).print(table)
    text = "\n".join(line.rstrip() for line in file.getvalue().splitlines() if line.strip())
    assert text == RANKING


RANKING = """\
Ranking
                                    vs best    vs no    worst  cells   cells  loses to   switches/
 place  planner                    static K    spec.     cell  ahead  behind  no spec.  1000 steps  cells
 ────────────────────────────────────────────────────────────────────────────────────────────────────────
     1  dspark                       +3.0 %  +26.2 %   -0.5 %      1       0         0       250.0      2
     –  best static K (hindsight)     0.0 %  +22.5 %    0.0 %      0       0         0       250.0      2
     2  static:k=3                  -13.4 %   +6.1 %  -25.0 %      0       1         1       250.0      2
     3  none                        -18.4 %    0.0 %  -33.3 %      0       1         0       250.0      2
Simulated from a recorded trace; latency: h200, modelled. Geometric means over all cells; of single static
K only the best is shown."""

EXPECTED = """\
chat · h200: speed
                                                       vs no   vs best  step  planner  TPOT ms  TPOT ms
 requests  planner                       tok/s         spec.  static K    ms       ms      p50      p99
 ──────────────────────────────────────────────────────────────────────────────────────────────────────
        1  dspark                        160.0       +60.0 %    +6.7 %   500     25.0      350      497
                                                [56.0, 65.1]
           best static (K=3)             150.0       +50.0 %     0.0 %   500     25.0      350      497
                                                [46.0, 55.1]
           none                          100.0         0.0 %   -33.3 %   500     25.0      350      497
       64  none                          2,000         0.0 %     0.0 %   500     25.0      350      497
           best static (no speculation)  2,000         0.0 %     0.0 %   500     25.0      350      497
           dspark                        1,990        -0.5 %    -0.5 %   500     25.0      350      497
                                                 [-4.5, 4.6]
Simulated from a recorded trace; latency: h200, modelled. Best static K: known only in hindsight. 4 rows
of static planners folded.
chat · h200: tokens
                                         accept  target  verify   draft  rows/  drafts/   switches/
 requests  planner                       length    eff.    acc.    acc.  token    token  1000 steps
 ──────────────────────────────────────────────────────────────────────────────────────────────────
        1  dspark                          2.00  77.8 %  60.0 %  50.0 %   1.29     0.86       250.0
           best static (K=3)               2.00  77.8 %  60.0 %  50.0 %   1.29     0.86       250.0
           none                            2.00  77.8 %  60.0 %  50.0 %   1.29     0.86       250.0
       64  none                            2.00  77.8 %  60.0 %  50.0 %   1.29     0.86       250.0
           best static (no speculation)    2.00  77.8 %  60.0 %  50.0 %   1.29     0.86       250.0
           dspark                          2.00  77.8 %  60.0 %  50.0 %   1.29     0.86       250.0
Simulated from a recorded trace; latency: h200, modelled. Best static K: known only in hindsight. 4
rows of static planners folded."""
