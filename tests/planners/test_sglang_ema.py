"""SGLang's adaptive tiers: a slot's decisions by hand, routing, and the flapping its published numbers allow."""

from __future__ import annotations

from typing import Any

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.sglang_ema import DEFAULT_TIERS, SGLangEma
from lightspec_bench.planners.sglang_ema_slot import Slot, SlotRules

from .drive import drive, switches
from .support import batch, engine

AT_ONCE = {"update_interval": 1, "warmup_batches": 0}


def moves(rules: SlotRules, start: int, accepted: list[float]) -> list[int]:
    """A slot's steps after each batch."""
    slot, steps = Slot(rules, start), []
    for tokens in accepted:
        slot.update(tokens)
        steps.append(slot.steps)
    return steps


@pytest.mark.parametrize("options", [{}, {"version": "13d3f642"}, {"tiers": {1: [0, 2], 3: [0]}, **AT_ONCE}])
def test_it_is_sound(options: dict[str, Any]) -> None:
    assert check_planner("sglang-ema", options=options) == []


def test_up_past_half_a_token_below_the_steps() -> None:
    """At 3 the average starts at 2: 2.2, 2.36, 2.488 are not above 2.5, 2.5904 is; at 5 it would take 4.5."""
    assert moves(SlotRules((1, 3, 5, 7), **AT_ONCE), 3, [3.0] * 5) == [3, 3, 3, 5, 5]


def test_down_at_the_candidate_below() -> None:
    """At 3 with down_hysteresis -0.25 it takes an average up to 0.25: 2 * 0.8^9 = 0.268, 2 * 0.8^10 = 0.215."""
    assert moves(SlotRules((1, 3, 5, 7), **AT_ONCE), 3, [0.0] * 10) == [3] * 9 + [1]


def test_several_candidates_down_at_once() -> None:
    """At 7 the average starts at 6; with weight 0.97 it is 0.18 after one empty batch, below 4.25, 2.25 and 0.25."""
    assert moves(SlotRules((1, 3, 5, 7), ema_alpha=0.97, **AT_ONCE), 7, [0.0]) == [1]


def test_warm_up_and_interval() -> None:
    """Ten batches of warm-up, then every fifth: the 15th decides."""
    assert moves(SlotRules((1, 3, 5, 7)), 3, [3.0] * 20) == [3] * 14 + [5] * 6


def test_zero_is_reached_and_left() -> None:
    """2 * 0.8^7 = 0.419 is at most 0.5, the threshold of 1 and of 0 alike; from 0 the next decision probes 1."""
    rules = SlotRules((0, 1, 3), down_hysteresis=0.0, **AT_ONCE)
    assert moves(rules, 3, [0.0] * 10) == [3] * 6 + [0, 1, 0, 1]
    assert moves(rules, 3, [0.0] * 8 + [1.0] * 3) == [3] * 6 + [0, 1, 3, 3, 3]


def test_a_probe_of_a_slot_that_never_drafted_starts_neutral() -> None:
    slot = Slot(SlotRules((0, 3), **AT_ONCE), 0)
    assert slot.ema == -1.0
    slot.update(0.0)
    assert (slot.steps, slot.ema) == (3, 2.0)


def test_zero_steps_teach_nothing() -> None:
    slot = Slot(SlotRules((0, 1), update_interval=5, warmup_batches=0), 0)
    for _ in range(4):
        slot.update(7.0)
    assert (slot.steps, slot.ema, slot.num_batches) == (0, -1.0, 4)


def test_the_ceiling_caps_what_does_not_rise() -> None:
    """At 7, average 0.8 * 6 + 0.2 * 3 = 5.4: ceil(5.4) = 6 allows 5. From 3 a rise to 5 is not capped."""
    assert moves(SlotRules((1, 3, 5, 7), ceiling_coeff=1.0, **AT_ONCE), 7, [3.0]) == [5]
    assert moves(SlotRules((1, 3, 5, 7), ceiling_coeff=0.1, ema_alpha=1.0, **AT_ONCE), 3, [3.0]) == [5]


def test_a_start_that_is_no_candidate_is_the_middle_one() -> None:
    assert [Slot(SlotRules(c), 3).steps for c in ((0, 1), (0, 1, 4), (2, 4, 6, 8))] == [1, 1, 6]


def test_the_old_version_runs_both_loops() -> None:
    """With up_hysteresis -3 the average 0.2 is down to 1 and up again in one decision; the new version stays down."""
    common: dict[str, Any] = {"ema_alpha": 0.9, "up_hysteresis": -3.0, **AT_ONCE}
    assert moves(SlotRules((1, 3, 7), probes_zero=False, **common), 3, [0.0]) == [7]
    assert moves(SlotRules((1, 3, 7), **common), 3, [0.0]) == [1]


def test_the_old_version_adds_the_first_steps_to_the_candidates() -> None:
    planner = SGLangEma(engine(7), version="13d3f642", num_steps=4)
    assert planner.slots[1].rules.candidates == (1, 3, 4, 7)
    assert planner.plan(batch([0] * 200)).num_draft_tokens == 4


def test_tiers_by_batch_size() -> None:
    """Start 3 in the first two; the middle of [0, 1] is 1; [0] never drafts."""
    planner = SGLangEma(engine(7))
    sizes = (0, 1, 7, 8, 31, 32, 63, 64, 256)
    assert [planner.plan(batch([0] * n)).num_draft_tokens for n in sizes] == [3, 3, 3, 3, 3, 1, 1, 0, 0]


