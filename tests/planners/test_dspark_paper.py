"""DSpark's own scheduler: Algorithm 1 and its early stop, production form, age and calibration."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, EngineConfig, Plan
from lightspec_bench.planners.dspark_paper import DSparkPaper

from .support import TableModel, batch, engine, step

STAIRS = {2: 1.0, 4: 1.1, 8: 10.0}
RISER = {2: 1.0, 3: 1.6, 8: 1.7}
SURE = batch([3, 3], 0, [[0.9] * 3] * 2)


def config(verify: dict[int, float], depth: int = 3, lag_steps: int = 0) -> EngineConfig:
    return engine(depth, "ngram", TableModel(verify), 2, lag_steps)


def rows(planner: DSparkPaper) -> int:
    """The budget for two requests that are sure of every token, seen for the second time."""
    planner.plan(SURE)
    plan = planner.plan(SURE)
    assert plan == Plan(3, plan.num_target_tokens)
    assert plan.num_target_tokens is not None
    return plan.num_target_tokens


def test_expected_tokens_per_second_of_each_budget() -> None:
    """.9, .9, .81, .81, .729, .729 over steps of 1, 1.1, 1.1, then 10 s."""
    survival = np.array([0.9, 0.81, 0.729] * 2)
    throughput = DSparkPaper(config(STAIRS)).throughput(survival, 2)
    assert throughput == pytest.approx([2, 2.9 / 1.1, 3.8 / 1.1, 0.461, 0.542, 0.6149, 0.6878])


@pytest.mark.parametrize(("form", "verify", "budget"), [
    ("algorithm-1", STAIRS, 4),
    ("production", STAIRS, 4),
    ("algorithm-1", RISER, 2),  # 2.9 / 1.6 is below 2 / 1: the first riser ends it
    ("production", RISER, 8),  # 6.878 / 1.7 lies beyond
])  # fmt: skip
def test_the_early_stop_does_not_get_over_a_riser(form: Any, verify: dict[int, float], budget: int) -> None:
    assert rows(DSparkPaper(config(verify), form=form)) == budget


def test_equal_budgets_take_fewer_rows() -> None:
    planner = DSparkPaper(config({2: 1.0, 3: 1.45, 8: 99.0}))
    assert rows(planner) == 2  # 2 / 1 = 2.9 / 1.45


def drive(form: Any, lag_steps: int) -> list[int]:
    """Budgets when the proposal verified at step t has confidence `shown[t]`; 2 rows cost 1 s, each more 0.2 s."""
    verify = {rows: 0.6 + 0.2 * rows for rows in range(2, 9)}
    planner = DSparkPaper(config(verify, lag_steps=lag_steps), form=form)
    shown, budgets = [np.nan, 0.01, 0.9, 0.01, 0.01, 0.9], []
    for t in range(len(shown)):
        seen = shown[t - lag_steps] if t >= lag_steps else np.nan
        budgets.append(planner.plan(batch([3 * (t > 0)] * 2, t, [[seen] * 3] * 2)).num_target_tokens)
    return budgets


def test_age_of_a_budget() -> None:
    """Production: a proposal verified at step t decides t + 1 under either lag. Algorithm 1: as fresh as is shown."""
    assert drive("production", 0) == drive("production", 1) == [2, 8, 2, 8, 2, 2]
    assert drive("algorithm-1", 0) == [2, 2, 8, 2, 2, 8]
    assert drive("algorithm-1", 1) == [2, 8, 2, 8, 2, 2]


def test_newcomers_have_no_candidates() -> None:
    planner = DSparkPaper(config({2: 1.0, 8: 1.1}))
    shown = batch([3, 0], 0, [[0.9] * 3, [np.nan] * 3])
    assert planner.plan(shown).num_target_tokens == 5


def test_calibration_learns_that_a_head_is_too_sure() -> None:
    """Confidences of .9 where nothing is accepted: at first all 8 rows, later none but the targets'."""
    planner = DSparkPaper(config({2: 1.0, 8: 3.0}), form="production", calibration="online")
    plain = DSparkPaper(config({2: 1.0, 8: 3.0}))
    miss = replace(step(Plan(3, 8), [3, 3], [3, 3], [0, 0]), confidence=SURE.confidence)
    for _ in range(100):
        planner.observe(miss)
        plain.observe(miss)
    assert (rows(planner), rows(plain)) == (2, 8)


def test_options_out_of_range() -> None:
    with pytest.raises(BenchError, match="dspark-paper: profile_context_tokens is -1, expected at least 0"):
        DSparkPaper(engine(), profile_context_tokens=-1)


@pytest.mark.parametrize("options", ["", ":form=algorithm-1", ":calibration=online"])
def test_it_is_a_sound_planner(options: str) -> None:
    assert check_planner(f"dspark-paper{options}") == []
