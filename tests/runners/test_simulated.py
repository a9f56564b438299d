"""The simulated runner: a run read step by step, exactness under any plan, and its bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lightspec_bench.core import (
    REQUEST_COLUMNS,
    Batch,
    BenchError,
    EarlyExit,
    Plan,
    PlanError,
)
from lightspec_bench.latency_file import load_latency
from lightspec_bench.planners.static import Static
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.traces.library import load_trace
from tests.runners.plain_replay import plain_replay
from tests.runners.planners import EXACT, Random, Scripted, run
from tests.support import config_for, hand_trace, random_trace


def test_one_request_step_by_step() -> None:
    """Position 1 has no draft yet; position 2 accepts 2 of 3; position 5 accepts none; then one token is left."""
    trace = hand_trace([[0, 0, 2, 0, 0, 0, 0]])
    result = run(trace, Static(config_for(trace, 1), k=3), Load(1, num_requests=1))
    assert result.steps is not None
    columns = {name: result.steps[name][:4].tolist() for name in result.steps}
    assert columns == {
        "step": [0, 1, 2, 3],
        # verify 10 + rows; draft (2 + .1 rows) + 2 passes of 2.1, except after the last token; host .75
        "start_s": pytest.approx([0.0, 18.05, 39.4, 60.75]),
        "duration_s": pytest.approx([18.05, 21.35, 21.35, 17.15]),
        "num_requests": [1, 1, 1, 1],
        "num_target_tokens": [1, 4, 4, 4],
        "num_draft_tokens": [0, 3, 3, 3],
        "num_verify_tokens": [0, 3, 3, 3],
        "num_accepted_tokens": [0, 2, 0, 0],
        "planned_depth": [3, 3, 3, 3],
        "draft_depth": [3, 3, 3, 0],
        "num_context_tokens": [11, 12, 15, 16],
        "num_prefill_tokens": [0, 0, 0, 0],
        "verify_s": [11.0, 14.0, 14.0, 14.0],
        "draft_s": pytest.approx([6.3, 6.6, 6.6, 2.4]),
        "host_s": [0.75, 0.75, 0.75, 0.75],
        "prefill_s": [0.0, 0.0, 0.0, 0.0],
        "planner_s": columns["planner_s"],  # measured
        "exposed_planner_s": [0.0, 0.0, 0.0, 0.0],
    }


def test_request_columns() -> None:
    trace = hand_trace([[0, 0, 2, 0, 0, 0, 0]])
    requests = run(trace, Static(config_for(trace, 1), k=3), Load(1, num_requests=1)).requests
    assert tuple(requests) == REQUEST_COLUMNS
    first = {name: column[0] for name, column in requests.items()}
    assert first == {
        "request_id": first["request_id"],
        "arrival_s": 0.0,
        "start_s": 0.0,
        "first_token_s": 0.0,
        "finish_s": pytest.approx(77.9),
        "num_prompt_tokens": 10,
        "num_output_tokens": 7,
        "num_steps": 4,
        "num_spec_steps": 3,
        "num_draft_tokens": 9,
        "num_verify_tokens": 9,
        "num_accepted_tokens": 2,
    }


@given(
    seed=st.integers(0, 10**6),
    concurrency=st.integers(1, 9),
    lag_steps=st.integers(0, 1),
    kind=st.sampled_from(["autoregressive", "autoregressive_no_attention", "parallel", "ngram"]),
    prefill=st.sampled_from(["off", "separate", "chunked"]),
    arrivals=st.sampled_from(["closed", "poisson", "gamma", "trace"]),
    confidences=st.booleans(),
)
def test_any_plan_emits_the_traces_tokens(seed, concurrency, lag_steps, kind, prefill, arrivals, confidences) -> None:  # type: ignore[no-untyped-def]
    """Greedy replay is exact: whatever is planned, each request gets its recorded number of tokens, and the books
    agree: emitted = accepted + steps, accepted <= verified <= drafted, totals = sums of requests."""
    trace = random_trace(seed, kind=kind, confidences=confidences, short_proposals=bool(seed % 2))
    rate = 0.05 if arrivals in ("poisson", "gamma") else None
    options = SimulatorOptions(planner_time="off", prefill=prefill, chunk_tokens=7, catch_up="on_resume")
    planner = Random(config_for(trace, concurrency), seed)
    result = run(trace, planner, Load(concurrency, arrivals, rate, cv=2.0, seed=seed), lag_steps, options)
    requests, steps = result.requests, result.steps
    assert steps is not None
    assert np.isfinite(requests["finish_s"]).all()
    assert len(np.unique(requests["request_id"])) == len(requests["request_id"])
    row = requests["request_id"] % trace.num_requests
    assert np.array_equal(requests["num_output_tokens"], trace.num_output_tokens[row])
    # Request columns take accepted tokens from lengths and steps; step columns, below, from each step's outcome.
    emitted = requests["num_accepted_tokens"] + requests["num_steps"]
    assert np.array_equal(emitted + 1, requests["num_output_tokens"])  # one more came from prefill
    assert (requests["num_accepted_tokens"] <= requests["num_verify_tokens"]).all()
    assert (requests["num_verify_tokens"] <= requests["num_draft_tokens"]).all()
    if arrivals != "closed":  # a closed loop keeps itself full with requests that are not counted
        for name in ("num_draft_tokens", "num_verify_tokens", "num_accepted_tokens"):
            assert steps[name].sum() == requests[name].sum()
        assert steps["num_requests"].sum() == requests["num_steps"].sum()
    for step in planner.steps:
        assert (step.num_accepted_tokens <= step.num_verify_tokens).all()
        assert (step.num_verify_tokens <= step.num_draft_tokens).all()


@given(seed=st.integers(0, 10**6), concurrency=st.integers(1, 9))
def test_a_budget_verifies_the_surest_tokens(seed: int, concurrency: int) -> None:
    """A budget spends exactly its rows, as long as drafts last, on the highest prefix survival of the batch."""
    trace = random_trace(seed)

    def half(batch: Batch) -> Plan:
        return Plan(3, num_target_tokens=batch.num_requests + int(batch.num_draft_tokens.sum()) // 2)

    planner = Scripted(half)
    run(trace, planner, Load(concurrency, seed=seed))
    for step in planner.steps:
        assert step.num_verify_tokens.sum() == step.num_draft_tokens.sum() // 2
        assert step.confidence is not None
        survival = np.cumprod(np.nan_to_num(step.confidence), axis=1)
        depth = np.arange(3)
        chosen = survival[depth < step.num_verify_tokens[:, None]]
        left = survival[(depth >= step.num_verify_tokens[:, None]) & (depth < step.num_draft_tokens[:, None])]
        assert not len(chosen) or not len(left) or chosen.min() >= left.max()


@pytest.mark.parametrize(
    ("trace", "k", "concurrency"), [("eagle", 0, 3), ("eagle", 4, 1), ("eagle", 11, 9), ("parallel", 2, 5)]
)
def test_it_arrives_at_the_time_of_a_plain_loop(trace: str, k: int, concurrency: int) -> None:
    """The same recorded trace, priced by the same model, request by request."""
    recorded = load_trace(f"smollm2-135m-{trace}")
    config = config_for(recorded, concurrency, 1, load_latency("b300-deepseek-v4-flash"))
    load = Load(concurrency, num_requests=12)
    totals = SimulatedRunner(recorded, config, load, EXACT).run(Static(config, k=k)).totals
    seconds, request_steps = plain_replay(recorded, config, k, load)
    assert totals.elapsed_s == pytest.approx(seconds, rel=1e-12)
    assert totals.outcomes.sum() == request_steps


@pytest.mark.parametrize(("p", "k", "length"), [(0.8, 8, 4.3289), (0.6, 5, 2.3834), (0.5, 3, 1.875)])
def test_constant_acceptance_gives_the_geometric_sum(p: float, k: int, length: float) -> None:
    """llama.cpp#3649: k draft tokens of acceptance p give 1 + p + ... + p^k tokens a step."""
    rng = np.random.default_rng(0)
    count, longest = 400, 400
    runs = rng.geometric(1 - p, size=(count, longest)) - 1
    entries = [np.minimum(np.minimum(r, k), longest - 1 - np.arange(longest)) for r in runs]
    trace = hand_trace([list(e) for e in entries], k)
    totals = run(trace, Static(config_for(trace, 64), k=k), Load(64, num_requests=count)).totals
    verified, accepted = np.indices(totals.outcomes.shape)
    spec = verified > 0
    measured = 1 + (totals.outcomes * accepted)[spec].sum() / totals.outcomes[spec].sum()
    assert sum(p**i for i in range(k + 1)) == pytest.approx(length, abs=5e-5)
    assert measured == pytest.approx(length, rel=0.02)


