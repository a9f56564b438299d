"""AdaEDL: 1 - sqrt(0.2 H) < lambda ends a draft, which is H > (1 - lambda)^2 / 0.2; lambda as in Draft & Verify."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.early_exit import stopped_drafts
from lightspec_bench.planners.adaedl import AdaEDL

from .driven import batch_of, outcome
from .support import batch, engine


def nats(planner: AdaEDL, request_id: list[int]) -> list[float]:
    rule = planner.plan(batch_of(request_id)).early_exit
    assert rule is not None
    return list(np.asarray(rule.threshold).tolist())


def test_the_first_plan() -> None:
    """0.25 / 0.2 = 1.25 nats."""
    planner = AdaEDL(engine(5))
    made = planner.plan(batch([5, 0]))
    rule = made.early_exit
    assert rule is not None
    assert made == Plan(5, 7, early_exit=rule)
    assert (rule.signal, rule.keep_last, rule.threshold.tolist()) == ("entropy", False, [1.25, 1.25])
    entropy = np.array([[1.2, 1.3, 0.1, 0.1, 0.1], [1.3, 0.1, 0.1, 0.1, 0.1]], dtype=np.float32)
    assert stopped_drafts(rule, entropy, np.array([5, 5]))[0].tolist() == [1, 0]


def test_other_thresholds_in_nats() -> None:
    assert nats(AdaEDL(engine(), threshold=0.2, gamma=0.16), [1]) == pytest.approx([4.0])
    assert nats(AdaEDL(engine(), threshold=1.0), [1]) == [0.0]


def test_lambda_rises_where_drafts_fail_and_falls_where_they_hold() -> None:
    """A miss: lambda 0.5 + 0.1 0.01 = 0.501. Target 0.4 and 4 of 4 of at most 5: m = 0.5, lambda 0.499."""
    planner = AdaEDL(engine(5), target=0.4)
    planner.observe(outcome([1, 2], [4, 4], [0, 4]))
    assert nats(planner, [1, 2, 3]) == pytest.approx([0.499**2 / 0.2, 0.501**2 / 0.2, 1.25])
    planner.observe(outcome([2], [5], [5], index=1))  # full length: stays; and 1 has left
    assert nats(planner, [1, 2]) == pytest.approx([1.25, 0.501**2 / 0.2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.0}, "adaedl: gamma is 0.0, expected above 0"),
        ({"threshold": -0.1}, "adaedl: threshold is -0.1, expected 0 to 1"),
        ({"target": 2.0}, "adaedl: target is 2.0, expected 0 to 1"),
        ({"k": 0}, "adaedl: k is 0, expected at least 1"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        AdaEDL(engine(), **options)
    assert str(error.value) == message


def test_conformance() -> None:
    assert AdaEDL.requires == {"entropy"}
    assert check_planner("adaedl") == []
