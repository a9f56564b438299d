"""vLLM's DFlash adaptive K: candidates, scores, and the ratchet that lets K only fall."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.vllm_dflash_adaptive_k import VllmDFlashAdaptiveK, bucket_of, k_candidates

from .support import TableModel, batch, engine, step

# 16 requests verify 16, 32, 64 rows at K = 0, 1, 3; a block is drafted by two passes of 0.25 s.
LATENCY = TableModel({16: 1.0, 32: 1.2, 64: 10.0}, {1: 0.25})


def planner_of(**options: Any) -> VllmDFlashAdaptiveK:
    return VllmDFlashAdaptiveK(engine(3, "parallel", LATENCY, max_num_seqs=16), **options)


def outcome(planner: VllmDFlashAdaptiveK, verify: int, accepted: int, verify_s: float = 1.2, number: int = 16) -> None:
    made = step(Plan(verify, 0), [3] * number, [verify] * number, [accepted] * number)
    planner.observe(replace(made, verify_s=verify_s))


@pytest.mark.parametrize(("depth", "ks"), [(15, [0, 1, 3, 7, 15]), (11, [0, 1, 3, 7, 11]), (2, [0, 1, 2]), (1, [0, 1])])
def test_candidates_have_powers_of_two_rows(depth: int, ks: list[int]) -> None:
    assert k_candidates(depth).tolist() == ks


def test_buckets_are_powers_of_two() -> None:
    assert [bucket_of(n) for n in (1, 2, 3, 16, 17)] == [1, 2, 4, 16, 32]


def test_the_best_candidate_is_verified_and_drafted() -> None:
    """16 / 1, 32 / 1.7 and 64 / 10.5 tokens per second while survival is 1."""
    plan = planner_of().plan(batch([3] * 15 + [2]))
    assert plan.num_draft_tokens == 1
    assert plan.num_verify_tokens is not None
    assert plan.num_verify_tokens.tolist() == [1] * 16


def test_small_batches_draft_everything_and_requests_without_a_draft_do_not_count() -> None:
    assert planner_of().select(15) == 3
    plan = planner_of().plan(batch([3] * 15 + [0]))
    assert plan.num_draft_tokens == 3


def test_a_batch_of_newcomers_keeps_what_is_in_force() -> None:
    planner = planner_of()
    assert planner.select(0) == 3
    planner.select(16)
    assert planner.select(0) == 1


def test_one_loaded_moment_shortens_drafts_for_ever() -> None:
    planner = planner_of()
    assert [planner.select(n) for n in (4, 16, 4, 4)] == [3, 1, 1, 1]
    free = planner_of(ratchet=False)
    assert [free.select(n) for n in (4, 16, 4, 4)] == [3, 1, 3, 3]


def test_zero_is_for_ever() -> None:
    """When survival is gone 16 / 1 beats 16 / 1.7."""
    planner = planner_of(history_weight=1.0, decision_interval=1)
    outcome(planner, 3, 0)
    assert [planner.select(n) for n in (16, 4, 0, 1)] == [0, 0, 0, 0]


def test_a_decision_is_used_twice() -> None:
    planner = planner_of(ratchet=False, history_weight=1.0)
    chosen = [planner.select(16)]
    outcome(planner, 3, 0)
    chosen += [planner.select(16) for _ in range(2)]
    assert chosen == [1, 1, 0]


def test_survival_is_averaged_and_never_rises_along_the_draft() -> None:
    planner = planner_of()
    outcome(planner, 3, 1)
    assert planner.survival == pytest.approx([1.0, 0.8, 0.8])
    outcome(planner, 1, 0)
    assert planner.survival == pytest.approx([0.8, 0.8, 0.8])
    outcome(planner, 1, 0)
    assert planner.survival == pytest.approx([0.64, 0.64, 0.64])


def test_overhead_is_what_verification_took_beyond_its_profile() -> None:
    """Two steps at K = 1 took 5.0 s and 3.2 s where 1.2 s was profiled; K = 3 then has 64 / 14.3 against 32 / 5.3."""
    planner = planner_of()
    outcome(planner, 1, 1, verify_s=5.0)
    outcome(planner, 1, 1, verify_s=3.2)
    assert planner.overhead_s == {16: pytest.approx(3.8 + 0.2 * (2.0 - 3.8))}
    outcome(planner, 2, 2, verify_s=99.0)  # 2 is no candidate, so it has no profile
    assert planner.overhead_s == {16: pytest.approx(3.44)}
    assert planner.best(16) == 1


def test_a_heavy_overhead_makes_longer_drafts_pay() -> None:
    planner = planner_of()
    for _ in range(2):
        outcome(planner, 1, 1, verify_s=100.0)
    assert planner.best(16) == 3


def test_profiled_shapes() -> None:
    """Verification of N requests at K follows the captured sizes; drafting is a whole block at every N."""
    planner = planner_of()
    assert planner.verify_s[16].tolist() == [1.0, 1.2, 10.0]
    assert planner.draft_s[[1, 16]].tolist() == [0.5, 0.5]
    assert (np.diff(planner.verify_s, axis=0) >= 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history_weight": 0.0}, "history_weight is 0.0, expected above 0 and at most 1"),
        ({"decision_interval": 0}, "decision_interval is 0, expected at least 1"),
        ({"full_below": -1}, "full_below is -1, expected at least 0"),
        ({"profile_context_tokens": -1}, "profile_context_tokens is -1, expected at least 0"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"vllm-dflash-adaptive-k: {message}"):
        planner_of(**options)


@pytest.mark.parametrize("options", ["", ":ratchet=false,full_below=0,decision_interval=1"])
def test_it_is_a_sound_planner(options: str) -> None:
    assert check_planner(f"vllm-dflash-adaptive-k{options}") == []
