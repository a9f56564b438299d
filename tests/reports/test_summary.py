"""The summary: what to run, against no speculation and against what runs now, in one sentence."""

from __future__ import annotations

import pandas as pd
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.current import check_current
from lightspec_bench.reports.html_summary import summary_card
from lightspec_bench.reports.summary import Summary, summarise_loads
from lightspec_bench.reports.verdict import verdicts
from tests.reports import tiny

LOADS = {
    (1, "none"): 100.0, (1, "static:k=2"): 150.0, (1, "static:k=5"): 140.0, (1, "lightspec"): 155.0,
    (64, "none"): 2000.0, (64, "static:k=2"): 2100.0, (64, "static:k=5"): 1820.0, (64, "lightspec"): 2460.0,
}  # fmt: skip


def summary(
    cells: dict[tuple[int, str], float], current: str | None = None, bounds: tuple[float, float] | None = None
) -> Summary | None:
    frame = compare(tiny.summary(cells), current=current)
    if bounds:
        low, high = (frame["ratio_to_none"] + shift for shift in bounds)
        frame = frame.assign(ratio_to_none_low=low, ratio_to_none_high=high)
    return summarise_loads(frame, verdicts(frame)[0], current is not None)


def sentence(cells: dict[tuple[int, str], float], current: str | None = None) -> str:
    found = summary(cells, current)
    assert found
    return found.sentence


def test_a_sentence_for_whoever_has_to_decide() -> None:
    assert sentence(LOADS, "static:k=5") == (
        "At 64 concurrent requests, lightspec: +23.0 % over no speculation; your current K=5 loses 9.0 %; "
        "changing over: +35.2 %."
    )


def test_with_intervals() -> None:
    found = summary(LOADS, "static:k=5", (-0.05, 0.04))
    assert found
    assert found.sentence.startswith(
        "At 64 concurrent requests, lightspec: +23.0 % [18.0, 27.0] over no speculation; your current K=5 loses "
        "9.0 % [5.0, 14.0]; "
    )


def test_where_nobody_said_what_runs_now_the_deepest_k_stands_for_it() -> None:
    assert sentence(LOADS) == (
        "At 1 request, lightspec: +55.0 % over no speculation; a fixed K=5, the drafter's full depth, gains 40.0 %."
    )


def test_where_the_recommended_setting_loses_is_not_kept_quiet() -> None:
    cells = LOADS | {(256, "none"): 4000.0, (256, "static:k=2"): 3000.0, (256, "static:k=5"): 2000.0,
                     (256, "lightspec"): 3600.0}  # fmt: skip
    assert sentence(cells).endswith("; but at 256 concurrent requests lightspec loses 10.0 %.")


def test_where_planning_does_not_pay_the_simpler_setting_is_recommended() -> None:
    slower = {key: value * (0.5 if key[1] == "lightspec" else 1.0) for key, value in LOADS.items()}
    found = summary(slower, "static:k=2")
    assert found
    assert found.planner == "static:k=2"
    assert found.sentence == "At 1 request, K=2: +50.0 % over no speculation; that is what runs now."


def test_where_no_speculation_is_best_it_says_so() -> None:
    cells = {(64, "none"): 2000.0, (64, "static:k=5"): 1820.0, (64, "lightspec"): 1900.0}
    assert sentence(cells, "static:k=5") == (
        "At 64 concurrent requests, no speculation is fastest; your current K=5 loses 9.0 %; changing over: +9.9 %."
    )


def test_every_load_is_in_the_cards_table() -> None:
    frame = compare(tiny.summary(LOADS), current="static:k=5")
    card = summary_card(frame, verdicts(frame)[0], True)
    assert "lightspec at every load; current: K=5." in card
    assert card.count("<tr>") == 3
    assert "Simulated from a recorded trace; latency: h200, modelled." in card


def test_without_any_answer_there_is_a_card_all_the_same() -> None:
    frame = compare(tiny.summary({(1, "lightspec"): 1.0, (2, "oracle"): 2.0}))
    card = summary_card(frame, verdicts(frame)[0], False)
    assert "No answer." in card


def test_current_is_a_k_or_a_planner_that_ran() -> None:
    frame = pd.DataFrame({"planner": ["none", "static:k=5", "lightspec"]})
    assert [check_current(name, frame) for name in ("5", "none", "lightspec")] == ["static:k=5", "none", "lightspec"]
    with pytest.raises(BenchError, match="--current is '4', which this run does not have, expected one of none, 5, li"):
        check_current("4", frame)
