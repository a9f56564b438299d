"""A latency table from served steps of vLLM: whole steps of its engine under a planner that sweeps their shapes.

Nothing is timed on its own: every row, request and context is priced by steps that an engine really served, its host
time with them. Prompts repeat a few random tokens, so that even a drafter that looks text up has something to propose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lightspec_bench import __version__
from lightspec_bench.core import Batch, BenchError, Columns, ConfidenceAge, EngineConfig, Plan, Planner, Step
from lightspec_bench.latency import AffineCurve, LinearLatency
from lightspec_bench.latency_file import write_latency_csv
from lightspec_bench.latency_format import Point
from lightspec_bench.measured import json_object
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.profiling import with_context_costs
from lightspec_bench.profiling_fit import host_terms
from lightspec_bench.progress import Report
from lightspec_bench.runners.requests import Request, Sending
from lightspec_bench.runners.torch_device import named_device
from lightspec_bench.runners.torch_targets import title
from lightspec_bench.runners.vllm_bench import VllmBench, VllmSettings
from lightspec_bench.runners.vllm_launch import model_config
from lightspec_bench.served import draft_line, joined, target_points

REQUESTS = (1, 4, 8, 32)
CONTEXTS = (64, 512)
_PERIOD = 12  # tokens after which a prompt repeats itself
_FRACTIONS = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)  # of what is pending, verified in turn
_LOST = 3  # first steps of a run that are left out


@dataclass(frozen=True, slots=True)
class ServedProfileJob:
    """`requests` at once and prompts of `contexts` tokens; about `num_steps` steps of each pair."""

    out: Path
    target: str = "smollm2"
    drafter: str | None = None
    max_draft_tokens: int | None = None
    requests: tuple[int, ...] = REQUESTS
    contexts: tuple[int, ...] = CONTEXTS
    num_steps: int = 48
    dtype: str = "float32"
    device: str = "cpu"
    engine: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        for name in ("requests", "contexts"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise BenchError(f"{name} is {getattr(self, name)}, expected numbers from 1 up")
        if self.num_steps <= 2 * _LOST:
            raise BenchError(f"steps is {self.num_steps}, expected more than {2 * _LOST}")


@dataclass(frozen=True, slots=True)
class ServedRun:
    """Whole steps of one run: all its requests decode, and no prompt is read."""

    requests: int
    context: int
    drafts: bool
    steps: Columns


@dataclass(frozen=True, slots=True)
class ServedProfile:
    """A written table, and the runs behind it."""

    header: dict[str, str]
    points: list[Point]
    runs: list[ServedRun]


class Sweep:
    """Verifies a growing part of what is pending, and drafts to the full depth, half of it, one token or none."""

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig) -> None:
        full = config.max_draft_tokens
        self._depths = (full, full, full, (full + 1) // 2, full, full, full, 1, full, full, full, 0)
        self._step = 0

    def plan(self, batch: Batch) -> Plan:
        fraction = _FRACTIONS[self._step % len(_FRACTIONS)]
        depth = self._depths[self._step % len(self._depths)]
        self._step += 1
        wanted = round(fraction * int(batch.num_draft_tokens.sum()))
        return Plan(depth, num_verify_tokens=evenly(batch.num_draft_tokens, wanted))

    def observe(self, step: Step) -> None:
        pass


def evenly(pending: Any, wanted: int) -> Any:
    """`wanted` tokens in all, (N,), as even as what is pending (N,) allows."""
    levels = np.arange(1, int(pending.max(initial=0)) + 1)
    taken = np.minimum(pending, int((np.minimum(pending, levels[:, None]).sum(axis=1) <= wanted).sum()))
    more = np.flatnonzero(pending > taken)[: wanted - int(taken.sum())]
    taken[more] += 1
    return taken


def profile_served(job: ServedProfileJob, report: Report) -> ServedProfile:
    """Serve, fit, and write the table of a job to `job.out`. Raises `BenchError` for whatever is wrong."""
    bench = _bench(job)
    places = [(number, context) for number in sorted(set(job.requests)) for context in sorted(set(job.contexts))]
    kinds = (False,) if job.drafter is None else (False, True)
    runs: list[ServedRun] = []
    try:
        for drafts in kinds:
            for number, context in places:
                runs.append(_served(bench, job, number, context, drafts))
                report("served steps", len(runs), len(kinds) * len(places), f"{number} requests")
        graphs = bench.graph_sizes()
    finally:
        bench.close()
    header, points = _table(job, bench, runs, graphs)
    header = with_context_costs(header, points)
    write_latency_csv(job.out, header, points)
    return ServedProfile(header, points, runs)


def _bench(job: ServedProfileJob) -> VllmBench:
    settings = VllmSettings(
        target=job.target,
        drafter=job.drafter or "ngram",
        max_draft_tokens=job.max_draft_tokens,
        dtype=job.dtype,
        device=job.device,
        max_num_seqs=max(job.requests),
        max_tokens=2 * job.num_steps,
        engine=json_object(job.engine, "engine arguments") if job.engine else {},
    )
    most = settings.max_positions
    if most is not None and max(job.contexts) + 2 * job.num_steps > most:
        raise BenchError(f"contexts has {max(job.contexts)}, expected at most {most - 2 * job.num_steps} tokens")
    return VllmBench(settings, max(job.contexts))


def _served(bench: VllmBench, job: ServedProfileJob, number: int, context: int, drafts: bool) -> ServedRun:
    line = AffineCurve(1e-3, 0.0, 0.0)
    unpriced = LinearLatency(name="unpriced", origin="modelled", source="none", target=line, draft=line)
    config = EngineConfig(bench.drafter, unpriced, number, 0)
    planner: Planner = Sweep(config) if drafts else NoSpeculation(config)
    rng = np.random.default_rng([number, context])
    vocabulary = int(model_config(job.target).vocab_size)
    prompts = [np.resize(rng.integers(0, vocabulary, _PERIOD), context).tolist() for _ in range(number)]
    length = (2 if drafts else 1) * job.num_steps
    requests = [Request(prompt, length) for prompt in prompts]
    run, _ = bench.run(planner, requests, config, Sending(), 0, ignore_stops=True)
    assert run.steps is not None
    whole = (run.steps["num_requests"] == number) & (run.steps["num_prefill_tokens"] == 0)
    whole &= np.arange(len(whole)) >= min(_LOST, len(whole) - 1)
    return ServedRun(number, context, drafts, {name: column[whole] for name, column in run.steps.items()})


def _table(
    job: ServedProfileJob, bench: VllmBench, runs: Sequence[ServedRun], graphs: Sequence[int]
) -> tuple[dict[str, str], list[Point]]:
    """Points of each run's sizes; a drafter's line and host terms from all of them."""
    found = {
        (point.rows, point.requests, point.context_tokens): point
        for run in runs
        if len(run.steps["step"])
        for point in target_points(run.steps, "median")[0]
    }
    if not found:
        raise BenchError("no whole step was served, expected more steps or fewer requests")
    header = _labels(job, bench, runs)
    if graphs:
        header["graph_sizes"] = ", ".join(map(str, sorted(graphs)))
    speculating = joined([run.steps for run in runs if run.drafts])
    if speculating is not None and bench.drafter.kind != "ngram":
        header |= draft_line(speculating, bench.drafter)
    header |= {key: f"{value:.6g}" for key, value in _host(bench, runs).items()}
    points = sorted(found.values(), key=lambda point: (point.rows, point.requests, point.context_tokens))
    return header, points


def _host(bench: VllmBench, runs: Sequence[ServedRun]) -> dict[str, float]:
    """Host terms; drafting by looking up is host time."""
    looks_up = bench.drafter.kind == "ngram"
    plain: dict[int, list[float]] = {}
    drafting: dict[int, list[float]] = {}
    for run in runs:
        seconds = run.steps["host_s"] + (run.steps["draft_s"] if run.drafts and looks_up else 0.0)
        (drafting if run.drafts else plain).setdefault(run.requests, []).extend(seconds.tolist())
    medians = ({n: float(np.median(s)) for n, s in kind.items() if s} for kind in (plain, drafting))
    return host_terms(*medians)


def _labels(job: ServedProfileJob, bench: VllmBench, runs: Sequence[ServedRun]) -> dict[str, str]:
    device, today = named_device(job.device), date.today().isoformat()
    steps = sum(len(run.steps["step"]) for run in runs)
    labels = {
        "kind": "table",
        "name": job.name or job.out.name.removesuffix(".csv"),
        "device": device,
        "model": title(job.target),
        "dtype": job.dtype,
        "engine": bench.name,
        "date": today,
        "origin": "measured",
        "source": f"lightspec-bench {__version__} profile on {device}, {today}: medians of {steps} served steps, host "
        "terms from the same steps",
        "licence": "own measurement",
        "note": "Shapes were swept while serving; prompts repeat random tokens.",
    }
    if job.drafter is not None:
        labels["drafter"] = f"{bench.drafter_name}, D = {bench.drafter.max_draft_tokens}"
    return labels


def served_document(found: ServedProfile, out: Path) -> dict[str, Any]:
    """JSON values of a profile: the header, and medians of each run."""
    return {
        "table": str(out),
        "header": found.header,
        "runs": [
            {
                "requests": run.requests,
                "prompt_tokens": run.context,
                "drafts": run.drafts,
                "num_steps": len(run.steps["step"]),
                **{
                    name.replace("_s", "_ms"): float(np.median(run.steps[name])) * 1e3 if len(run.steps[name]) else None
                    for name in ("verify_s", "draft_s", "host_s")
                },
            }
            for run in found.runs
        ],
    }
