"""DSDE: its formulas by hand, the way from warm-up to bounds, the batch cap, and what it says of traces without KL."""

from __future__ import annotations

from math import e, log
from typing import Any

import numpy as np
import pytest

from lightspec_bench.check import check_requires
from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan
from lightspec_bench.planners.dsde import DSDE
from lightspec_bench.planners.dsde_rules import appended, bounds, length, variance_ratio
from lightspec_bench.traces.synthetic import Dials, synthesize

from .drive import drive, made
from .support import batch, engine


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("options", [{}, {"warmup_tokens": 6, "cap": False, "temperature": 0.7}])
def test_it_is_sound(options: dict[str, Any]) -> None:
    assert check_planner("dsde:approximation=entropy", options=options) == []


def test_it_requires_what_no_trace_has() -> None:
    trace = synthesize(Dials(num_requests=2))
    planner = DSDE(engine(7))
    with pytest.raises(BenchError, match=f"^planner dsde needs kl_divergence, which trace {trace.info.name} does not"):
        check_requires(planner.requires, trace, "planner dsde")
    assert DSDE(engine(7), "entropy").requires == {"entropy"}


def test_without_the_signal_every_length_stays_at_the_start() -> None:
    assert drive(DSDE(engine(7)), [1] * 20, lambda t: 7, lambda t: 0.5) == [[3]] * 20


def test_history_keeps_the_newest() -> None:
    old, new = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[7.0, 8, 0], [9, 0, 0]])
    np.testing.assert_array_equal(appended(old, new, ints(2, 0)), [[3, 7, 8], [4, 5, 6]])


def test_variance_ratio() -> None:
    """Without decay: of 1 to 6 the newest two vary by 0.25, all by 35 / 12. Of three values one is newest: no variance.
    One value: nothing to compare. Six equal ones: 20."""
    history = np.array([[1.0, 2, 3, 4, 5, 6], [0, 0, 0, 1, 2, 3], [0, 0, 0, 0, 0, 9], [4, 4, 4, 4, 4, 4]])
    ratio = variance_ratio(history, ints(6, 3, 1, 6), decay=1.0)
    np.testing.assert_allclose(ratio, [0.25 / (35 / 12), 0.0, 0.0, 20.0])


def test_variance_ratio_weighs_the_newest_most() -> None:
    """Weights 0.25, 0.5, 1 on 0, 0, 7: mean 4, variance (0.75 * 16 + 9) / 1.75 = 12; the newest one has none. With six
    values, the newest two 0 and 7 at 0.5 and 1: mean 14 / 3, variance 98 / 9."""
    short = variance_ratio(np.array([[0.0, 0, 7]]), ints(3), decay=0.5)
    assert short.tolist() == [0.0]
    weight = 0.5 ** np.arange(5, -1, -1)
    mean = 7 / weight.sum()
    long = ((weight[:5].sum() * mean**2) + (7 - mean) ** 2) / weight.sum()
    np.testing.assert_allclose(variance_ratio(np.array([[0.0, 0, 0, 0, 0, 7]]), ints(6), decay=0.5), [98 / 9 / long])


def test_length_between_the_bounds() -> None:
    """SF is e^(2d) - 1: 0 at d = 0, 0.5 at log(1.5) / 2, past 1 above log(2) / 2. (8 - 2) * 0.5 + 2 = 5."""
    divergence = np.array([0.0, log(1.5) / 2, 0.35, 0.9])
    lengths = length(np.array([1.0, 1.0, 1.0, 0.0]), divergence, ints(2, 2, 2, 2), ints(8, 8, 8, 8), alpha=2.0)
    assert lengths.tolist() == [8, 5, 2, 8]
    assert length(np.array([0.1]), np.array([0.5]), ints(2), ints(8), 2.0) == [np.ceil(6 * (1 - 0.1 * (e - 1)) + 2)]


