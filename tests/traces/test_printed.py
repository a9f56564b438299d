"""Rounded figures: the number of drafts behind them, where only one fits; bounds, where several do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.acceptance import Counts, from_steps, ratio
from lightspec_bench.skipped import Malformed
from lightspec_bench.traces.printed import printed, with_spec_steps


def test_a_figure_knows_its_rounding() -> None:
    assert (printed("5.44").value, printed("5.44").half) == (5.44, pytest.approx(0.005))


@pytest.mark.parametrize(
    ("accepted", "drafted", "length", "per_pos", "depth", "steps", "survived"),
    [
        (262, 295, "5.44", (".983", ".949", ".915", ".881", ".712"), 5, 59, (58, 56, 54, 52, 42)),
        (0, 495, "1.00", (".000",) * 5, 5, 99, (0,) * 5),
        (0, 15, "1.00", (".000",) * 5, 5, 3, (0,) * 5),
        (167, 259, "2.92", (".805", ".632", ".483"), None, 87, (70, 55, 42)),  # two drafts were shorter than 3
        (257, 388, "3.65", (".804", ".701", ".629", ".515"), None, 97, (78, 68, 61, 50)),
    ],
)
def test_the_number_of_drafts_that_reproduces_what_is_printed(
    accepted: int, drafted: int, length: str, per_pos: tuple[str, ...], depth: int | None, steps: int,
    survived: tuple[int, ...] | None,
) -> None:  # fmt: skip
    counts, in_full = with_spec_steps(accepted, drafted, printed(length), [printed(p) for p in per_pos], depth)
    if accepted == 0:  # any number of drafts prints these figures
        assert (counts.num_spec_steps, counts.spec_steps_bounds) == (None, (steps, drafted))
        assert in_full is not None
        counts = in_full
    assert (counts.num_spec_steps, counts.num_survived_per_pos) == (steps, survived)


def test_without_length_and_positions_nothing_is_known_of_the_drafts() -> None:
    found = with_spec_steps(66, 66, None, [], None)
    assert found == (Counts(num_accepted_tokens=66, num_draft_tokens=66, num_verify_tokens=66), None)


def test_several_numbers_that_fit_are_bounds_and_full_drafts_may_be_among_them() -> None:
    two, _ = with_spec_steps(308, 405, printed("2.52"), [], None)
    assert (two.num_spec_steps, two.spec_steps_bounds) == (None, (202, 203))
    rough, in_full = with_spec_steps(30_000, 61_001, printed("2.47"), [], 5)  # no whole number of drafts of five
    assert (rough.spec_steps_bounds, in_full) == ((20_339, 20_477), None)
    rough, in_full = with_spec_steps(30_000, 61_200, printed("2.47"), [], 3)
    assert (rough.num_spec_steps, in_full and in_full.num_spec_steps) == (None, 20_400)


@pytest.mark.parametrize(
    ("accepted", "length", "per_pos"), [(262, "2.00", ()), (3, "1.00", ()), (0, "1.50", ()), (10, "2.00", (".333",))]
)
def test_figures_that_fit_no_number_are_refused(accepted: int, length: str, per_pos: tuple[str, ...]) -> None:
    with pytest.raises(Malformed, match="contradicts itself"):
        with_spec_steps(accepted, 40, printed(length), [printed(p) for p in per_pos], 5 if per_pos else None)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=200))
@settings(max_examples=60)
def test_what_was_counted_is_never_excluded_by_its_own_figures(steps: list[tuple[int, int]]) -> None:
    """Any run's own figures give its number of drafts, or bounds around it."""
    drafted, accepted = [d for d, _ in steps], [min(d, a) for d, a in steps]
    true = from_steps(drafted, accepted)
    survived = [*(true.num_survived_per_pos or ()), 0, 0, 0, 0][:4]
    length = printed(f"{1 + ratio(sum(accepted), len(steps)):.2f}")
    rates = [printed(f"{ratio(count, len(steps)):.3f}") for count in survived]
    found, in_full = with_spec_steps(sum(accepted), sum(drafted), length, rates, 4)
    if set(drafted) == {4}:
        assert in_full is not None
        assert in_full.num_spec_steps == len(steps)
    low, high = found.bounds or (0, 0)
    assert low <= len(steps) <= high
    if found.num_survived_per_pos is not None:
        assert list(found.num_survived_per_pos) == survived
