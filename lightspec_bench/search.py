"""The search for planners' options: on one half of the requests, and what was found compared on the other half.

A trial's score is the geometric mean, over traces, latency models and concurrencies, of throughput against the
planner's default options on the same requests. The best of many trials is best by luck too, so its gain is measured
again: on requests and seeds that the search never saw.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from lightspec_bench.core import BenchError
from lightspec_bench.executor_process import ProcessExecutor
from lightspec_bench.experiment import MakeExecutor, run_suite, stored_cells
from lightspec_bench.inputs import load_inputs
from lightspec_bench.progress import Report
from lightspec_bench.registry import parse_spec
from lightspec_bench.reports.cells import NO_SPECULATION, is_static
from lightspec_bench.results import read_frames
from lightspec_bench.search_cells import Cells
from lightspec_bench.search_space import Spaces
from lightspec_bench.search_trials import Method, Study, Trial, load_optuna
from lightspec_bench.store import alone_in
from lightspec_bench.suite import Suite
from lightspec_bench.tune_evidence import Evidence, Place, Ratio

FINAL = "final"
SEARCHED, HELD_OUT = "1/2", "2/2"  # parts of each trace's requests


@dataclass(frozen=True, slots=True)
class Found:
    """What a planner's search came to: its best options, and their throughput on held-out requests against three
    references. `by_place` has the same per trace, latency model and concurrency."""

    planner: str
    best: Trial
    trials: Sequence[Trial]
    ratios: Mapping[str, Ratio]
    by_place: Mapping[Place, Mapping[str, Ratio]]
    origin: str

    @property
    def is_level(self) -> bool:
        """Whether no difference to the default options is shown."""
        return self.ratios["default"].is_level


def search(
    suite: Suite,
    spaces: Spaces,
    method: Method,
    num_trials: int,
    folder: Path,
    *,
    executor: MakeExecutor = ProcessExecutor,
    jobs: int | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> list[Found]:
    """Search each planner's space, `num_trials` trials each (a grid: all of it), and compare what was found.

    Raises `BenchError` where Optuna is missing, where there is nothing to search or nothing that runs, and where the
    folder cannot be used.
    """
    if method not in get_args(Method):
        raise BenchError(f"--search is {method!r}, expected one of {', '.join(get_args(Method))}")
    if not spaces:
        raise BenchError(f"--search {method}: suite {suite.name} gives no planner a range or a choice (docs/scale.md)")
    load_optuna()
    if folder.exists() and any(folder.iterdir()) and not resume:
        raise BenchError(f"{folder}: is not empty, expected a new folder, or --resume to go on with it")
    held_out = held_out_suite(suite)
    load_inputs(held_out)  # a trace that has no halves fails before the search
    searched = part_of(replace(suite, planners=tuple(spaces), every_static=False), SEARCHED)
    inputs = load_inputs(searched)
    with alone_in(folder), executor(inputs, folder, jobs) as workers:
        lengths = {name: inputs.trace(name).num_requests for name in suite.traces}
        cells = Cells(searched, inputs.digests, lengths, folder, workers)
        trials = {
            planner: Study(planner, space, method, num_trials, cells).run(jobs or os.cpu_count() or 1, report)
            for planner, space in spaces.items()
        }
    best = {planner: best_of(planner, found) for planner, found in trials.items()}
    planners = tuple(dict.fromkeys([*suite.planners, *spaces, *(trial.spec for trial in best.values())]))
    final = replace(held_out, planners=planners)

    def progress(done: int, total: int) -> None:
        if report:
            report("comparison", done, total, "")

    run_suite(final, folder / FINAL, jobs=jobs, resume=True, progress=progress, executor=executor)
    return _compared(final, folder / FINAL, best, trials)


def part_of(suite: Suite, part: str) -> Suite:
    """The suite on one part of each trace's requests, under the traces' names."""
    specs = {name: _with_part(suite.spec(name), part) for name in suite.traces}
    return replace(suite, specs={**suite.specs, **specs})


def held_out_suite(suite: Suite) -> Suite:
    """The other half of the requests, in the order of as many seeds that the search never used; with every static K."""
    first = max(suite.seeds) + 1
    seeds = tuple(range(first, first + len(suite.seeds)))
    return replace(part_of(suite, HELD_OUT), seeds=seeds, every_static=True)


def best_of(planner: str, trials: Sequence[Trial]) -> Trial:
    """The trial with the highest score on all of the searched requests; of equals the first."""
    whole = [trial for trial in trials if trial.state == "complete"]
    if not whole:
        reasons = "; ".join(dict.fromkeys(trial.reason for trial in trials if trial.reason))
        raise BenchError(f"--search: none of {len(trials)} trials of {planner} has a result: {reasons}")
    return max(whole, key=lambda trial: trial.scores[1.0])


def _compared(
    suite: Suite, folder: Path, best: Mapping[str, Trial], trials: Mapping[str, Sequence[Trial]]
) -> list[Found]:
    summary, requests, _ = read_frames(suite, stored_cells(suite, folder), folder)
    # A place is a trace under a latency model at a load: the two names go together where evidence asks for one.
    summary, requests = (frame.assign(trace=frame["trace"] + " · " + frame["latency"]) for frame in (summary, requests))
    evidence = Evidence(summary, requests)
    places = sorted({place for place, _ in evidence.rows})
    fixed = {p: _fastest_fixed(evidence, p) for p in places}
    found = []
    for planner, trial in best.items():
        references: dict[str, Any] = {"default": planner, NO_SPECULATION: NO_SPECULATION, "best-static": fixed}
        for one in (trial.spec, planner, NO_SPECULATION):
            if not evidence.has(one, places):
                raise BenchError(f"{folder}: {one} has no result somewhere, expected one in every cell")
        ratios = {name: evidence.ratio(trial.spec, reference, places) for name, reference in references.items()}
        by_place = {
            p: {name: evidence.ratio(trial.spec, reference, [p]) for name, reference in references.items()}
            for p in places
        }
        found.append(Found(planner, trial, trials[planner], ratios, by_place, evidence.origin))
    return found


def _fastest_fixed(evidence: Evidence, place: Place) -> str:
    """The best static K in hindsight, or no speculation where that is faster."""
    fixed = [p for at, p in evidence.rows if at == place and (p == NO_SPECULATION or is_static(p))]
    return evidence.fastest(fixed, [place])


def _with_part(spec: str, part: str) -> str:
    options = {} if os.path.exists(spec) else parse_spec(spec)[1]
    if "part" in options:
        raise BenchError(f"trace {spec}: part is {options['part']!r}, expected none: the search takes a half of it")
    return f"{spec}{',' if options else ':'}part={part}"
