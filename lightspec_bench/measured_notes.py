"""Notes of a measured run: whether every planner put out what the target alone does, and what repeats say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lightspec_bench.core import Run
from lightspec_bench.files import write_atomically
from lightspec_bench.reports.repeats import repeat_lines, repeats_frame
from lightspec_bench.suite import Cell, Suite
from lightspec_bench.ties import CLOSE, compared_outputs, read_ties


@dataclass(frozen=True, slots=True)
class Sameness:
    """Outputs compared with those of no speculation in the same repeat at the same concurrency."""

    num_compared: int
    num_different: int
    planners: tuple[str, ...]  # that have any different output


def sameness(folder: Path, cells: Sequence[Cell]) -> Sameness:
    """Compare, request by request, the stored outputs of every cell with no speculation's."""
    compared, different, planners = 0, 0, dict[str, None]()
    for cell, outputs, reference in compared_outputs(folder, cells):
        wrong = sum(tokens != reference.get(name) for name, tokens in outputs.items())
        compared, different = compared + len(outputs), different + wrong
        if wrong:
            planners[cell.planner] = None
    return Sameness(compared, different, tuple(planners))


def measured_notes(folder: Path, suite: Suite, runs: Sequence[tuple[Cell, Run]], summary: pd.DataFrame) -> list[str]:
    """Sentences for the report; writes `repeats.csv`."""
    frame = repeats_frame(summary)
    write_atomically(folder / "repeats.csv", lambda path: frame.to_csv(path, index=False))
    return [_sameness_line(folder, suite, [cell for cell, _ in runs]), *_told(runs), *repeat_lines(frame)]


def _sameness_line(folder: Path, suite: Suite, cells: Sequence[Cell]) -> str:
    found = sameness(folder, cells)
    dtype = suite.measured.dtype if suite.measured else ""
    if not found.num_compared:
        return "Outputs were not compared with no speculation, which did not run."
    if not found.num_different:
        return f"All {found.num_compared} outputs are identical to no speculation's (greedy, {dtype})."
    why = (
        "" if dtype == "float32" else f": {dtype} results depend on how many rows are computed together, near-ties flip"
    )
    return (
        f"{found.num_different} of {found.num_compared} outputs differ from no speculation's (greedy, {dtype}{why}); "
        f"in {', '.join(found.planners)}.{_ties(folder, dtype)}"
    )


def _ties(folder: Path, dtype: str) -> str:
    """How many of the differences begin at a tie, where the engine was asked."""
    found = read_ties(folder, dtype)
    if found is None:
        return ""
    known = [step for step in found.steps if step == step]
    apart = f", all at most {max(known):.1f} apart" if len(known) == found.num_partings else ""
    return (
        f" {found.num_ties} of {found.num_partings} begin where the target's logits of the two tokens are within "
        f"{CLOSE:.0f} steps of {dtype} (ties){apart}."
    )


def _told(runs: Sequence[tuple[Cell, Run]]) -> list[str]:
    """Which latency tables the planners were told."""
    told = [run.settings["planners_were_told"] for _, run in runs]
    found = dict.fromkeys(f"{each['name']} ({each['origin']}, {each['source']})" for each in told)
    return [f"Planners were told the latency of {'; '.join(found)}."]
