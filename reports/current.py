"""The current setting: what an engine runs today, which every recommendation is held against."""

from __future__ import annotations

import pandas as pd

from lightspec_bench.core import BenchError
from lightspec_bench.reports.cells import BEST_STATIC, static_depth
from lightspec_bench.reports.columns import short_static


def planner_of(current: str) -> str:
    """`5` -> `static:k=5`; a planner's name is kept."""
    return f"static:k={int(current)}" if current.isdecimal() else current


def deepest_static(planners: pd.Series) -> str | None:
    """The static planner with the largest K: what runs where nobody chose K; None where none ran."""
    depths = {str(planner): static_depth(str(planner)) for planner in planners}
    known = {planner: depth for planner, depth in depths.items() if depth is not None}
    return max(known, key=lambda planner: known[planner]) if known else None


def check_current(current: str, summary: pd.DataFrame) -> str:
    """The planner that `--current` means. Raises `BenchError` where it ran nowhere."""
    planner = planner_of(current)
    ran = [str(name) for name in summary["planner"].unique() if name != BEST_STATIC]
    if planner not in ran:
        shown = ", ".join(name.removeprefix("static:k=") for name in ran)
        raise BenchError(f"--current is {current!r}, which this run does not have, expected one of {shown}")
    return planner


def current_words(planner: str, is_given: bool) -> str:
    """`your current K=5`, or what stands for it where nobody said."""
    name = short_static(planner)
    return f"your current {name}" if is_given else f"a fixed {name}, the drafter's full depth,"
