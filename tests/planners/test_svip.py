"""SVIP: sqrt(0.15 H) > 0.3 ends a draft, which is H > 0.6 nats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, EarlyExit, Plan
from lightspec_bench.early_exit import stopped_drafts
from lightspec_bench.planners.svip import SVIP

from .support import batch, engine


def test_the_threshold_in_nats() -> None:
    rule = SVIP(engine(7)).rule
    assert rule == EarlyExit("entropy", rule.threshold, keep_last=True)
    assert rule.threshold == pytest.approx(0.6)
    assert SVIP(engine(7), threshold=0.6, coefficient=0.36).rule.threshold == pytest.approx(1.0)


def test_the_uncertain_token_is_kept() -> None:
    entropy = np.array([[0.5, 0.7, 0.1], [0.59, 0.59, 0.59], [0.61, 0.0, 0.0]], dtype=np.float32)
    kept, passes = stopped_drafts(SVIP(engine(3)).rule, entropy, np.array([3, 3, 3]))
    assert (kept.tolist(), passes.tolist()) == ([2, 3, 1], [2, 3, 1])


def test_the_plan_verifies_everything_and_the_cap_is_cut() -> None:
    planner = SVIP(engine(7))
    assert planner.plan(batch([2, 0])) == Plan(7, 4, early_exit=planner.rule)
    assert SVIP(engine(60)).k == 40
    assert SVIP(engine(60), k=None).k == 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": -0.1}, "svip: threshold is -0.1, expected at least 0"),
        ({"coefficient": 0.0}, "svip: coefficient is 0.0, expected above 0"),
        ({"k": 0}, "svip: k is 0, expected at least 1"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        SVIP(engine(), **options)
    assert str(error.value) == message


def test_conformance() -> None:
    assert SVIP.requires == {"entropy"}
    assert check_planner("svip") == []
