"""llama.cpp's p_min, n_min and n_max: defaults by version, the token below p_min, short drafts dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, EarlyExit, Plan
from lightspec_bench.early_exit import stopped_drafts
from lightspec_bench.planners.llamacpp import LlamaCpp, Version

from .support import batch, engine

CONFIDENCE = np.array([[0.95, 0.8, 0.6, 0.95, 0.95, 0.95]], dtype=np.float32)


@pytest.mark.parametrize(
    ("version", "n_max", "rule"),
    [
        ("v2024", 16, EarlyExit("confidence", 0.9, keep_last=True, drop_below=5)),
        ("v2025", 16, EarlyExit("confidence", 0.75, keep_last=True)),
        ("v2026", 3, EarlyExit("confidence", 0.0)),
    ],
)
def test_defaults_of_a_version(version: Version, n_max: int, rule: EarlyExit) -> None:
    assert LlamaCpp(engine(20), version).plan(batch([3, 0])) == Plan(n_max, 5, early_exit=rule)


def test_the_newest_version_is_the_default() -> None:
    assert LlamaCpp(engine(20)).plan(batch([0])) == LlamaCpp(engine(20), "v2026").plan(batch([0]))


@pytest.mark.parametrize(
    ("version", "options", "kept"),
    [
        ("v2024", {}, 0),  # two tokens, the second below 0.9: shorter than n_min
        ("v2024", {"n_min": 2}, 2),
        ("v2025", {}, 3),  # 0.6 stops it and stays
        ("v2026", {}, 3),
        ("v2026", {"n_max": 6}, 6),
        ("v2026", {"n_max": 6, "p_min": 0.75}, 2),  # 0.6 stops it and goes
        ("v2026", {"n_max": 6, "p_min": 0.75, "n_min": 3}, 0),
    ],
)
def test_where_a_draft_ends(version: Version, options: dict[str, Any], kept: int) -> None:
    planner = LlamaCpp(engine(6), version, **options)
    assert stopped_drafts(planner.rule, CONFIDENCE, np.array([planner.k]))[0].tolist() == [kept]


def test_a_short_drafter_cuts_n_max_and_n_min() -> None:
    planner = LlamaCpp(engine(2), "v2024")
    assert (planner.k, planner.rule.drop_below) == (2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": "2025"}, "llamacpp: version is '2025', expected one of v2024, v2025, v2026"),
        ({"n_max": 0}, "llamacpp: n_max is 0, expected at least 1"),
        ({"n_min": 4}, "llamacpp: n_min is 4, expected 0 to n_max, which is 3"),
        ({"n_min": -1}, "llamacpp: n_min is -1, expected 0 to n_max, which is 3"),
        ({"p_min": 2.0}, "llamacpp: p_min is 2.0, expected 0 to 1"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        LlamaCpp(engine(), **options)
    assert str(error.value) == message


def test_conformance() -> None:
    assert check_planner("llamacpp:version=v2024") == []
