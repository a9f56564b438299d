"""The planner `lightspec` as a whole: sound in any batch, willing to change its mind, level with the best static K.

Ratios are of simulated seconds over the same tokens, so they are the same on every machine.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import (
    Batch,
    Columns,
    Drafter,
    DrafterKind,
    EngineConfig,
    FloatArray,
    IntArray,
    LatencyModel,
    Number,
    Plan,
    Step,
    Trace,
)
from lightspec_bench.drafting import draft_s
from lightspec_bench.latency_file import load_latency
from lightspec_bench.planners.lightspec import LightSpec
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.traces.library import load_trace
from tests.runners.planners import EXACT
from tests.support import config_for, hand_trace, random_trace

from . import support

H200, CLIFF = "h200-qwen3-14b", "b300-deepseek-v4-flash"
KINDS: tuple[DrafterKind, ...] = ("autoregressive", "autoregressive_no_attention", "parallel", "ngram")
# A depth of 0 costs a drafter with attention as much as a depth of 1, so only these ever stop drafting.
SLEEPING_KINDS: tuple[DrafterKind, ...] = ("autoregressive_no_attention", "parallel")


def replay(
    trace: Trace,
    spec: str,
    load: Load,
    latency: str | LatencyModel = H200,
    believed: LatencyModel | None = None,
    lag_steps: int = 1,
) -> Columns:
    """The steps of a run. `believed` is the model that the planner is given, where it is not the engine's."""
    model = load_latency(latency) if isinstance(latency, str) else latency
    config = config_for(trace, load.concurrency, lag_steps, model)
    planner = make_planner(spec, replace(config, latency=believed or model), trace)
    steps = SimulatedRunner(trace, config, load, EXACT).run(planner).steps
    assert steps is not None
    return steps


def tokens(steps: Columns) -> FloatArray:
    """Decode tokens out before the first step and after every one, (steps + 1,)."""
    return np.cumsum(np.r_[0.0, steps["num_requests"] + steps["num_accepted_tokens"]])


def seconds_between(steps: Columns, bounds: FloatArray) -> FloatArray:
    """Seconds between the moments when these numbers of tokens were out."""
    return np.diff(np.interp(bounds, tokens(steps), np.cumsum(np.r_[0.0, steps["duration_s"]])))


def statics(trace: Trace) -> list[str]:
    return ["none", *(f"static:k={k}" for k in range(trace.max_draft_tokens + 1))]


def per_request(steps: Columns, column: str, first: int, last: int) -> float:
    """A column's sum over those steps for each request and step."""
    return float(steps[column][first:last].sum() / steps["num_requests"][first:last].sum())


@functools.cache
def modelled(acceptance: float, num_requests: int, max_draft_tokens: int, num_output_tokens: int = 64) -> Trace:
    """A synthetic trace with the same acceptance at every depth."""
    return load_trace(
        f"synthetic:acceptance=[{acceptance}],decay=1,num_requests={num_requests},max_draft_tokens={max_draft_tokens},"
        f"num_output_tokens={num_output_tokens},lag_1=0"
    )


def drafted_by(trace: Trace, kind: DrafterKind) -> Trace:
    """The trace under another kind of drafter; n-grams have no confidences."""
    confidence = None if kind == "ngram" else trace.confidence
    return replace(trace, info=replace(trace.info, drafter_kind=kind), confidence=confidence)


def one_after_another(*traces: Trace) -> Trace:
    """One trace whose requests are sent in this order, under `Load(..., "trace")`."""
    names = ["request_id", "category", "num_prompt_tokens", "num_output_tokens", "repeats_from", "num_accepted"]
    names += ["confidence"] * (traces[0].confidence is not None)
    joined = {name: np.concatenate([getattr(trace, name) for trace in traces]) for name in names}
    offsets = np.concatenate(([0], np.cumsum(joined["num_output_tokens"])))
    return replace(traces[0], **joined, offsets=offsets, arrival_s=np.zeros(len(offsets) - 1))


def useless_drafts(kind: DrafterKind, num_requests: int) -> Trace:
    """Outputs of 60 tokens of which no draft is ever accepted, whatever its confidence says."""
    trace = hand_trace([[0] * 60] * num_requests, 4, kind=kind)
    return replace(trace, confidence=np.full((trace.num_positions, 4), 0.3, np.float32))


