"""The LightSpec planner in an engine: what it makes of batches and steps, and agreement with the rules spelled out."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.check import check_plan
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.lightspec_reference import LightSpec, LightSpecReference
from lightspec_bench.planners.lightspec_tables import CostTable

from .literal_lightspec import LiteralLightSpec
from .support import TableModel, batch, engine, step

FLAT = TableModel({n: 1.0 + 0.01 * n for n in range(1, 2049)}, dict.fromkeys(range(1, 257), 0.1))


def costs(keys: list[int], seed: int) -> dict[int, float]:
    """Small multiples of a quarter, so that equal prices are common."""
    values = np.cumsum(np.random.default_rng(seed).integers(0, 4, len(keys))) / 4 + 0.25
    return dict(zip(keys, values.tolist(), strict=True))


@settings(max_examples=150, deadline=None)
@given(
    mode=st.sampled_from(["eagle3", "eagle_no_att", "dflash"]),
    most=st.integers(1, 5),
    target_keys=st.sets(st.integers(1, 60), min_size=1, max_size=25),
    draft_keys=st.sets(st.integers(1, 60), min_size=1, max_size=10),
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=25),
    acceptance=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    seed=st.integers(0, 2**32 - 1),
)
def test_decisions_are_those_of_the_rules(mode, most, target_keys, draft_keys, sizes, acceptance, seed) -> None:
    rng = np.random.default_rng(seed)
    target, draft = costs(sorted(target_keys), seed), costs(sorted(draft_keys), seed + 1)
    fast = LightSpec(mode, most, CostTable.of(target), CostTable.of(draft))
    literal = LiteralLightSpec(mode, most, target, draft)
    for t, n in enumerate(sizes):
        ready = n if rng.random() < 0.8 else int(rng.integers(0, n + 1))
        expected = literal.plan(n, ready, n * (most + 1))
        made = fast.plan(n, ready, n * (most + 1))
        assert (made.num_target_tokens, made.previous_depth, made.next_depth) == expected
        if n == 0 or ready < n:
            continue
        rows, depth, _ = expected
        verified = np.minimum((rows - n) // n + (np.arange(n) < (rows - n) % n), depth)
        accepted = np.minimum(rng.geometric(1 - 0.99 * acceptance[t % len(acceptance)], n) - 1, verified)
        literal.update(n, rows, depth, (accepted + 1).tolist())
        fast.update(rows, depth, accepted + 1)
        for d in literal.depths():
            for b in literal.candidates(n, n * (d + 1)):
                assert fast.prices.price(n, b, d) == literal.price(n, b, d)


def test_prices_of_kept_candidates_follow_every_update() -> None:
    """A progress sample re-prices one candidate, a survival sample all: the kept prices equal fresh ones."""
    planner = LightSpec("eagle3", 3, CostTable.of(FLAT.verify), CostTable.of(FLAT.draft))
    for rows, depth, lengths in (
        (16, 3, [4, 1, 2, 1]),
        (9, 3, [2, 2, 1, 1]),
        (8, 1, [2, 1, 1, 1]),
        (9, 3, [3, 1, 1, 1]),
    ):
        planner.update(rows, depth, np.array(lengths))
        kept = planner.candidates(4)
        kept.refresh()
        fresh = [planner.prices.price(4, b, d) for b, d in zip(kept.rows.tolist(), kept.depth.tolist(), strict=True)]
        assert kept.price.tolist() == fresh


def test_a_configuration_that_is_no_candidate_is_learnt_but_never_planned() -> None:
    """Short proposals end at rows that no graph has; only such a step may then use what was learnt."""
    planner = LightSpec("eagle_no_att", 3, CostTable.of({4: 1.0, 8: 1.5, 16: 3.0}), CostTable.of({4: 0.0}))
    planner.candidates(4)
    planner.update(11, 3, np.array([3, 3, 3, 2]), full_width=True)
    assert 11 not in planner.candidates(4).rows
    assert planner.prices.progress(4, 11, 3) == 1.0
    made = planner.plan(4, 4, 11)
    assert (made.num_target_tokens, planner.prices.price(4, 11, 3)) == (8, 3.0 / 11)


def test_first_steps_in_an_engine() -> None:
    """No proposal yet: one row each. Then everything, until a step of only proposals has been observed."""
    planner = LightSpecReference(engine(3, latency=FLAT))
    first = planner.plan(batch([0, 0], 0))
    assert first == Plan(num_draft_tokens=3, num_target_tokens=2)
    planner.observe(step(first, [0, 0], [0, 0], [0, 0], 0))
    mixed = planner.plan(batch([3, 0], 1))
    assert mixed == Plan(num_draft_tokens=3, num_target_tokens=5)
    planner.observe(step(mixed, [3, 0], [3, 0], [3, 0], 1))
    assert planner.rules.statistics.progress == {}
    whole = planner.plan(batch([3, 3], 2))
    assert whole == Plan(num_draft_tokens=3, num_target_tokens=8)
    planner.observe(step(whole, [3, 3], [3, 3], [2, 0], 2))
    assert planner.rules.statistics.progress[2][8, 3].value == 0.5
    assert planner.rules.statistics.survival.tolist() == [0.5, 0.5, 0.0]


def test_a_late_observation_counts_for_its_own_plan() -> None:
    """Under lag 1 a step is observed after the next one is planned, whose depth is another."""
    planner = LightSpecReference(engine(3, latency=FLAT, lag_steps=1))
    plans = [planner.plan(batch([3, 3], 0))]
    plans.append(planner.plan(batch([3, 3], 1)))
    planner.observe(step(plans[0], [3, 3], [3, 3], [0, 0], 0))
    plans.append(planner.plan(batch([3, 3], 2)))
    planner.observe(step(plans[1], [3, 3], [3, 3], [0, 0], 1))
    assert plans[2].num_draft_tokens == 1
    plans.append(planner.plan(batch([1, 1], 3)))
    planner.observe(step(plans[2], [3, 3], [0, 0], [0, 0], 2))
    planner.observe(step(plans[3], [1, 1], [0, 0], [0, 0], 3))
    assert {key: a.count for key, a in planner.rules.statistics.progress[2].items()} == {
        (8, 3): 2,
        (2, 3): 1,
        (2, 1): 1,
    }


def test_a_step_that_was_never_planned_is_ignored() -> None:
    planner = LightSpecReference(engine(3, latency=FLAT))
    planner.plan(batch([3, 3], 4))
    planner.plan(batch([3, 3], 5))
    planner.observe(step(Plan(3, 8), [3, 3], [3, 3], [1, 1], 3))
    assert planner.rules.statistics.progress == {}
    planner.observe(step(Plan(3, 8), [3, 3], [3, 3], [1, 1], 5))
    assert planner.rules.statistics.progress[2][8, 3].value == 0.5


def test_short_proposals_of_an_ngram_drafter_bound_the_budget() -> None:
    """A request that found nothing still has a proposal; verifying all that is pending teaches survival."""
    planner = LightSpecReference(engine(3, "ngram", FLAT))
    pending = batch([2, 0, 3], 0, num_output_tokens=[5, 6, 7])
    made = planner.plan(pending)
    check_plan(made, pending, 3, "lightspec-reference")
    assert made == Plan(num_draft_tokens=3, num_target_tokens=8)
    planner.observe(step(made, [2, 0, 3], [2, 0, 3], [2, 0, 1], 0))
    assert planner.rules.statistics.progress[3][8, 3].value == 6 / 8
    assert planner.rules.statistics.survival == pytest.approx([2 / 3, 1 / 3, 0])


@pytest.mark.parametrize(
    ("kind", "mode", "depths"),
    [
        ("autoregressive", "eagle3", [1, 2, 3]),
        ("autoregressive_no_attention", "eagle_no_att", [0, 1, 2, 3]),
        ("parallel", "dflash", [3]),
        ("ngram", "eagle_no_att", [0, 1, 2, 3]),
    ],
)
def test_rules_follow_the_drafter(kind, mode, depths) -> None:
    prices = LightSpecReference(engine(3, kind)).rules.prices
    assert (prices.mode, [*prices.depths]) == (mode, depths)


def test_options() -> None:
    planner = LightSpecReference(engine(3), "vanilla_no_att", 8, 2, 4)
    assert planner.rules.prices.mode == "vanilla_no_att"
    assert planner.rules.prices.target.sizes.tolist() == [*range(1, 9), *range(12, 33, 4)]
    with pytest.raises(BenchError, match="graph_split_batch_size is -1, expected at least 1"):
        LightSpecReference(engine(3), graph_split_batch_size=-1)


def test_candidates_of_few_batch_sizes_are_kept() -> None:
    planner = LightSpec("eagle3", 1, CostTable.of({1: 1.0}), CostTable.of({1: 1.0}))
    for n in range(1, 200):
        planner.candidates(n)
    assert (len(planner._candidates), min(planner._candidates)) == (128, 72)