def test_bounds() -> None:
    """4 accepted at once, mean half the largest: 4 * 1.25 = 5, a tenth of it 1, raised to 2. 30 accepted: capped at 20.
    Nothing diverged: 3. 30 * 1.5 = 45: a tenth of that, rounded up, is 5."""
    low, high = bounds(np.array([4.0, 30, 3]), np.array([0.5, 1, 0]), np.array([1.0, 1, 0]), 2, 20, 0.5)
    assert (low.tolist(), high.tolist()) == ([2, 2, 2], [5, 20, 3])
    assert bounds(np.array([30.0]), np.array([1.0]), np.array([1.0]), 2, 60, 0.5)[0].tolist() == [5]


def test_warm_up_doubles_after_a_full_accept() -> None:
    """Step 1 accepts 3 of 3 and makes it 6; step 2 still verifies 3, no full accept of 6; step 3 verifies 6 and
    makes it 7 (D). 12 of the 30 tokens are in."""
    assert drive(DSDE(engine(7), "entropy"), [1] * 5, lambda t: 7, lambda t: 1.0) == [[3], [3], [6], [6], [7]]
    assert drive(DSDE(engine(7), "entropy"), [1] * 5, lambda t: 1, lambda t: 1.0) == [[3]] * 5


def test_bounds_follow_the_warm_up() -> None:
    """4 tokens of warm-up: step 1 verifies 3 and accepts them, step 2 makes it 6 and sets the bounds 2 and 3. Without
    divergence the length is the upper one."""
    planner = DSDE(engine(7), "entropy", warmup_tokens=4)
    assert drive(planner, [1] * 6, lambda t: 7, lambda t: 0.0) == [[3], [3], [6], [3], [3], [3]]


def test_divergence_that_newly_varies_leads_to_the_lower_bound() -> None:
    """No warm-up step fits before 7 tokens are in, so the bounds are 2 and 7. Then entropies of 0.1 become 3."""
    planner = DSDE(engine(7), "entropy", k=7, warmup_tokens=6)
    depths = drive(planner, [1] * 5, lambda t: 7, lambda t: 0.0 if t < 3 else 3.0)
    assert depths == [[7], [7], [7], [7], [2]]


@pytest.mark.parametrize(("cap", "lengths"), [(True, [5, 2]), (False, [7, 2])])
def test_no_request_drafts_more_than_the_mean_of_the_batch(cap: bool, lengths: list[int]) -> None:
    """Request 0 does not diverge and wishes 7; request 1 ends its step with entropy 5 after nothing: the newest two
    vary by 6.25, all six by 3.47, SF is e^(10 / 7) - 1 = 3.2, so it wishes 2. ceil(4.5) = 5."""
    planner = DSDE(engine(7), "entropy", k=7, warmup_tokens=6, decay=1.0, cap=cap)
    for last in (0.0, 5.0):
        entropy = np.zeros((2, 7), dtype=np.float32)
        entropy[1, 6] = last
        planner.observe(made(0, Plan(7, 2), ints(0, 1), ints(7, 7), ints(7, 7), ints(7, 7), entropy))
    np.testing.assert_array_equal(planner.plan(batch([7, 7])).num_draft_tokens, lengths)


def test_temperature_divides_the_divergence() -> None:
    assert (DSDE(engine(7), temperature=0.5).alpha, DSDE(engine(7)).alpha) == (4.0, 2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k is 0, expected at least 1"),
        ({"k_min": 0}, "k_min is 0, expected at least 1"),
        ({"k_max": 1}, "k_max is 1, expected at least 2, which is k_min"),
        ({"warmup_tokens": 1}, "warmup_tokens is 1, expected at least 2"),
        ({"alpha": -1.0}, "alpha is -1.0, expected at least 0"),
        ({"decay": 0.0}, "decay is 0.0, expected above 0, at most 1"),
        ({"bound_weight": -0.5}, "bound_weight is -0.5, expected at least 0"),
        ({"temperature": -1.0}, "temperature is -1.0, expected at least 0"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"^dsde: {message}"):
        DSDE(engine(7), **options)
