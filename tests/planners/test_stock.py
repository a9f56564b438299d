"""Stock: the planner inside wherever the runner is no engine with that rule, and K by batch size where it is one."""

from __future__ import annotations

import numpy as np
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.planners.stock import Stock
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.simulated import SimulatedRunner
from tests.planners.support import engine
from tests.support import config_for, random_trace


def test_depths_by_batch_size_are_those_of_the_rule_inside() -> None:
    stock = make_planner("stock:planner=(schedule:ranges=[[1,2,5],[4,9,1]])", engine(4))
    assert isinstance(stock, Stock)
    assert stock.depths is not None
    assert stock.depths[1:7].tolist() == [4, 4, 4, 1, 1, 1]  # K never exceeds D; size 3 takes the range below it
    fixed = make_planner("stock:planner=(static:k=2)", engine(4))
    assert set(fixed.depths.tolist()) == {2}  # type: ignore[attr-defined]
    assert make_planner("stock:planner=vllm-adaptive-verification", engine(4)).depths is None  # type: ignore[attr-defined]


def test_in_the_simulator_it_is_the_planner_inside() -> None:
    trace = random_trace(3)
    config = config_for(trace, 4)
    runs = [
        SimulatedRunner(trace, config, Load(4)).run(make_planner(spec, config))
        for spec in ("schedule:ranges=[[1,2,2],[3,9,1]]", "stock:planner=(schedule:ranges=[[1,2,2],[3,9,1]])")
    ]
    assert np.array_equal(runs[0].totals.outcomes, runs[1].totals.outcomes)


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        ("lightspec", "stock: planner is lightspec, expected static, schedule or vllm-adaptive-verification"),
        ("(schedule:ranges=[[1,9,1,100,3],[1,9,101,200,1]])", "looks at context lengths, expected batch sizes alone"),
    ],
)
def test_rules_that_no_engine_has_are_refused(planner: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        make_planner(f"stock:planner={planner}", engine(4))
