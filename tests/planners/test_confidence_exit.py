"""Fixed confidence threshold: the rule of each scope, and where it ends drafts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, EarlyExit, Plan
from lightspec_bench.early_exit import Scope, stopped_drafts
from lightspec_bench.planners.confidence_exit import ConfidenceExit

from .support import batch, engine

CONFIDENCE = np.array([[0.3, 0.9, 0.9, 0.9], [0.9, 0.9, 0.3, 0.9]], dtype=np.float32)


def test_the_plan_verifies_everything_and_drafts_to_d() -> None:
    planner = ConfidenceExit(engine(4))
    assert planner.plan(batch([4, 1, 0])) == Plan(4, 8, early_exit=EarlyExit("confidence", 0.4))
    assert planner.plan(batch([])) == Plan(4, 0, early_exit=EarlyExit("confidence", 0.4))


@pytest.mark.parametrize(
    ("scope", "rule"),
    [
        ("request", EarlyExit("confidence", 0.4)),
        ("mean", EarlyExit("confidence", 0.4, keep_last=True, scope="mean", min_draft_tokens=2)),
        ("all", EarlyExit("confidence", 0.4, scope="all", min_draft_tokens=1)),
    ],
)
def test_each_scope_has_the_rule_of_its_source(scope: Scope, rule: EarlyExit) -> None:
    assert ConfidenceExit(engine(4), scope=scope).rule == rule


@pytest.mark.parametrize(
    ("scope", "threshold", "kept", "passes"),
    [
        ("request", 0.5, [0, 2], [1, 3]),
        ("mean", 0.7, [3, 3], [3, 3]),  # means 0.6, 0.9, 0.6: the first may not stop a draft of one token
        ("all", 0.5, [2, 2], [3, 3]),  # the second is alive until its third token
    ],
)
def test_where_drafts_end(scope: Scope, threshold: float, kept: list[int], passes: list[int]) -> None:
    rule = ConfidenceExit(engine(4), threshold, scope).rule
    ended = stopped_drafts(rule, CONFIDENCE, np.array([4, 4]))
    assert [e.tolist() for e in ended] == [kept, passes]


def test_all_dead_at_once_still_leaves_one_token() -> None:
    rule = ConfidenceExit(engine(4), 0.95, "all").rule
    assert stopped_drafts(rule, CONFIDENCE, np.array([4, 4]))[0].tolist() == [1, 1]


def test_options_override_the_source() -> None:
    planner = ConfidenceExit(engine(4), 0.8, "mean", k=3, keep_last=False, min_draft_tokens=0)
    assert planner.plan(batch([1])) == Plan(3, 2, early_exit=EarlyExit("confidence", 0.8, scope="mean"))
    assert ConfidenceExit(engine(4), k=9).k == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 1.5}, "confidence-exit: threshold is 1.5, expected 0 to 1"),
        ({"threshold": float("nan")}, "confidence-exit: threshold is nan, expected 0 to 1"),
        ({"scope": "any"}, "confidence-exit: scope is 'any', expected one of request, mean, all"),
        ({"k": 0}, "confidence-exit: k is 0, expected at least 1"),
        ({"min_draft_tokens": -1}, "confidence-exit: min_draft_tokens is -1, expected at least 0"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        ConfidenceExit(engine(), **options)
    assert str(error.value) == message


def test_conformance() -> None:
    assert check_planner("confidence-exit:scope=all") == []
