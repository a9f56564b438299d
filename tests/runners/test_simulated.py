"""The simulated runner: a run read step by step, exactness under any plan, prices, arrivals, prefill and lag."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lightspec_bench.core import (
    Batch,
    BenchError,
    ConfidenceAge,
    DrafterKind,
    EarlyExit,
    EngineConfig,
    Plan,
    PlanError,
    Run,
    Step,
    Trace,
)
from lightspec_bench.latency_file import load_latency
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.planners.static import Static
from lightspec_bench.runners.load import Load, make_workload
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.traces.library import load_trace
from tests.runners.plain_replay import plain_replay
from tests.support import config_for, hand_trace, random_trace

EXACT = SimulatorOptions(planner_time="off")


class Scripted:
    """Asks a function for its plans and remembers everything it was shown."""

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, make_plan: object) -> None:
        self.make_plan = make_plan
        self.batches: list[Batch] = []
        self.steps: list[Step] = []
        self.order: list[str] = []

    def plan(self, batch: Batch) -> Plan:
        self.order.append(f"plan {batch.step}")
        self.batches.append(batch)
        return self.make_plan(batch)  # type: ignore[operator,no-any-return]

    def observe(self, step: Step) -> None:
        self.order.append(f"observe {step.index}")
        self.steps.append(step)


class Random:
    """Any legal plan: budgets or counts, one depth or several, exits, all drawn at random."""

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, seed: int) -> None:
        self.rng, self.depth = np.random.default_rng(seed), config.max_draft_tokens
        self.steps: list[Step] = []

    def plan(self, batch: Batch) -> Plan:
        number, rng = batch.num_requests, self.rng
        depth = int(rng.integers(0, self.depth + 1)) if rng.random() < 0.5 else rng.integers(0, self.depth + 1, number)
        leave = None
        if batch.confidence is not None and rng.random() < 0.3:
            signal = ("confidence", "product", "entropy")[rng.integers(3)]
            leave = EarlyExit(signal, float(rng.random()), keep_last=bool(rng.random() < 0.5))
        if rng.random() < 0.5:
            most = number + int(batch.num_draft_tokens.sum())
            return Plan(depth, num_target_tokens=int(rng.integers(number, most + 1)), early_exit=leave)
        return Plan(depth, num_verify_tokens=rng.integers(0, batch.num_draft_tokens + 1), early_exit=leave)

    def observe(self, step: Step) -> None:
        self.steps.append(step)


def run(trace: Trace, planner: object, load: Load, lag_steps: int = 0, options: SimulatorOptions = EXACT) -> Run:
    config = config_for(trace, load.concurrency, lag_steps)
    return SimulatedRunner(trace, config, load, options).run(planner)  # type: ignore[arg-type]


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


def test_no_speculation_and_depth_0_are_priced_apart() -> None:
    trace = hand_trace([[0, 0, 0]])
    off = run(trace, NoSpeculation(config_for(trace, 1)), Load(1, num_requests=1)).steps
    zero = run(trace, Static(config_for(trace, 1), k=0), Load(1, num_requests=1)).steps
    assert off is not None
    assert zero is not None
    assert off["duration_s"].tolist() == [11.5] * len(off["step"])  # 10 + 1 + host .5
    assert zero["duration_s"] == pytest.approx(11.0 + 2.1 + 0.75)  # the drafter follows: 2 + .1, host .75


def test_a_drafter_that_follows_on_resume_pays_for_what_it_missed() -> None:
    """Depths 0, 0, 2: two idle steps cost nothing, then the extend pass covers their tokens and the step's own row."""
    trace = hand_trace([[0] * 8])

    def plan(batch: Batch) -> Plan:
        return Plan(2 if batch.step == 2 else 0, num_verify_tokens=batch.num_draft_tokens)

    options = replace(EXACT, catch_up="on_resume")
    config = config_for(trace, 1)
    steps = SimulatedRunner(trace, config, Load(1, num_requests=1), options).run(Scripted(plan)).steps  # type: ignore[arg-type]
    assert steps is not None
    # resume: 2 + .1 * (2 missed + 1 row) + one more pass of 2.1; then 2 rejected drafts' step is idle again
    assert steps["draft_s"][:4] == pytest.approx([0.0, 0.0, 2.3 + 2.1, 0.0])


