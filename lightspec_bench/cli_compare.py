"""`compare`: two runs held against each other, as a gate for CI."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lightspec_bench.reports.regression import Regression

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")]


def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="Results folder of the run to hold against.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Results folder of the run in question.")],
    max_regression: Annotated[
        str | None,
        typer.Option("--max-regression", help="Exit code 1 where anything is slower by more, such as 2% or 0.02."),
    ] = None,
    planner: Annotated[
        list[str] | None, typer.Option("--planner", "-p", help="Compare these planners only; repeat it.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compare though traces, latency models or conditions differ.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--md", help="Print Markdown, for a job's summary.")] = False,
    json_output: Json = False,
) -> None:
    """Hold one run against another, cell by cell: better, worse, or no difference shown.

    Cells pair by trace, latency model, concurrency, planner and seed. Intervals are bootstraps over seeds (repeats of a
    measured run); a run without repeats has none. With `--max-regression` exit code 1 where a cell, or all together, is
    shown to be worse by more than the bound; a cell without an interval by its figure alone.

    Examples:

    - `lightspec-bench compare runs/main runs/mine`

    - `lightspec-bench compare runs/main runs/mine --max-regression 2% -p lightspec --json`
    """
    raise typer.Exit(compare_command(base, new, max_regression, planner or [], force, markdown, json_output))


def fraction_of(text: str) -> float:
    """`2%` or `0.02` as a fraction. Raises `BenchError` for anything else, as for a bare 2, which could be either."""
    from lightspec_bench.core import BenchError

    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / (100.0 if percent else 1.0)
    except ValueError:
        value = -1.0
    if rest.strip() or not 0.0 <= value < 1.0:
        raise BenchError(f"--max-regression is {text!r}, expected a share below 100 %, such as 2% or 0.02")
    return value


def compare_command(
    base: Path,
    new: Path,
    max_regression: str | None,
    planners: list[str],
    is_forced: bool,
    as_markdown: bool,
    json_output: bool,
) -> int:
    """Print the comparison; 1 where the gate failed, else 0."""
    from lightspec_bench.comparing import compare_folders, origin_of
    from lightspec_bench.reports.regression_words import failures, regression_markdown, sentences

    bound = None if max_regression is None else fraction_of(max_regression)
    compared = compare_folders(base, new, planners, is_forced)
    lines = [*sentences(compared.found, bound), *compared.warnings]
    failing = failures(compared.found, bound) if bound is not None else []
    if json_output:
        found = compared.found
        document = {
            "base": str(base),
            "new": str(new),
            "origin": origin_of(compared),
            "overall": found.overall.document(),
            "cells": [change.document() for change in found.changes],
            "only_base": list(found.only_base),
            "only_new": list(found.only_new),
            "max_regression": bound,
            "failing": [change.document() for change in failing],
            "passed": not failing,
            "sentences": lines,
        }
        print(json.dumps(document))
    elif as_markdown:
        print(regression_markdown(compared.found, origin_of(compared), lines), end="")
    else:
        _show(compared.found, origin_of(compared), lines)
    return int(bool(failing))


def _show(found: Regression, origin: str, lines: list[str]) -> None:
    from rich.console import Console

    from lightspec_bench.reports.regression_words import regression_tables

    console = Console() if sys.stdout.isatty() else Console(width=160)
    for table in regression_tables(found, origin):
        console.print(table)
    for line in lines:
        console.print(line, highlight=False, markup=False)
