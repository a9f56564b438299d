"""Selection: of many planners, the few that pictures draw; tables have them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lightspec_bench.reports.cells import GROUP, is_dynamic

MANY = 8  # dynamic planners, up to which all are drawn
NUM_BEST, NUM_WORST = 5, 2
REFERENCES = ("lightspec-reference", "schedule")  # the published planner this tool starts from, and what vLLM ships


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dynamic planners are drawn, best first; `sentence` says so where they are not all, else ""."""

    planners: tuple[str, ...]
    sentence: str = ""

    def of(self, comparison: pd.DataFrame) -> pd.DataFrame:
        """The comparison without the dynamic planners that are not drawn."""
        keep = [not is_dynamic(planner) or planner in self.planners for planner in comparison["planner"]]
        return comparison[keep]


def select(comparison: pd.DataFrame) -> Selection:
    """Every dynamic planner up to `MANY`; of more, the best, the worst and the references.

    They are ordered by the geometric mean of throughput / the fastest of its cell, over the cells a planner has.
    """
    ordered = _best_first(comparison)
    if len(ordered) <= MANY:
        return Selection(tuple(ordered))
    drawn = {*ordered[:NUM_BEST], *ordered[-NUM_WORST:], *REFERENCES}
    sentence = (
        f"Of {len(ordered)} dynamic planners the best {NUM_BEST} and the worst {NUM_WORST} over all cells are drawn"
        f"{_also(name for name in REFERENCES if name in ordered)}; tables and ranking have them all."
    )
    return Selection(tuple(name for name in ordered if name in drawn), sentence)


def are_many(comparison: pd.DataFrame) -> bool:
    """Whether there are more dynamic planners than fit into every picture."""
    return len(_best_first(comparison)) > MANY


def _also(references: Iterable[str]) -> str:
    shown = " and ".join(references)
    return f", and {shown}" if shown else ""


def _best_first(comparison: pd.DataFrame) -> list[str]:
    fastest = comparison.groupby(list(GROUP), sort=False)["throughput"].transform("max")
    logs = pd.Series(np.log((comparison["throughput"] / fastest).to_numpy()), index=comparison.index)
    scores = logs.groupby(comparison["planner"], sort=False).mean()
    dynamic = scores[[is_dynamic(str(planner)) for planner in scores.index]]
    return [str(planner) for planner in dynamic.sort_values(ascending=False, kind="stable").index]
