"""The oracle: the exact optimum for one request, and a bound for every planner on the traces and tables that ship."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from lightspec_bench.core import EngineConfig, Trace
from lightspec_bench.experiment import build, run_cell
from lightspec_bench.latency_file import load_latency
from lightspec_bench.planners.oracle import Oracle
from lightspec_bench.planners.static import Static
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.suite import Cell, Conditions
from lightspec_bench.traces.library import load_trace, trace_names
from tests.support import config_for, hand_trace, random_trace

EXACT = Conditions(planner_time="off", num_requests=6)
OTHERS = ("none", "static:k=0", "static:k=1", "static:k=2", "static:k=3", "static:k=5", "static:k=11")
DYNAMIC = ("schedule", "lightspec-reference", "dspark")
# A smooth table, a cliff, a jagged one, and one where two rows cost more than four.
LATENCIES = ("h200-qwen3-14b", "b300-deepseek-v4-flash", "h100-internlm-20b", "cpu-smollm2-135m-fp32")


def cheapest_path_s(trace: Trace, config: EngineConfig) -> float:
    """Plain recursion over every choice of draft tokens, for one request alone with round prices."""
    accepted, length = trace.num_accepted, int(trace.num_output_tokens[0])

    @cache
    def to_go(position: int, pending: int) -> float:
        reached = position + min(pending, int(accepted[position])) + 1
        rows = pending + 1
        spent = 10.0 + rows + 0.75 + 2.0 + 0.1 * rows  # verify, host, the drafter's pass over the rows
        if reached >= length:
            return spent
        further = [to_go(reached, depth) + max(depth - 1, 0) * 2.1 for depth in range(config.max_draft_tokens + 1)]
        return spent + min(further)

    return to_go(1, 0)


@pytest.mark.parametrize("seed", range(5))
def test_one_request_takes_the_cheapest_path(seed: int) -> None:
    trace = random_trace(seed, num_requests=1, longest=30)
    config = config_for(trace, 1)
    run = SimulatedRunner(trace, config, Load(1, num_requests=1), SimulatorOptions(planner_time="off")).run(
        Oracle(config, trace)
    )
    taken = run.requests["finish_s"] - run.requests["start_s"]
    assert taken == pytest.approx(cheapest_path_s(trace, config) if trace.num_output_tokens[0] > 1 else 0.0)


def test_it_drafts_exactly_what_will_be_accepted() -> None:
    trace = hand_trace([[0, 0, 3, 0, 0, 0, 0, 2, 0, 0, 0]] * 8)
    config = config_for(trace, 4)
    run = SimulatedRunner(trace, config, Load(4), SimulatorOptions(planner_time="off")).run(Oracle(config, trace))
    requests = run.requests
    assert (requests["num_verify_tokens"] == requests["num_accepted_tokens"]).all()
    assert requests["num_accepted_tokens"].tolist() == [5] * len(requests["request_id"])


def test_a_drafter_that_never_pays_is_not_loaded() -> None:
    trace = hand_trace([[0] * 12] * 4)
    config = config_for(trace, 2)
    oracle = Oracle(config, trace)
    assert not oracle.uses_drafter
    assert Static(config, k=0).uses_drafter
    run = SimulatedRunner(trace, config, Load(2), SimulatorOptions(planner_time="off")).run(oracle)
    assert run.totals.draft_s == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_a_drafter_that_pays_is_loaded_whichever_requests_are_rehearsed(seed: int) -> None:
    """Speculation earns a third here, and a dozen steps of a single request may show the opposite."""
    trace = load_trace("smollm2-135m-parallel:loops=drop")
    assert Oracle(
        replace(config_for(trace, 1, 1, load_latency("b300-deepseek-v4-flash")), seed=seed), trace
    ).uses_drafter


@pytest.mark.parametrize(("trace", "latency", "number"), list(product(trace_names(), LATENCIES, (1, 12, 96))))
def test_no_planner_beats_it_on_a_shipped_cell(trace: str, latency: str, number: int) -> None:
    spec = f"{trace}:loops=drop"

    def throughput(planner: str) -> float:
        totals = run_cell(Cell(spec, latency, number, planner, 0, EXACT), keep_steps=False).totals
        return totals.num_output_tokens / totals.elapsed_s

    loaded = build(Cell(spec, latency, number, "none", 0, EXACT))[0]
    planners = [p for p in OTHERS if not p.startswith("static") or int(p[9:]) <= loaded.max_draft_tokens]
    planners += [p for p in DYNAMIC if p != "dspark" or loaded.confidence is not None]
    bound = throughput("oracle")
    assert {p: t for p in planners if (t := throughput(p)) > bound * (1 + 1e-9)} == {}