def test_a_batch_is_padded_before_it_takes_its_tier() -> None:
    """7 requests run in the graph of 8; 9, above all graphs, as they are."""
    tiers = {1: [5], 8: [2]}
    padded = SGLangEma(engine(7), tiers=tiers, cuda_graph_bs=[1, 2, 4, 8])
    assert [padded.plan(batch([0] * n)).num_draft_tokens for n in (4, 5, 7, 9)] == [5, 2, 2, 2]
    plain = SGLangEma(engine(7), tiers=tiers)
    assert [plain.plan(batch([0] * n)).num_draft_tokens for n in (4, 5, 7, 9)] == [5, 5, 5, 2]


def test_candidates_are_cut_to_the_drafter() -> None:
    planner = SGLangEma(engine(4))
    assert [slot.rules.candidates for slot in planner.slots.values()] == [(1, 3, 4), (0, 1, 3), (0, 1), (0,)]
    assert SGLangEma(engine(1)).slots[1].rules.candidates == (1,)


def test_an_outcome_is_credited_to_the_size_that_drafted_it() -> None:
    """Two requests draft, one is left to verify: the tier of two learns."""
    planner = SGLangEma(engine(7), tiers={1: [3], 2: [3]})
    drive(planner, [2, 1], lambda t: 3)
    assert (planner.slots[1].num_batches, planner.slots[2].num_batches) == (0, 1)


def test_a_proposal_from_before_a_move_teaches_nothing() -> None:
    """Weight 1, decided every batch. Step 1 raises 3 to 5; step 2 verifies the 3 planned before, and does not count."""
    planner = SGLangEma(engine(7), tiers={1: [3, 5]}, ema_alpha=1.0, **AT_ONCE)
    assert drive(planner, [1] * 4, lambda t: 5 if t == 1 else 0) == [3, 3, 5, 5]
    assert planner.slots[1].num_batches == 2


def test_newcomers_only_teach_nothing() -> None:
    planner = SGLangEma(engine(7), **AT_ONCE)
    drive(planner, [2, 0, 2, 0, 2], lambda t: 0)
    assert planner.slots[1].num_batches == 0


def test_flapping_between_candidates_without_hysteresis() -> None:
    """Easy and hard text in turn, five steps each: the average swings about 2.5, where going up from 3 and down from 5
    meet at hysteresis 0. A band of 0.4 either way ends it."""
    tiers = {"1": [3, 5]}

    def hovering(t: int) -> int:
        return 3 if t // 6 % 2 else 2

    bare = SGLangEma(engine(7), tiers=tiers, up_hysteresis=0.0, down_hysteresis=0.0)
    assert switches(drive(bare, [1] * 1000, hovering)) > 100
    banded = SGLangEma(engine(7), tiers=tiers, up_hysteresis=0.4, down_hysteresis=-0.4)
    assert switches(drive(banded, [1] * 1000, hovering)) == 0


def test_a_hopeless_drafter_goes_zero_one_zero_one() -> None:
    """Published tier of 8 requests: once down, every fifth batch at 0 probes 1, every fifth at 1 gives up."""
    depths = drive(SGLangEma(engine(7)), [8] * 1000, lambda t: 0)
    assert switches(depths) > 150
    assert set(map(str, depths[50:])) == {"0", "1"}


def test_the_tier_of_many_requests_is_a_trap_at_zero() -> None:
    """However good the drafter, [0] has nowhere to go."""
    assert drive(SGLangEma(engine(7)), [64] * 300, lambda t: 7) == [0] * 300


def test_published_tiers() -> None:
    assert {key: tier["candidate_steps"] for key, tier in DEFAULT_TIERS.items()} == {
        "1": [1, 3, 5, 7],
        "8": [0, 1, 3],
        "32": [0, 1],
        "64": [0],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tiers": {}}, "tiers is {}, expected at least one batch size"),
        ({"tiers": {"x": [1]}}, "tiers batch size is 'x', expected a whole number"),
        ({"tiers": {1: []}}, r"tiers\[1\] is \[\], expected a list of whole numbers"),
        ({"tiers": {1: [-1]}}, r"tiers\[1\] is \[-1\], expected at least 0 each"),
        ({"tiers": {1: {"up_hysteresis": 0.1}}}, r"tiers\[1\] is {'up_hysteresis': 0.1}, expected candidate_steps"),
        ({"tiers": {1: {"candidates": [1]}}}, r"tiers\[1\] has 'candidates', did you mean 'candidate_steps'"),
        (
            {"tiers": {1: {"candidate_steps": [1], "up_hysteresis": "no"}}},
            r"tiers\[1\] up_hysteresis is no, expected a number",
        ),
        ({"version": "13d3f642", "tiers": {1: [0, 1]}}, r"tiers\[1\] is \[0, 1\], expected at least 1 each"),
        ({"version": "13d3f642", "tiers": {1: [1], 8: [1]}}, "expected one batch size in version 13d3f642"),
        ({"num_steps": -1}, "num_steps is -1, expected at least 0"),
        ({"ema_alpha": 0.0}, "ema_alpha is 0.0, expected above 0, at most 1"),
        ({"update_interval": 0}, "update_interval is 0, expected at least 1"),
        ({"warmup_batches": -1}, "warmup_batches is -1, expected at least 0"),
        ({"up_hysteresis": float("nan")}, "up_hysteresis is nan, expected a number"),
        ({"ceiling_coeff": -1.0}, "ceiling_coeff is -1.0, expected at least 0"),
        ({"cuda_graph_bs": [0, 4]}, r"cuda_graph_bs is \[0, 4\], expected at least 1 each"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=rf"^sglang-ema: .*{message}"):
        SGLangEma(engine(7), **options)