class Watched(LightSpec):
    """Remembers what it was shown and what it planned."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.seen: list[tuple[Batch, Plan]] = []
        self.steps: list[Step] = []

    def observe(self, step: Step) -> None:
        self.steps.append(step)
        super().observe(step)

    def plan(self, batch: Batch) -> Plan:
        self.seen.append((batch, super().plan(batch)))
        return self.seen[-1][1]


@pytest.mark.parametrize(
    ("spec", "max_draft_tokens"),
    [
        ("lightspec", 11),
        ("lightspec:calibration=false", 3),
        ("lightspec:exploration=false", 3),
        ("lightspec:online_cost=false", 3),
    ],
)
def test_it_is_a_sound_planner(spec: str, max_draft_tokens: int) -> None:
    assert check_planner(spec, max_draft_tokens=max_draft_tokens) == []


def test_a_step_without_requests_has_an_empty_plan() -> None:
    planner = LightSpec(support.engine(3))
    empty = replace(support.batch([]), confidence=np.zeros((0, 3), np.float32))
    assert planner.plan(empty) == Plan(0, num_target_tokens=0)


def watched_run(trace: Trace, load: Load, lag_steps: int, latency: LatencyModel | None = None) -> Watched:
    config = config_for(trace, load.concurrency, lag_steps, latency)
    planner = Watched(config)
    SimulatedRunner(trace, config, load, EXACT).run(planner)
    return planner


@pytest.mark.parametrize("lag_steps", [0, 1])
@pytest.mark.parametrize(("number", "least"), [(1, 60), (4, 1)])
def test_newcomers_get_no_phantom_rows(number: int, least: int, lag_steps: int) -> None:
    """Outputs of a few tokens: there is a newcomer in most batches, and at N = 1 often nothing else."""
    seen = watched_run(random_trace(3, num_requests=80, longest=6), Load(number, "trace"), lag_steps).seen
    shown = [(plan.num_target_tokens, batch.num_requests, batch.num_draft_tokens.sum()) for batch, plan in seen]
    rows, requests, pending = np.array(shown).T
    assert sum(pending == 0) >= least
    assert (rows >= requests).all()
    assert (rows <= requests + pending).all()
    assert (rows > requests).any()


@pytest.mark.parametrize("lag_steps", [0, 1])
def test_the_same_seed_gives_the_same_run(lag_steps: int) -> None:
    """Where it has stopped drafting, chance decides who is probed."""
    useless, load, latency = useless_drafts("parallel", 128), Load(64, "trace"), load_latency(H200)
    one, other = (watched_run(useless, load, lag_steps, latency).steps for _ in range(2))
    plans = [[np.asarray(step.plan.num_draft_tokens).tolist() for step in steps] for steps in (one, other)]
    assert any(isinstance(depth, list) for depth in plans[0])
    assert plans[0] == plans[1]
    assert [step.num_verify_tokens.tolist() for step in one] == [step.num_verify_tokens.tolist() for step in other]


@pytest.mark.parametrize("kind", KINDS)
def test_having_stopped_it_speculates_again(kind: DrafterKind) -> None:
    """Nothing is ever accepted, then nine tokens of ten: in the end it does about as well as if it began there."""
    number = 64
    bad, good = (drafted_by(modelled(a, n * number, 4, 48), kind) for a, n in ((0.0, 6), (0.9, 16)))
    shifted = replay(one_after_another(bad, good), "lightspec", Load(number, "trace"))
    fresh = replay(good, "lightspec", Load(number, "trace"))
    turn = int(np.searchsorted(tokens(shifted), bad.num_requests * 47))
    assert per_request(shifted, "num_verify_tokens", turn - 100, turn - 10) < 0.1
    end, fresh_end = (len(steps["step"]) - 50 for steps in (shifted, fresh))  # the last requests run alone
    regained = per_request(shifted, "num_accepted_tokens", end - 50, end)
    assert regained >= 0.75 * per_request(fresh, "num_accepted_tokens", fresh_end - 50, fresh_end)


@pytest.mark.parametrize("kind", SLEEPING_KINDS)
def test_probes_cost_a_hundredth_of_the_time_at_most(kind: DrafterKind) -> None:
    """A probe drafts for some requests only, so its plan is an array; it is paid for in its step and the next one."""
    latency = load_latency(H200)
    steps = watched_run(useless_drafts(kind, 384), Load(64), 1, latency).steps
    probes_s, probes = 0.0, 0
    for probe, check in pairwise(steps):
        if isinstance(probe.plan.num_draft_tokens, np.ndarray):
            rows = probe.num_requests + int(probe.num_verify_tokens.sum())
            context = probe.num_context_tokens
            asleep_s = float(draft_s(latency, Drafter(kind, 4), rows, probe.num_requests, 0, context))
            bare_s = float(latency.verify_s(check.num_requests, check.num_requests, check.num_context_tokens))
            probes_s += probe.draft_s - asleep_s + check.verify_s - bare_s
            probes += 1
    assert probes > 20
    assert 0.0 < probes_s <= 0.01 * sum(step.duration_s for step in steps)


def test_a_shifting_workload_earns_what_the_best_static_k_of_every_phase_does() -> None:
    """Acceptance .35, .85, .35 at 16 requests; no single K is best in all phases."""
    parts = [modelled(a, count, 5) for a, count in ((0.35, 80), (0.85, 200), (0.35, 81))]
    trace, load = one_after_another(*parts), Load(16, "trace")
    bounds = np.cumsum([0.0, *(63.0 * part.num_requests for part in parts)])
    bounds[-1] -= 16 * 63  # while the last requests drain
    static_s = np.array([seconds_between(replay(trace, spec, load), bounds) for spec in statics(trace)])
    ours_s = seconds_between(replay(trace, "lightspec", load), bounds)
    assert static_s.min(axis=0).sum() / ours_s.sum() >= 0.95
    assert static_s.sum(axis=1).min() > 1.03 * static_s.min(axis=0).sum()


def test_short_outputs_from_a_cold_start_cost_it_little() -> None:
    """With outputs of 32 tokens hardly a batch is without newcomers; the whole run counts, from its first step."""
    trace, load = modelled(0.7, 64 * 10, 4, 32), Load(64)
    bounds = np.array([0.0, 31.0 * trace.num_requests])
    best_s = min(float(seconds_between(replay(trace, spec, load), bounds)[0]) for spec in statics(trace))
    assert best_s / float(seconds_between(replay(trace, "lightspec", load), bounds)[0]) >= 0.93


def test_it_stays_on_this_side_of_the_largest_captured_graph() -> None:
    """1024 rows are captured; one more costs five times as much, and drafts for twice as many are pending."""
    rows = replay(modelled(0.9, 800, 7), "lightspec", Load(256), CLIFF)["num_target_tokens"][30:]
    assert rows.max() <= 1024
    assert np.median(rows) > 700


@dataclass(frozen=True)
class Steeper:
    """A latency model whose target takes twice as long from `edge` rows on."""

    model: LatencyModel
    edge: int
    name: str = "steeper"
    origin: str = "modelled"
    source: str = "made for a test"

    @property
    def graph_sizes(self) -> IntArray:
        return self.model.graph_sizes

    def verify_s(self, num_target_tokens: Number, num_requests: Number, num_context_tokens: Number) -> FloatArray:
        seconds = self.model.verify_s(num_target_tokens, num_requests, num_context_tokens)
        return np.asarray(seconds * np.where(np.asarray(num_target_tokens) >= self.edge, 2.0, 1.0))

    def draft_pass_s(self, num_rows: Number, num_context_tokens: Number) -> FloatArray:
        return self.model.draft_pass_s(num_rows, num_context_tokens)

    def host_s(self, num_requests: Number, speculating: bool) -> FloatArray:
        return self.model.host_s(num_requests, speculating)


@pytest.mark.parametrize(("number", "edge"), [(16, 64), (64, 128)])
def test_a_model_that_is_wrong_beyond_some_rows_is_corrected(number: int, edge: int) -> None:
    trace, load, wrong = modelled(0.6, 6 * number, 4), Load(number), load_latency(H200)
    right = Steeper(wrong, edge)
    bounds = np.array([0.1, 1.0]) * 63 * trace.num_requests
    told_s, learning_s, trusting_s = (
        float(seconds_between(replay(trace, spec, load, right, model), bounds)[0])
        for spec, model in (("lightspec", right), ("lightspec", wrong), ("lightspec:online_cost=false", wrong))
    )
    assert told_s / trusting_s < 0.8
    assert told_s / learning_s > 0.85
