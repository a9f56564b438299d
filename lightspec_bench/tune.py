"""Tune: search an engine's settings in the simulator, and choose the simplest that is level with the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lightspec_bench.cell_run import cached_trace
from lightspec_bench.core import BenchError, Trace
from lightspec_bench.experiment import run_suite, stored_cells
from lightspec_bench.latency_file import load_latency
from lightspec_bench.progress import Report
from lightspec_bench.reports.cells import NO_SPECULATION
from lightspec_bench.reports.export import check_engine
from lightspec_bench.reports.export_tensorrt_llm import ENGINE as TENSORRT_LLM, meaning_of
from lightspec_bench.results import read_frames
from lightspec_bench.suite import Suite, check_suite
from lightspec_bench.tune_depths import best_depth, between, holds, ranges_of, static
from lightspec_bench.tune_engines import Default, Drafting, adaptive_of, check_drafter, default_of, schedule_of
from lightspec_bench.tune_evidence import Evidence, first_level
from lightspec_bench.tune_task import Task

FEW_CELLS = 16  # up to these, starting processes takes longer than the cells


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    `depth_at` is the best K per load, refined ones included, `own_depth_at` the same per trace at the task's loads.
    `candidates` are the settings in the order in which they are preferred: no speculation, every static K, the
    schedule, adaptive options. `feasible` are the loads at which some setting keeps the bounds. `best` is None where
    there are none of these, `kept_at` the loads at which it keeps them. `skipped` are sentences on what did not run.
    """

    task: Task
    evidence: Evidence
    default: Default
    depth_at: dict[int, int]
    own_depth_at: dict[str, dict[int, int]]
    schedule: str | None
    candidates: tuple[str, ...]
    feasible: tuple[int, ...]
    best: str | None
    kept_at: tuple[int, ...]
    skipped: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def best_static(self) -> str:
        """The single K that is fastest over all loads that count, in hindsight; of equals the smallest. Where some keep
        the bounds wherever `best` does, it is one of them."""
        fixed = [planner for planner in self.candidates if planner.startswith("static:")]
        kept = [planner for planner in fixed if self.keeps(planner)]
        places = [(trace, load) for trace in self.task.traces for load in self.feasible or self.task.loads]
        return self.evidence.fastest(kept or fixed, places)

    def keeps(self, planner: str) -> bool:
        """Whether a planner keeps the bounds wherever `best` does."""
        places = [(trace, load) for trace in self.task.traces for load in self.kept_at]
        return all(holds(self.evidence, planner, place, self.task.bounds) for place in places)


def tune(task: Task, folder: Path, jobs: int, report: Report) -> Found:
    """Search in the simulator. `folder` takes the cells, `report(stage, done, total, said)` hears of progress.

    Raises `BenchError` for an unknown engine, trace or latency, a version that is missing or not understood, traces of
    different drafters, a latency model without a price of drafting, or a reference that cannot run.
    """
    check_engine(task.engine)
    if task.engine == TENSORRT_LLM:
        meaning_of(task.deployment.version)
    traces = [cached_trace(spec) for spec in task.traces]
    drafting, notes = check_traces(task, traces)
    check_drafter(task.engine, drafting)
    check_prices(task, drafting)
    default = default_of(task.engine, task.deployment, drafting)
    depths, search = range(drafting.most + 1), _Search(task, folder, jobs, report)
    given = [default.planner, *([task.current] if task.current else [])]
    search.run("static K", task.loads, [NO_SPECULATION, *map(static, depths), *given])
    search.must_have(NO_SPECULATION, *map(static, depths), *given)
    depth_at = search.depths(task.traces, depths)
    own = {trace: search.depths([trace], depths) for trace in task.traces}
    for _ in range(task.refine):
        tried = between(depth_at)
        if not tried:
            break
        wanted = range(min(map(min, tried.values())), max(map(max, tried.values())) + 1)
        search.run("where it changes", tuple(tried), list(map(static, wanted)))
        for load, allowed in tried.items():
            depth_at[load] = best_depth(search.evidence, task.traces, load, allowed, task.bounds)
    ranges = ranges_of(depth_at)
    schedule = schedule_of(task.engine, ranges, task.deployment, drafting)
    adaptive = adaptive_of(task.engine, ranges, task.deployment, drafting)
    asked = [*([schedule] if schedule else []), *adaptive]
    search.run("adaptive options", task.loads, asked)
    places = [(trace, load) for trace in task.traces for load in task.loads]
    ran = [planner for planner in asked if search.evidence.has(planner, places)]
    candidates = tuple(dict.fromkeys([NO_SPECULATION, *map(static, range(1, drafting.most + 1)), *ran]))
    feasible = tuple(load for load in task.loads if any(search.keeps(planner, load) for planner in candidates))
    best, kept_at = search.choose(candidates, feasible)
    return Found(
        task, search.evidence, default, depth_at, own, schedule, candidates, feasible, best, kept_at,
        tuple(search.skipped), tuple(notes),
    )  # fmt: skip


