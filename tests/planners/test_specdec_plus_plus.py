"""SpecDec++ with the drafter's confidence for its head: 1 - prod(confidence) > 0.3 ends a draft of two or more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, EarlyExit, Plan
from lightspec_bench.early_exit import stopped_drafts
from lightspec_bench.planners.specdec_plus_plus import SpecDecPlusPlus

from .support import batch, engine


def test_the_rule_at_its_defaults() -> None:
    planner = SpecDecPlusPlus(engine(4))
    rule = EarlyExit("product", 0.7, keep_last=True, min_draft_tokens=2)
    assert planner.plan(batch([4, 0])) == Plan(4, 6, early_exit=rule)
    assert SpecDecPlusPlus(engine(30)).k == 20


def test_where_drafts_end() -> None:
    """Products 0.9, 0.81, 0.648; 0.5 may not stop at one token, 0.45 does at two; 0.99 each never falls below 0.7."""
    confidence = np.array([[0.9, 0.9, 0.8, 0.9], [0.5, 0.9, 0.9, 0.9], [0.99, 0.99, 0.99, 0.99]], dtype=np.float32)
    kept, passes = stopped_drafts(SpecDecPlusPlus(engine(4)).rule, confidence, np.array([4, 4, 4]))
    assert (kept.tolist(), passes.tolist()) == ([3, 2, 4], [3, 2, 4])
    without = SpecDecPlusPlus(engine(4), keep_last=False).rule
    assert stopped_drafts(without, confidence, np.array([4, 4, 4]))[0].tolist() == [2, 2, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop_threshold": 1.1}, "specdec-plus-plus: stop_threshold is 1.1, expected 0 to 1"),
        ({"min_draft_tokens": -1}, "specdec-plus-plus: min_draft_tokens is -1, expected at least 0"),
        ({"k": 0}, "specdec-plus-plus: k is 0, expected at least 1"),
        (
            {"head": "trained"},
            "specdec-plus-plus: head is 'trained', expected 'confidence', the only approximation there is",
        ),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        SpecDecPlusPlus(engine(), **options)
    assert str(error.value) == message


def test_conformance() -> None:
    assert check_planner("specdec-plus-plus") == []
