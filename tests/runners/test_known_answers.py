"""The simulator against answers known on paper or published: independent draft tokens, an idle drafter."""

from __future__ import annotations

import numpy as np
import pytest

from lightspec_bench.latency import AffineCurve, HostCost, LinearLatency, vllm_49548
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.planners.static import Static
from lightspec_bench.reports import metrics
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.simulated import SimulatedRunner
from tests.runners.planners import EXACT, run
from tests.support import config_for, hand_trace


@pytest.mark.parametrize(("probability", "depth", "expected"), [(0.8, 8, 3.3289), (0.6, 5, 1.3834), (0.3, 1, 0.3)])
def test_independent_draft_tokens(probability: float, depth: int, expected: float) -> None:
    """llama.cpp#3649: sum of i p^i (1 - p) for i < N, and N p^N, are accepted of N draft tokens."""
    weights = [i * probability**i * (1 - probability) for i in range(depth)]
    assert sum(weights) + depth * probability**depth == pytest.approx(expected, abs=5e-5)
    rng = np.random.default_rng(5)
    outcomes = np.minimum(rng.geometric(1 - probability, size=(24, 800)) - 1, depth)
    ahead = np.maximum(np.arange(800)[::-1], 0)
    trace = hand_trace(np.minimum(outcomes, ahead).tolist(), depth)
    totals = run(trace, Static(config_for(trace, 8), k=depth), Load(8, num_requests=24)).totals
    steps = metrics.num_spec_steps(totals)
    spread = float(np.std(outcomes)) / steps**0.5
    assert metrics.mean_acceptance_length(totals) - 1 == pytest.approx(expected, abs=4 * spread)
    survival = probability ** np.arange(1, depth + 1)
    assert metrics.acceptance_rate_per_pos(totals) == pytest.approx(survival, abs=0.03)


@pytest.mark.parametrize(("concurrency", "dearer"), [(2, 0.0656), (189, 0.2158)])
def test_a_loaded_drafter_that_never_drafts_is_not_no_speculation(concurrency: int, dearer: float) -> None:
    """vllm#49548: TPOT 14.374 -> 15.317 ms at 2 requests, 77.164 -> 93.820 ms at 189, with no draft token."""
    line = (77.164 - 14.374) / 187
    latency = LinearLatency(
        name="x", origin="quoted", source="vllm#49548", target=AffineCurve((14.374 - 2 * line) / 1e3, line / 1e3),
        draft=AffineCurve(0.0), host=vllm_49548(HostCost()),
    )  # fmt: skip
    trace = hand_trace([[0] * 20] * concurrency, kind="autoregressive_no_attention")
    config = config_for(trace, concurrency, latency=latency)
    load = Load(concurrency, num_requests=concurrency)
    runner = SimulatedRunner(trace, config, load, EXACT)
    none, depth_0 = (runner.run(planner).totals for planner in (NoSpeculation(config), Static(config, k=0)))
    assert (none.num_draft_tokens, depth_0.num_draft_tokens) == (0, 0)
    assert metrics.step_time_s(depth_0) / metrics.step_time_s(none) - 1 == pytest.approx(dearer, abs=1e-4)