def check_traces(task: Task, traces: Sequence[Trace]) -> tuple[Drafting, list[str]]:
    """What the traces' one drafter is, and a note where they name it differently.

    Raises `BenchError` for traces whose drafters differ in kind or depth.
    """
    first = traces[0]
    for spec, trace in zip(task.traces, traces, strict=True):
        if (trace.info.drafter_kind, trace.max_draft_tokens) != (first.info.drafter_kind, first.max_draft_tokens):
            raise BenchError(
                f"{spec}: its drafter is {trace.info.drafter_kind} of {trace.max_draft_tokens} draft tokens, that of "
                f"{task.traces[0]} is {first.info.drafter_kind} of {first.max_draft_tokens}, expected one drafter"
            )
    names = sorted({trace.info.drafter for trace in traces})
    notes = [f"The traces name {len(names)} drafters, taken for one: {'; '.join(names)}."] if len(names) > 1 else []
    has_confidence = all(trace.confidence is not None for trace in traces)
    return Drafting(first.info, has_confidence), notes


def check_prices(task: Task, drafting: Drafting) -> None:
    """Raise `BenchError` where the latency model cannot price the drafter."""
    latency = load_latency(task.latency)
    if drafting.kind == "ngram":
        return
    try:
        latency.draft_pass_s(1, 1)
    except BenchError as error:
        raise BenchError(
            f"{task.latency}: prices no pass of a drafter, and {drafting.info.name} was made with one: expected a "
            "table with draft rows, or a drafter's line (docs/latency.md)"
        ) from error


class _Search:
    """Cells run so far, and what they say."""

    def __init__(self, task: Task, folder: Path, jobs: int, report: Report) -> None:
        self.task, self.folder, self.jobs, self.report = task, folder, jobs, report
        self.skipped: list[str] = []
        self.evidence: Evidence
        self._frames: list[tuple[pd.DataFrame, pd.DataFrame]] = []

    def run(self, stage: str, loads: Sequence[int], planners: Sequence[str]) -> None:
        """Run cells of every trace, and take them into the evidence."""
        task, places = self.task, [(trace, load) for trace in self.task.traces for load in loads]
        new = [p for p in dict.fromkeys(planners) if not self._frames or not self.evidence.has(p, places)]
        if not new:
            return
        suite = Suite(
            "tune", task.traces, (task.latency,), tuple(loads), tuple(new), task.seeds, every_static=False,
            conditions=task.conditions,
        )  # fmt: skip
        check_suite(suite, "tune")
        folder = self.folder / f"stage-{len(self._frames)}"
        few = len(places) * len(new) * len(task.seeds) <= FEW_CELLS

        def progress(done: int, total: int) -> None:
            self.report(stage, done, total, "")

        outcomes = run_suite(suite, folder, jobs=1 if few else self.jobs, resume=False, progress=progress)
        self.skipped += sorted({outcome.reason for outcome in outcomes if outcome.status != "done"})
        if any(outcome.status == "done" for outcome in outcomes):
            self._frames.append(read_frames(suite, stored_cells(suite, folder), folder)[:2])
            summaries, requests = zip(*self._frames, strict=True)
            self.evidence = Evidence(pd.concat(summaries, ignore_index=True), pd.concat(requests, ignore_index=True))

    def must_have(self, *planners: str) -> None:
        """Raise `BenchError` where a reference has no result somewhere."""
        places = [(trace, load) for trace in self.task.traces for load in self.task.loads]
        for planner in planners:
            if not self._frames or not self.evidence.has(planner, places):
                raise BenchError(f"tune: {planner} could not be run: {'; '.join(self.skipped)}")

    def depths(self, traces: Sequence[str], depths: Sequence[int]) -> dict[int, int]:
        """The best K of these traces at each of the task's loads."""
        bounds = self.task.bounds
        return {load: best_depth(self.evidence, traces, load, depths, bounds) for load in self.task.loads}

    def keeps(self, planner: str, load: int) -> bool:
        """Whether a planner keeps the bounds at a load on every trace."""
        return all(holds(self.evidence, planner, (trace, load), self.task.bounds) for trace in self.task.traces)

    def choose(self, candidates: Sequence[str], feasible: Sequence[int]) -> tuple[str | None, tuple[int, ...]]:
        """The setting to deploy, and the loads at which it keeps the bounds: of those that keep them at the most
        loads, the first that is level with the fastest."""
        if not feasible:
            return None, ()
        kept = {planner: tuple(load for load in feasible if self.keeps(planner, load)) for planner in candidates}
        most = max(map(len, kept.values()))
        places = [(trace, load) for trace in self.task.traces for load in feasible]
        best = first_level(self.evidence, [p for p in candidates if len(kept[p]) == most], places)
        return best, kept[best]