def test_step_records_can_be_left_out() -> None:
    trace = random_trace(1)
    config = config_for(trace, 2)
    kept = SimulatedRunner(trace, config, Load(2), EXACT).run(Static(config, k=2))
    lean = SimulatedRunner(trace, config, Load(2), replace(EXACT, keep_steps=False)).run(Static(config, k=2))
    assert lean.steps is None
    assert np.array_equal(lean.totals.outcomes, kept.totals.outcomes)
    assert lean.totals.elapsed_s == kept.totals.elapsed_s


def test_origin_says_what_the_numbers_come_from() -> None:
    trace = random_trace(1)
    step_log = replace(trace, info=replace(trace.info, indexing="step", origin="modelled"))
    config = config_for(trace, 2)
    assert SimulatedRunner(trace, config, Load(2)).origin == "simulated from a recorded trace"
    assert SimulatedRunner(step_log, config, Load(2)).origin == "approximately simulated from a modelled trace"


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(2), "a plan has either num_target_tokens or num_verify_tokens, got neither"),
        (Plan(9, num_target_tokens=1), "num_draft_tokens is 9, expected 0 to 3"),
        (Plan(2, num_target_tokens=99), "num_target_tokens is 99, expected 1 to 1"),
        (Plan(2, num_verify_tokens=np.array([1])), r"num_verify_tokens\[0\] is 1, expected 0 to 0"),
        (Plan(2, num_verify_tokens=np.array([0.5])), r"num_verify_tokens is float64\[1\], expected 1 whole numbers"),
        (
            Plan(2, 1, early_exit=EarlyExit("product", np.array([0.5, 0.5]))),
            r"early_exit.threshold has shape \[2\], expected one number or 1",
        ),
    ],
)
def test_a_plan_out_of_bounds_is_an_error(plan: Plan, message: str) -> None:
    trace = random_trace(1)
    with pytest.raises(PlanError, match=f"planner tests.*Scripted: {message}"):
        run(trace, Scripted(lambda _: plan), Load(1))


def test_a_planner_that_needs_confidences_is_refused_without_them() -> None:
    trace = random_trace(1, confidences=False)
    planner = Scripted(lambda b: Plan(2, num_verify_tokens=b.num_draft_tokens))
    planner.requires = frozenset({"confidence"})  # type: ignore[misc]
    with pytest.raises(BenchError, match="needs confidence, which trace hand does not have"):
        run(trace, planner, Load(1))
