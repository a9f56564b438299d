"""Notes of a measured run: whether every planner put out what the target alone does, and what repeats say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lightspec_bench.core import Run
from lightspec_bench.files import write_atomically
from lightspec_bench.measure import OUTPUTS
from lightspec_bench.reports.cells import NO_SPECULATION
from lightspec_bench.reports.repeats import repeat_lines, repeats_frame
from lightspec_bench.store import read_json
from lightspec_bench.suite import Cell, Suite


@dataclass(frozen=True, slots=True)
class Sameness:
    """Outputs compared with those of no speculation in the same repeat at the same concurrency."""

    num_compared: int
    num_different: int
    planners: tuple[str, ...]  # that have any different output


def sameness(folder: Path, cells: Sequence[Cell]) -> Sameness:
    """Compare, request by request, the stored outputs of every cell with no speculation's."""
    found = {cell: path for cell in cells if (path := folder / OUTPUTS / f"{cell.key}.json").exists()}
    plain = {
        (cell.concurrency, cell.seed): read_json(path) for cell, path in found.items() if cell.planner == NO_SPECULATION
    }
    compared, different, planners = 0, 0, dict[str, None]()
    for cell, path in found.items():
        reference = plain.get((cell.concurrency, cell.seed))
        if cell.planner == NO_SPECULATION or reference is None:
            continue
        outputs = read_json(path)
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
        f"in {', '.join(found.planners)}."
    )


def _told(runs: Sequence[tuple[Cell, Run]]) -> list[str]:
    """Which latency tables the planners were told."""
    told = [run.settings["planners_were_told"] for _, run in runs]
    found = dict.fromkeys(f"{each['name']} ({each['origin']}, {each['source']})" for each in told)
    return [f"Planners were told the latency of {'; '.join(found)}."]