@pytest.mark.parametrize("kind", ["autoregressive", "autoregressive_no_attention", "parallel"])
def test_one_depth_and_the_same_depth_per_request_cost_the_same(kind: DrafterKind) -> None:
    trace = random_trace(2, kind=kind)
    one = Scripted(lambda b: Plan(2, num_verify_tokens=b.num_draft_tokens))
    each = Scripted(lambda b: Plan(np.full(b.num_requests, 2), num_verify_tokens=b.num_draft_tokens))
    first, second = (run(trace, planner, Load(3)).steps for planner in (one, each))
    assert first is not None
    assert second is not None
    assert first["draft_s"] == pytest.approx(second["draft_s"])
    assert np.array_equal(first["draft_depth"], second["draft_depth"])


def test_an_early_exit_ends_proposals_and_saves_passes() -> None:
    """Confidences .9 .4 .9: a threshold of .5 trips at the second token, after two passes; it may be kept or not."""
    trace = hand_trace([[0] * 8])
    confidence = np.tile(np.array([0.9, 0.4, 0.9], dtype=np.float32), (8, 1))
    trace = replace(trace, confidence=confidence)

    def drafted(exit_rule: EarlyExit) -> tuple[int, float]:
        planner = Scripted(lambda b: Plan(3, num_verify_tokens=b.num_draft_tokens, early_exit=exit_rule))
        steps = run(trace, planner, Load(1, num_requests=1)).steps
        assert steps is not None
        return int(steps["num_draft_tokens"][1]), float(steps["draft_s"][0])

    two_passes = pytest.approx(2.1 + 2.1)
    assert drafted(EarlyExit("confidence", 0.5)) == (1, two_passes)
    assert drafted(EarlyExit("confidence", 0.5, keep_last=True)) == (2, two_passes)
    assert drafted(EarlyExit("product", 0.35)) == (2, pytest.approx(2.1 * 3))
    assert drafted(EarlyExit("product", 0.2)) == (3, pytest.approx(2.1 * 3))
    with pytest.raises(BenchError, match="early exit by entropy needs entropies, which trace hand does not have"):
        drafted(EarlyExit("entropy", 0.5))


def test_lag_shows_older_outcomes_and_confidences() -> None:
    """Overlapped: plan(t) comes before observe(t - 1) and sees the confidences that step t - 1 verified."""
    trace = random_trace(3, num_requests=1, longest=20)
    sync, lagged = (Scripted(lambda b: Plan(2, num_verify_tokens=b.num_draft_tokens)) for _ in range(2))
    run(trace, sync, Load(1, num_requests=1), lag_steps=0)
    run(trace, lagged, Load(1, num_requests=1), lag_steps=1)
    assert sync.order[:4] == ["plan 0", "observe 0", "plan 1", "observe 1"]
    assert lagged.order[:4] == ["plan 0", "plan 1", "observe 0", "plan 2"]
    for before, after in zip(sync.batches, lagged.batches[1:], strict=False):
        if before.request_id[0] == after.request_id[0]:
            np.testing.assert_array_equal(before.confidence, after.confidence)


