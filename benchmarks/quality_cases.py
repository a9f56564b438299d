"""Cases of planner_quality: which traces are replayed, at which load, and over which steps they are judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lightspec_bench.core import Trace
from lightspec_bench.registry import parse_spec
from lightspec_bench.runners.load import Load
from lightspec_bench.traces.describe import known_depth, served_entries
from lightspec_bench.traces.synthetic import Dials

RECORDED = tuple(f"smollm2-135m-{drafter}:loops=drop" for drafter in ("eagle", "parallel", "ngram"))
MODELLED = tuple(
    f"synthetic:shape={shape},workload={workload}"
    for shape in ("eagle3", "dflash", "dspark")
    for workload in ("chat", "code", "math")
)
LATENCIES = ("h200-qwen3-14b", "h100-llama-3.1-8b", "h100-internlm-20b", "b300-deepseek-v4-flash")
HOSTS_MS = (2.0, 10.0)
CONCURRENCIES = (1, 4, 16, 64, 256, 512)
WARMUP_STEPS, SCORED_STEPS, CHURN_STEPS = 200, 250, 500
UNRELIABLE = {
    "biased high": "ece=0.15,bias=0.15",
    "biased low": "ece=0.15,bias=-0.15",
    "useless": "auc=0.55",
    "useless and biased": "auc=0.55,ece=0.15,bias=0.15",
}
SHIFTS = {
    "acceptance .85 <-> .35": tuple(f"acceptance=[{a}],decay=1" for a in (0.85, 0.35)),
    "chat <-> code <-> math": tuple(f"shape=dspark,workload={w}" for w in ("chat", "code", "math")),
}


@dataclass(frozen=True, slots=True)
class Case:
    """Replays that share a trace and a load, under several latency models.

    `phases` are trace specs in the order of their requests; one phase is a closed loop of at least `steps` steps.
    Scored are the tokens from the moment when every planner has taken `warmup_steps` steps, to the end or to the step
    `last_step` of the planner under test.
    """

    part: str
    label: str
    phases: tuple[str, ...]
    latencies: tuple[str, ...]
    concurrency: int
    steps: int
    seed: int
    warmup_steps: int = WARMUP_STEPS
    last_step: int | None = None

    def load(self, trace: Trace) -> Load:
        if len(self.phases) > 1:
            return Load(self.concurrency, "trace", seed=self.seed)
        return Load(self.concurrency, num_requests=requests_for(trace, self.concurrency, self.steps), seed=self.seed)


def priced_with(latencies: Sequence[str], hosts_ms: Sequence[float]) -> tuple[str, ...]:
    """Every latency model with every host time per step, as specs."""
    joined = ((spec, "," if "=" in spec else ":", host) for spec in latencies for host in hosts_ms)
    return tuple(f"{spec}{mark}host_step_ms={host:g}" for spec, mark, host in joined)


def requests_for(trace: Trace, concurrency: int, steps: int) -> int:
    """Requests enough for that many steps of a planner that verifies all it can draft, which takes the fewest."""
    per_step = 1.0 + float(trace.num_accepted[served_entries(trace, known_depth(trace) > 0)].mean())
    per_request = max(float(trace.num_output_tokens.mean()) - 1.0, 1.0)
    return int(np.ceil(concurrency * steps * per_step / per_request))


def grid(traces: Sequence[str], latencies: tuple[str, ...], sizes: Sequence[int], seed: int) -> Iterator[Case]:
    """Few requests at once vary more, so those cells are scored over more steps."""
    for spec in traces:
        for size in sizes:
            steps = WARMUP_STEPS + max(SCORED_STEPS, 600 // size)
            yield Case("grid", spec, (spec,), latencies, size, steps, seed)


def unreliable(
    names: Sequence[str], workloads: Sequence[str], latencies: tuple[str, ...], sizes: Sequence[int], seed: int
) -> Iterator[Case]:
    """The grid's conditions, with confidences that are biased or say nothing: `names` of `UNRELIABLE`."""
    for name in names:
        for workload in workloads:
            spec = f"synthetic:shape=eagle3,workload={workload},{UNRELIABLE[name]}"
            for case in grid([spec], latencies, sizes, seed):
                yield replace(case, part="confidences", label=f"{name}, {workload}")


def shifting(
    names: Sequence[str], runs: Sequence[tuple[int, int]], latencies: tuple[str, ...], seed: int
) -> Iterator[Case]:
    """Phases of `SHIFTS` and back to the first, its requests again, for each (concurrency, least steps of a phase).

    Requests wait in the order of the phases from the start, so the engine is always full, and a shift takes as long as
    the running requests last. The drain at the end is not scored.
    """
    for size, steps in runs:
        for name in names:
            dials = SHIFTS[name]
            phases = tuple(phase(kind, steps, size, seed) for kind in (*dials, dials[0]))
            yield Case("shift", f"{name}, {steps} steps", phases, latencies, size, steps, seed)


def phase(dials: str, steps: int, concurrency: int, seed: int, num_output_tokens: int = 128) -> str:
    """A synthetic trace for one phase: short requests, so that a shift is through the batch soon."""
    made = Dials(**parse_spec(f"synthetic:{dials}")[1])
    per_step = 1.0 + float(np.cumprod(made.conditional(made.phases[0])).sum())
    count = int(np.ceil(concurrency * steps * per_step / (num_output_tokens - 1)))
    return f"synthetic:{dials},num_output_tokens={num_output_tokens},num_requests={count},seed={seed}"


def churn(acceptances: Sequence[float], latencies: tuple[str, ...], seed: int) -> Iterator[Case]:
    """256 requests of 64 tokens from a cold start: a batch without newcomers hardly ever occurs."""
    for acceptance in acceptances:
        spec = f"synthetic:acceptance=[{acceptance}],decay=1,num_output_tokens=64,num_requests=1024"
        label = f"acceptance {acceptance}, 64-token outputs"
        yield Case("churn", label, (spec,), latencies, 256, CHURN_STEPS, seed, 0, CHURN_STEPS)


def unlucky(seeds: Sequence[int], latencies: tuple[str, ...]) -> Iterator[Case]:
    """One request at a time: a planner that believes its first samples can be wrong for long."""
    spec = "synthetic:acceptance=[0.5],decay=1"
    for seed in seeds:
        yield Case("seeds", f"acceptance .5, seed {seed}", (spec,), latencies, 1, WARMUP_STEPS + 400, seed)
