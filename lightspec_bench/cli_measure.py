"""What `run --runner torch` or `vllm` and `validate` do: real models run, and the simulator held against them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lightspec_bench.cli_run import progress_bar, show_results
from lightspec_bench.core import BenchError
from lightspec_bench.measured import MEASURING, Measured
from lightspec_bench.suite import STOCK, Suite, check_suite, measured_suite, read_suite

DEFAULT_PLANNERS = ("lightspec", "lightspec-reference", "dspark")


def asked_suite(
    suite_name: str | None,
    changes: dict[str, Any],
    concurrencies: str | None,
    planners: Sequence[str] | None,
    repeats: int | None,
    seeds: Sequence[int] | None,
    conditions: dict[str, Any],
    statics: bool | None,
) -> Suite:
    """The measured suite of a YAML file, of options, or of a file with options over it.

    `changes` are fields of `Measured` and `conditions` of `Conditions`; None leaves the file's or the default.
    """
    changes, conditions = ({k: v for k, v in each.items() if v is not None} for each in (changes, conditions))
    runner = changes.get("runner", "torch")
    if suite_name is None:
        for name in ("drafter", "prompts"):
            if name not in changes:
                raise BenchError(f"--runner {runner} needs --{name}, or a suite that names one")
        found = measured_suite(Measured(**({"target": "smollm2"} | changes)), (1, 8), DEFAULT_PLANNERS)
    else:
        found = read_suite(suite_name)
        if found.measured is None:
            raise BenchError(f"{suite_name}: is a simulated suite, expected one with runner: {runner}")
        if changes.setdefault("runner", found.measured.runner) != found.measured.runner:
            raise BenchError(f"{suite_name}: is a suite for runner {found.measured.runner}, expected --runner with it")
    assert found.measured is not None
    made = measured_suite(
        replace(found.measured, **changes),
        _numbers(concurrencies) if concurrencies else found.concurrencies,
        tuple(dict.fromkeys(planners)) if planners else tuple(p for p in found.planners if p not in STOCK),
        _seeds(repeats, seeds) or found.seeds,
        replace(found.conditions, **conditions),
        found.every_static if statics is None else statics,
        found.name,
    )
    check_suite(made, suite_name or f"--runner {runner}")
    return made


def _seeds(repeats: int | None, seeds: Sequence[int] | None) -> tuple[int, ...]:
    """A repeat is a seed: the order of the requests."""
    if repeats and seeds:
        raise BenchError("--repeats and --seed are given, expected one of them: a repeat is a seed")
    return tuple(range(repeats)) if repeats else tuple(dict.fromkeys(seeds or ()))


def only_simulated(given: dict[str, Any]) -> None:
    """Raise where an option of measured runs is given to a simulated one."""
    for name, value in given.items():
        if value is not None:
            option = name.replace("_", "-")
            raise BenchError(f"--{option} is for measured runs, expected --runner torch or vllm with it")


def never_measured(given: dict[str, Any]) -> None:
    """Raise where an option of simulated runs is given to a measured one."""
    for name, value in given.items():
        if value is not None:
            raise BenchError(f"--{name} is for simulated runs: measured cells run one after another")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise BenchError(f"--concurrency is {text!r}, expected numbers such as 1,8") from None


def is_measured(suite_name: str, runner: str | None) -> bool:
    """Whether a suite is for real models: as asked, else as its file says."""
    if runner not in (None, "simulated", *MEASURING):
        raise BenchError(f"--runner is {runner!r}, expected simulated, {' or '.join(MEASURING)}")
    return runner in MEASURING or (runner is None and Path(suite_name).is_file() and _says_so(suite_name))


def _says_so(suite_name: str) -> bool:
    from lightspec_bench.settings import read_yaml

    document = read_yaml(Path(suite_name))
    return isinstance(document, dict) and document.get("runner") in MEASURING


def measure_command(suite: Suite, out: Path | None, resume: bool, all_static: bool, json_output: bool) -> int:
    """Run a measured suite and report it; 1 when a planner failed in a cell, else 0."""
    from lightspec_bench.bench import open_bench
    from lightspec_bench.measure import check_outputs, fitted_to, run_measured
    from lightspec_bench.measure_latency import served_latencies, warm_up
    from lightspec_bench.results import make_results

    if resume and out is None:
        raise BenchError("--resume needs --out, the folder to go on with")
    folder = out or Path("runs") / datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    assert suite.measured is not None
    bench = open_bench(suite.measured, max(suite.concurrencies), suite.conditions.lag_steps)
    suite = fitted_to(suite, bench)
    for note in bench.notes:
        print(note, file=sys.stderr)
    with closing(bench.engine), progress_bar() as progress:
        try:
            outcomes = run_measured(
                suite,
                bench,
                folder,
                resume=resume,
                progress=progress,
                warm_up=warm_up,
                make_latencies=lambda bench, numbers: served_latencies(bench, numbers, folder),
            )
            check_outputs(suite, bench, folder)
        except KeyboardInterrupt:
            print(f"interrupted; finished cells are kept, go on with --out {folder} --resume", file=sys.stderr)
            raise
    show_results(folder, make_results(folder), all_static, json_output)
    return int(any(outcome.status == "failed" for outcome in outcomes))


def validate_command(folder: Path, trace: str | None, latency: str | None, json_output: bool) -> None:
    """Predicted against measured, printed and written to the run's folder."""
    from lightspec_bench.validation import validate_run

    found = validate_run(folder, trace, latency, _record)
    if json_output:
        print(json.dumps(_document(folder, found)))
        return
    from rich.console import Console

    from lightspec_bench.reports.validation_table import validation_table

    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(validation_table(found.frame))
    for sentence in (*found.lines, *found.notes):
        console.print(sentence, highlight=False, markup=False)
    console.print(f"page: {folder / 'validation.html'}", highlight=False, markup=False, soft_wrap=True)


def _document(folder: Path, found: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from lightspec_bench.reports.validation import METRICS, TARGETS, median_error

    frame = found.frame.astype(object).where(found.frame.notna(), None)
    held_out = found.frame[found.frame["held_out"]]
    parts = {"all": found.frame, "held_out": held_out}
    return {
        "folder": str(folder),
        "files": [str(path) for path in found.files],
        "cells": frame.to_dict(orient="records"),
        "median_errors": {
            name: {metric: _number(median_error(part, metric)) for metric in METRICS} for name, part in parts.items()
        },
        "targets": TARGETS,
        "agreement": [asdict(each) for each in found.agreements],
        "notes": found.notes,
    }


def _number(value: float) -> float | None:
    return None if value != value else value


def _record(suite: Suite, path: Path) -> str:
    """The trace of a measured run's own prompts, recorded with its own target and drafter."""
    from lightspec_bench.bench import needs_torch, prompt_choice
    from lightspec_bench.progress import Bars

    what = suite.measured
    assert what is not None
    with needs_torch("recording a trace", what.runner):
        from lightspec_bench.recording import RecordJob, record
    job = RecordJob(
        what.target,
        what.drafter,
        prompt_choice(what),
        path,
        what.max_tokens,
        what.max_draft_tokens,
        what.dtype,
        what.device,
        max(suite.concurrencies),
        resume=True,
        runner=what.runner,
        engine=what.engine,
    )
    with Bars() as bars:
        record(job, bars.report)
    return str(path)
