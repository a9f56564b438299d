"""What a simulated step costs and what a planner sees of it: depth 0, catch-up, exits, planner time, prefill, lag."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightspec_bench.core import (
    Batch,
    BenchError,
    ConfidenceAge,
    DrafterKind,
    EarlyExit,
    Plan,
)
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.planners.static import Static
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.simulated import SimulatedRunner
from tests.runners.planners import EXACT, Scripted, run
from tests.support import config_for, hand_trace, random_trace


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


def test_what_planner_time_adds_to_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Synchronous: plan and observe. Under lag: only what does not fit behind drafting, unless it waits."""
    ticks = iter(float(t) for t in range(1000))
    monkeypatch.setattr("lightspec_bench.runners.replay.time.perf_counter", lambda: next(ticks))  # 1 s a call
    trace = hand_trace([[0] * 6])
    options = SimulatorOptions(sync_s=0.25)
    uncharged = SimulatorOptions(sync_s=0.25, planner_time="off")

    def exposed(age: ConfidenceAge, depth: int, lag_steps: int, options: SimulatorOptions = options) -> float:
        planner = Scripted(lambda b: Plan(depth, num_verify_tokens=b.num_draft_tokens))
        type(planner).confidence = age
        steps = run(trace, planner, Load(1, num_requests=1), lag_steps, options).steps
        assert steps is not None
        return float(steps["exposed_planner_s"][2])

    try:
        assert exposed("lagged", 2, 0) == 2.0
        assert exposed("lagged", 2, 1) == 0.0  # hidden behind drafting
        assert exposed("current", 2, 1) == 1.25
        assert exposed("current", 2, 1, uncharged) == 0.25  # the engine waits, whoever plans
    finally:
        Scripted.confidence = "lagged"


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
