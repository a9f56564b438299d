"""Would dynamic MTP pay: the answers in words, for each kind of outcome."""

from __future__ import annotations

import pandas as pd
import pytest

from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.html import overall
from lightspec_bench.reports.verdict import Verdict, verdicts
from tests.reports import tiny

Sweep = dict[tuple[int, str], float]
FIXED: Sweep = {
    (1, "none"): 100.0, (1, "static:k=1"): 130.0, (1, "static:k=7"): 200.0,
    (64, "none"): 2000.0, (64, "static:k=1"): 2100.0, (64, "static:k=7"): 1000.0,
}  # fmt: skip


def verdict(sweep: Sweep, bounds: dict[str, float] | None = None) -> Verdict:
    comparison = compare(tiny.summary(sweep))
    (answer,) = verdicts(comparison.assign(**(bounds or {})))
    return answer


def test_yes() -> None:
    found = verdict(FIXED | {(1, "dspark"): 190.0, (64, "dspark"): 2150.0})
    assert found.answer == "yes"
    assert found.text == (
        "Dynamic planning pays: dspark stands at +22.3 % against static K=1, the best single setting, over 2 loads "
        "(geometric mean). On chat with h200 at 1 request, dspark stands at +90.0 % against no speculation and "
        "-5.0 % against the best static K=7 (known only in hindsight). Against the best static K of each load it is "
        "ahead at 1, behind at 1 of 2 loads. Keeping static K=1 at every load costs most at 1 request: -35.0 % "
        "against the best setting there; dspark at its worst -5.0 %."
    )


def test_no() -> None:
    found = verdict(FIXED | {(1, "dspark"): 110.0, (64, "dspark"): 1900.0})
    assert found.answer == "no"
    assert found.headline == (
        "Dynamic planning does not pay: dspark stands at -12.5 % against static K=1, the best single setting, over 2 "
        "loads (geometric mean)."
    )


def test_no_speculation_can_be_the_best_single_setting() -> None:
    found = verdict({(64, "none"): 2000.0, (64, "static:k=1"): 1500.0, (64, "dspark"): 1900.0})
    assert found.text == (
        "Dynamic planning does not pay: dspark stands at -5.0 % against no speculation, the best single setting, at "
        "this load. On chat with h200 at 64 concurrent requests, dspark stands at -5.0 % against no speculation and "
        "-5.0 % against the best setting, no speculation (known only in hindsight). Against the best static K of each "
        "load it is behind at 1 of 1 load."
    )


def test_without_static_k_the_answer_is_against_no_speculation() -> None:
    found = verdict({(8, "none"): 100.0, (8, "dspark"): 138.0})
    assert found.text == (
        "Dynamic planning pays: dspark stands at +38.0 % against no speculation, the best single setting, at this "
        "load. On chat with h200 at 8 concurrent requests, dspark stands at +38.0 % against no speculation."
    )


def test_less_than_one_percent_is_a_tie() -> None:
    """vllm#48944 compares two schedules at +0.6 %."""
    found = verdict({(64, "none"): 90.0, (64, "static:k=1"): 100.0, (64, "schedule"): 100.6})
    assert (found.answer, found.headline) == (
        "tie",
        "Dynamic planning makes no difference: schedule is level with static K=1 at this load, +0.6 %.",
    )


@pytest.mark.parametrize(("low", "high", "answer"), [(0.99, 1.08, "tie"), (1.01, 1.07, "yes")])
def test_an_interval_decides_at_a_single_load(low: float, high: float, answer: str) -> None:
    bounds = {"ratio_to_best_static_low": low, "ratio_to_best_static_high": high}
    found = verdict({(64, "none"): 90.0, (64, "static:k=1"): 100.0, (64, "dspark"): 104.0}, bounds)
    assert found.answer == answer
    assert f"+4.0 % [{100 * (low - 1):.1f}, {100 * (high - 1):.1f}] against the best static K=1" in found.text.replace(
        "[+", "["
    )


def test_the_oracle_and_hindsight_never_answer() -> None:
    found = verdict(FIXED | {(1, "oracle"): 900.0, (64, "oracle"): 9000.0})
    assert (found.answer, found.text) == (
        "unknown",
        "On chat with h200: no dynamic planner ran at every load, so there is no answer.",
    )


def test_a_planner_that_missed_a_load_does_not_answer() -> None:
    found = verdict(FIXED | {(64, "dspark"): 9000.0, (1, "schedule"): 131.0, (64, "schedule"): 2100.0})
    assert "schedule" in found.headline
    assert "dspark" not in found.text


def test_one_sentence_over_all() -> None:
    frames = [
        tiny.summary({(1, "none"): 100.0, (1, "static:k=1"): 100.0, (1, "dspark"): value}, trace=trace)
        for trace, value in (("chat", 150.0), ("code", 100.0), ("maths", 80.0), ("prose", 160.0))
    ]
    assert overall(verdicts(compare(pd.concat(frames, ignore_index=True)))) == (
        "Dynamic planning pays in 2, makes no difference in 1, does not pay in 1 of 4 pairs of trace and latency "
        "model, measured against the best single setting for all loads; less than 1 % either way is called no "
        "difference."
    )