def test_what_planner_time_adds_to_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Synchronous: plan and observe. Under lag: only what does not fit behind drafting, unless it waits."""
    ticks = iter(float(t) for t in range(1000))
    monkeypatch.setattr("lightspec_bench.runners.replay.time.perf_counter", lambda: next(ticks))  # 1 s a call
    trace = hand_trace([[0] * 6])
    options = SimulatorOptions(sync_s=0.25)

    def exposed(age: ConfidenceAge, depth: int, lag_steps: int) -> float:
        planner = Scripted(lambda b: Plan(depth, num_verify_tokens=b.num_draft_tokens))
        type(planner).confidence = age
        steps = run(trace, planner, Load(1, num_requests=1), lag_steps, options).steps
        assert steps is not None
        return float(steps["exposed_planner_s"][2])

    try:
        assert exposed("lagged", 2, 0) == 2.0
        assert exposed("lagged", 2, 1) == 0.0  # hidden behind drafting
        assert exposed("current", 2, 1) == 1.25
    finally:
        Scripted.confidence = "lagged"


def test_poisson_arrivals_wait_for_a_place() -> None:
    trace = hand_trace([[0, 0, 0]] * 50)
    result = run(trace, NoSpeculation(config_for(trace, 2)), Load(2, "poisson", rate=10.0, num_requests=50))
    requests = result.requests
    gaps = np.diff(requests["arrival_s"])
    assert gaps.mean() == pytest.approx(0.1, rel=0.5)
    waited = requests["start_s"] - requests["arrival_s"]
    assert waited.max() > 100.0  # service takes 24 s for two
    assert (np.diff(requests["start_s"]) >= 0).all()


def test_recorded_arrivals_idle_in_between() -> None:
    trace = hand_trace([[0, 0], [0, 0]], arrival_s=[100.0, 500.0])
    requests = run(trace, NoSpeculation(config_for(trace, 4)), Load(4, "trace")).requests
    assert requests["arrival_s"].tolist() == [0.0, 400.0]
    assert requests["finish_s"].tolist() == [11.5, 411.5]


@pytest.mark.parametrize(
    ("prefill", "first_token_s"),
    [("off", [0.0, 0.0]), ("separate", [34.0, 34.0]), ("chunked", [32.0, 32.0 + 16.5 + 16.5 + 13.5])],
)
def test_prefill_is_priced(prefill: str, first_token_s: list[float]) -> None:
    """Two prompts of 12. Separate: one pass of 24 rows, 10 + 24 s. Chunked by 6 rows: two passes of 6 rows (16 s each)
    for the first prompt; its decode rows then share three steps with 5, 5 and 2 rows of the second, host .5 each."""
    trace = hand_trace([[0] * 8, [0] * 8], num_prompt_tokens=12)
    options = replace(EXACT, prefill=prefill, chunk_tokens=6)  # type: ignore[arg-type]
    requests = run(trace, NoSpeculation(config_for(trace, 2)), Load(2, "trace"), options=options).requests
    assert requests["first_token_s"] == pytest.approx(first_token_s)


def test_a_closed_loop_is_full_to_the_end_and_totals_leave_out_the_warm_up() -> None:
    """Requests beyond the counted ones keep both places taken; a request arrives when it gets a place."""
    trace = hand_trace([[0] * 5, [0] * 9])
    options = replace(EXACT, warmup_steps=1)
    result = run(trace, NoSpeculation(config_for(trace, 2)), Load(2, num_requests=3), options=options)
    assert result.steps is not None
    assert (result.steps["num_requests"] == 2).all()
    assert len(result.requests["request_id"]) == 8  # four for each place
    assert np.array_equal(result.requests["arrival_s"], result.requests["start_s"])
    assert result.totals.num_steps == len(result.steps["step"]) - 1
    assert result.totals.elapsed_s == pytest.approx(result.steps["duration_s"][1:].sum())
    assert result.totals.num_output_tokens == 2 * result.totals.num_steps


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
        (Plan(2, 1, early_exit=EarlyExit("product", 1.5)), "early_exit.threshold is 1.5, expected 0 to 1"),
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Load(0), "concurrency is 0, expected at least 1"),
        (lambda: Load(1, "burst"), "arrivals is 'burst', expected one of closed, poisson, gamma, trace"),
        (lambda: Load(1, "poisson"), "rate is None, expected requests per second above 0"),
        (lambda: Load(1, "gamma", 1.0, cv=-1.0), "cv is -1.0, expected above 0"),
        (lambda: Load(1, num_requests=0), "num_requests is 0, expected at least 1"),
        (lambda: SimulatorOptions(prefill="later"), "prefill is 'later', expected one of off, separate, chunked"),
        (lambda: SimulatorOptions(chunk_tokens=0), "chunk_tokens is 0, expected at least 1"),
        (
            lambda: make_workload(random_trace(1), Load(1, "trace", num_requests=9)),
            "num_requests is 9, expected at most 6",
        ),
    ],
)
def test_bad_settings_are_one_sentence(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BenchError, match=message):
        make()


def test_warm_up_that_leaves_nothing_is_an_error() -> None:
    trace = hand_trace([[0, 0, 0]])
    with pytest.raises(BenchError, match="warmup_steps is 500, which leaves no step to measure"):
        run(trace, NoSpeculation(config_for(trace, 1)), Load(1), options=SimulatorOptions(warmup_steps=500))
