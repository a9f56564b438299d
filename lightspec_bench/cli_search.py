"""What `run --search` does: a bar on stderr, then the options found against three references, as table or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from lightspec_bench.cli_run import Place, results_folder, says_how_to_go_on, with_seeds
from lightspec_bench.core import BenchError
from lightspec_bench.files import write_atomically
from lightspec_bench.progress import Bars
from lightspec_bench.results import make_results
from lightspec_bench.search import FINAL, Found, search
from lightspec_bench.search_space import read_search
from lightspec_bench.search_trials import HALVINGS
from lightspec_bench.store import write_json
from lightspec_bench.tune_evidence import Ratio

NUM_TRIALS = 40
HEADS = ("over default options", "over no speculation", "over best static K")
HELD_OUT = (
    "Ratios are of requests and seeds that the search never saw: half of each trace was searched, the other half is "
    "compared, so that the best of many trials is not best by luck. Best static K is chosen in hindsight, on the "
    "compared half."
)


def search_command(
    suite_name: str,
    method: str | None,
    num_trials: int | None,
    out: Path | None,
    seeds: list[int] | None,
    place: Place,
    resume: bool,
    json_output: bool,
) -> int:
    """Search the suite's ranges, write `search.json`, `trials.csv` and the comparison's report, and show what came."""
    if method is None:
        raise BenchError(f"--trials is {num_trials}, expected --search bayes or random with it")
    if method == "grid" and num_trials is not None:
        raise BenchError(f"--trials is {num_trials}, expected none: a grid has as many trials as points")
    suite, spaces = read_search(suite_name)
    suite, folder = with_seeds(suite, seeds), results_folder(out, resume)
    with says_how_to_go_on(folder), Bars() as bars:
        found = search(
            suite,
            spaces,
            cast("Any", method),
            num_trials or NUM_TRIALS,
            folder,
            executor=place.make_executor,
            jobs=place.jobs,
            resume=resume,
            report=bars.report,
        )
    report = make_results(folder / FINAL)
    made = document(folder, method, found, report.notes)
    write_json(folder / "search.json", made)
    _write_trials(folder / "trials.csv", found)
    if json_output:
        print(json.dumps(made))
    else:
        _show(folder, found, report.notes)
    return 0


def document(folder: Path, method: str, found: Sequence[Found], notes: Sequence[str]) -> dict[str, Any]:
    """What was found, as JSON values."""
    return {
        "folder": str(folder),
        "search": method,
        "origin": found[0].origin,
        "held_out": HELD_OUT,
        "planners": [_entry(each) for each in found],
        "notes": list(notes),
    }


def _entry(found: Found) -> dict[str, Any]:
    states = [trial.state for trial in found.trials]
    return {
        "planner": found.planner,
        "best": found.best.spec,
        "options": dict(found.best.options),
        "no_difference_shown": found.is_level,
        "ratios": {name: ratio.document for name, ratio in found.ratios.items()},
        "cells": [
            {"trace_and_latency": trace, "concurrency": load, **{name: r.document for name, r in ratios.items()}}
            for (trace, load), ratios in found.by_place.items()
        ],
        "searched_half_ratio_to_default": found.best.scores[1.0],
        "num_trials": len(states),
        "num_pruned": states.count("pruned"),
        "num_failed": states.count("failed"),
    }


def _write_trials(path: Path, found: Sequence[Found]) -> None:
    """A row per trial: its options, its score on each fraction of the searched half, how it ended and why."""
    import pandas as pd

    rows = [
        {
            "planner": trial.planner,
            "options": json.dumps(trial.options),
            **{f"score_{fraction:g}": trial.scores.get(fraction) for fraction in HALVINGS.values()},
            "state": trial.state,
            "reason": trial.reason,
        }
        for each in found
        for trial in each.trials
    ]
    write_atomically(path, lambda temporary: pd.DataFrame(rows).to_csv(temporary, index=False))


def _show(folder: Path, found: Sequence[Found], notes: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console() if sys.stdout.isatty() else Console(width=160)
    table = Table(title=f"throughput of the best options found: {found[0].origin}")
    for head in ("planner", "best options", "trials (pruned)", *HEADS):
        table.add_column(head, justify="left" if head in ("planner", "best options") else "right")
    for each in found:
        options = ", ".join(f"{name}={value}" for name, value in each.best.options.items())
        pruned = sum(trial.state == "pruned" for trial in each.trials)
        table.add_row(each.planner, options, f"{len(each.trials)} ({pruned})", *map(_change, each.ratios.values()))
    console.print(table)
    level = [each.planner for each in found if each.is_level]
    if level:
        console.print(f"No difference to the default options is shown: {', '.join(level)}.", highlight=False)
    for sentence in (HELD_OUT, *notes, f"report: {folder / FINAL / 'report.html'}"):
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def _change(ratio: Ratio) -> str:
    """`+3.1 % [1.0, 5.2]`."""
    value, low, high = (100.0 * (each - 1.0) for each in (ratio.value, ratio.low, ratio.high))
    return f"{value:+.1f} %" if low != low else f"{value:+.1f} % [{low:+.1f}, {high:+.1f}]"
