"""TurboSpec: goodput of each draft length, the scan that stops at the first drop, and the fitted cost."""

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Drafter, EngineConfig, Plan
from lightspec_bench.planners.scan import first_drop
from lightspec_bench.planners.turbospec import TargetCost, TurboSpec, expected_tokens
from lightspec_bench.rehearsal import LinearPrices

from .support import batch, engine, step


def seen(planner: TurboSpec, accepted: list[int], verify: int = 2) -> TurboSpec:
    number = len(accepted)
    planner.observe(step(Plan(planner.k, number), [verify] * number, [verify] * number, accepted))
    return planner


def test_expected_tokens() -> None:
    assert expected_tokens(0.5, np.arange(4)).tolist() == [1.0, 1.5, 1.75, 1.875]
    assert expected_tokens(1.0, np.arange(4)).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert expected_tokens(0.0, np.arange(3)).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("values", "k"), [([1, 2, 2, 3], 1), ([3, 1, 9], 0), ([1, 2, 3], 2), ([1], 0)])
def test_the_scan_stops_at_the_first_drop(values: list[float], k: int) -> None:
    assert first_drop(np.array(values, dtype=float)) == k


def test_goodput_with_the_placeholders_of_the_code() -> None:
    """2 requests, half accepted, 10 context tokens: 2 l(k) over 1 + 0.2 * 2 (k + 1) + 0.3."""
    planner = seen(TurboSpec(engine(3), cost="placeholders"), [2, 0])
    assert planner.acceptance.value == 0.5
    assert planner.goodput(2, 10) == pytest.approx([2 / 1.7, 3 / 2.1, 3.5 / 2.5, 3.75 / 2.9])
    assert first_drop(planner.goodput(2, 10)) == 1


def test_the_code_counts_the_drafted_term_once() -> None:
    planner = seen(TurboSpec(engine(3), cost="placeholders", generated="code"), [2, 0])
    assert planner.goodput(2, 10) == pytest.approx([1 / 1.7, 1.5 / 2.1, 1.75 / 2.5, 1.875 / 2.9])


def test_a_dear_context_makes_drafts_longer() -> None:
    """Two requests of 105 tokens: 21.3 + 0.4 (k + 1), so every further token pays."""
    planner = seen(TurboSpec(engine(3), cost="placeholders", update_interval=1), [2, 0])
    assert planner.plan(batch([2, 2])) == Plan(3, 6)


def test_a_decision_holds_for_an_interval() -> None:
    """Decisions are made after two and four steps, each by the step before: nothing, then everything accepted."""
    planner = TurboSpec(engine(3), cost="placeholders", window=1, update_interval=2)
    depths = []
    for accepted in ([2, 2], [0, 0], [0, 0], [2, 2], [2, 2]):
        seen(planner, accepted)
        depths.append(planner.plan(batch([2, 2])).num_draft_tokens)
    assert depths == [3, 0, 0, 3, 3]


def test_zero_is_a_trap() -> None:
    """At k = 0 nothing is verified, so the estimate stays as it is."""
    planner = seen(TurboSpec(engine(3), cost="placeholders", update_interval=1), [0, 0])
    depths = []
    for _ in range(3):
        depths.append(planner.plan(batch([0, 0])).num_draft_tokens)
        planner.observe(step(Plan(0, 2), [0, 0], [0, 0], [0, 0]))
    assert depths == [0, 0, 0]
    assert planner.acceptance.value == 0.0


def test_a_window_forgets() -> None:
    planner = TurboSpec(engine(3), window=2)
    for accepted in ([2, 2], [0, 0], [1, 1]):
        seen(planner, accepted)
    assert planner.acceptance.value == pytest.approx(0.25)


def test_an_ngram_drafter_has_a_share_of_requests_with_a_match() -> None:
    """One of four requests found a match, of which half was accepted: l(k) + 3 tokens from k + 4 rows."""
    planner = TurboSpec(engine(3, "ngram"), cost="placeholders")
    planner.observe(step(Plan(3, 6), [2, 0, 0, 0], [2, 0, 0, 0], [1, 0, 0, 0]))
    assert planner.match_share.value == 0.25
    rows = np.array([4, 5, 6, 7])
    assert planner.goodput(4, 0) == pytest.approx((np.array([1, 1.5, 1.75, 1.875]) + 3) / (0.2 * rows + 0.3))


def test_the_profile_gives_back_a_linear_model() -> None:
    config = EngineConfig(Drafter("autoregressive", 11), LinearPrices(), 64)
    assert TargetCost(config).coefficients() == pytest.approx([1e-8, 4e-4, 5e-3], rel=1e-6)


def test_observed_steps_outweigh_the_profile_in_time_and_no_coefficient_is_negative() -> None:
    """A machine where context is free, rows cost 1 ms and a step 20 ms; the profile said otherwise."""
    cost = TargetCost(EngineConfig(Drafter("autoregressive", 3), LinearPrices(), 4))
    rng = np.random.default_rng(0)
    for rows, context in zip(rng.integers(4, 32, 3000), rng.integers(100, 9000, 3000), strict=True):
        cost.add(int(context), int(rows), 0.02 + 1e-3 * int(rows))
    kv, row, fixed = cost.coefficients()
    assert 0.0 <= kv < 1e-7
    assert row == pytest.approx(1e-3, rel=0.05)
    assert fixed == pytest.approx(0.02, rel=0.05)
    for _ in range(3000):
        cost.add(50_000, 4, 1e-3)
    assert cost.coefficients().min() == 0.0


@pytest.mark.parametrize("option", ["window", "update_interval"])
def test_options_out_of_range(option: str) -> None:
    with pytest.raises(BenchError, match=f"turbospec: {option} is 0, expected at least 1"):
        TurboSpec(engine(), **{option: 0})


@pytest.mark.parametrize("options", ["", ":cost=placeholders,generated=code,update_interval=1"])
def test_it_is_a_sound_planner(options: str) -> None:
    assert check_planner(f"turbospec{options}") == []
