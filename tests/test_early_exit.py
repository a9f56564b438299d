"""Early exits: where each rule ends hand-made drafts, whole outputs; and what holds of any rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from lightspec_bench.early_exit import SCOPES, SIGNALS, EarlyExit, stopped_drafts
from lightspec_bench.errors import BenchError

CONFIDENCE = np.array([[0.9, 0.8, 0.3, 0.9], [0.9, 0.4, 0.9, 0.9], [0.9, 0.9, 0.9, 0.9]], dtype=np.float32)
ENTROPY = np.array([[0.1, 2.0, 0.1, 0.1], [0.1, 0.1, 0.1, 3.0]], dtype=np.float32)
FULL = np.array([4, 4, 4])


def ends(
    rule: EarlyExit, signal: np.ndarray[Any, Any] = CONFIDENCE, depth: np.ndarray[Any, Any] = FULL
) -> tuple[list[int], list[int]]:
    """Draft tokens kept and passes spent, per request."""
    kept, passes = stopped_drafts(rule, signal, depth)
    return kept.tolist(), passes.tolist()


def test_confidence_stops_below_its_threshold() -> None:
    """The token that stopped a draft was computed, so its pass is spent though it is not kept."""
    assert ends(EarlyExit("confidence", 0.5)) == ([2, 1, 4], [3, 2, 4])
    assert ends(EarlyExit("confidence", 0.95)) == ([0, 0, 0], [1, 1, 1])
    assert ends(EarlyExit("confidence", 0.0)) == ([4, 4, 4], [4, 4, 4])


def test_a_confidence_at_the_threshold_does_not_stop() -> None:
    exact = np.array([[0.5, 0.25]], dtype=np.float32)
    assert ends(EarlyExit("confidence", 0.5), exact, np.array([2])) == ([1], [2])
    assert ends(EarlyExit("confidence", 0.25), exact, np.array([2])) == ([2], [2])


def test_product_is_of_all_tokens_so_far() -> None:
    """Products 0.9, 0.72, 0.216; 0.9, 0.36; 0.9, 0.81, 0.729, 0.6561."""
    assert ends(EarlyExit("product", 0.7)) == ([2, 1, 3], [3, 2, 4])
    assert ends(EarlyExit("product", 0.3)) == ([2, 3, 4], [3, 4, 4])


def test_entropy_stops_above_its_threshold() -> None:
    depth = np.array([4, 4])
    assert ends(EarlyExit("entropy", 1.0), ENTROPY, depth) == ([1, 3], [2, 4])
    assert ends(EarlyExit("entropy", 2.5), ENTROPY, depth) == ([4, 3], [4, 4])
    assert ends(EarlyExit("entropy", np.inf), ENTROPY, depth) == ([4, 4], [4, 4])


def test_the_token_that_stopped_a_draft_can_be_kept() -> None:
    assert ends(EarlyExit("confidence", 0.5, keep_last=True)) == ([3, 2, 4], [3, 2, 4])
    assert ends(EarlyExit("entropy", 1.0, keep_last=True), ENTROPY, np.array([4, 4])) == ([2, 4], [2, 4])


def test_nothing_is_drafted_past_the_planned_depth() -> None:
    assert ends(EarlyExit("confidence", 0.5), depth=np.array([4, 1, 2])) == ([2, 1, 2], [3, 1, 2])
    assert ends(EarlyExit("confidence", 0.95, keep_last=True), depth=np.array([0, 1, 4])) == ([0, 1, 1], [0, 1, 1])
    beyond = np.where(np.arange(4) < 2, CONFIDENCE, np.nan)
    assert ends(EarlyExit("product", 0.75), beyond, np.array([2, 2, 2])) == ([1, 1, 2], [2, 2, 2])


def test_every_request_has_its_own_threshold() -> None:
    rule = EarlyExit("confidence", np.array([0.2, 0.5, 0.95]))
    assert ends(rule) == ([4, 1, 0], [4, 2, 1])
    assert ends(rule.of(np.array([False, True, True])), CONFIDENCE[1:], FULL[1:]) == ([1, 0], [2, 1])
    assert ends(rule.of([2]), CONFIDENCE[:1], FULL[:1]) == ([0], [1])
    assert EarlyExit("confidence", 0.5).of([0, 1]) == EarlyExit("confidence", 0.5)


def test_the_mean_stops_all_requests_at_once() -> None:
    """Means 0.9, 0.7, 0.7, 0.9 over all three."""
    assert ends(EarlyExit("confidence", 0.75, scope="mean")) == ([1, 1, 1], [2, 2, 2])
    assert ends(EarlyExit("confidence", 0.75, scope="mean", keep_last=True)) == ([2, 2, 2], [2, 2, 2])
    assert ends(EarlyExit("confidence", 0.65, scope="mean")) == ([4, 4, 4], [4, 4, 4])
    both = np.array([4, 4])
    assert ends(EarlyExit("entropy", 1.0, scope="mean"), ENTROPY, both) == ([1, 1], [2, 2])
    assert ends(EarlyExit("product", 0.6, scope="mean")) == ([2, 2, 2], [3, 3, 3])  # 0.9, 0.66, 0.423


def test_the_mean_is_over_the_requests_still_drafting() -> None:
    """Without the second request the means are 0.9, 0.85, 0.6, 0.9; without the first 0.9 throughout the third."""
    assert ends(EarlyExit("confidence", 0.75, scope="mean"), depth=np.array([4, 1, 4])) == ([2, 1, 2], [3, 1, 3])
    assert ends(EarlyExit("confidence", 0.75, scope="mean"), depth=np.array([2, 1, 4])) == ([2, 1, 4], [2, 1, 4])


def test_all_go_on_until_every_draft_is_dead() -> None:
    assert ends(EarlyExit("confidence", 0.5, scope="all")) == ([4, 4, 4], [4, 4, 4])
    two = (CONFIDENCE[:2], FULL[:2])
    assert ends(EarlyExit("confidence", 0.5, scope="all"), *two) == ([2, 2], [3, 3])
    assert ends(EarlyExit("confidence", 0.5, scope="all", keep_last=True), *two) == ([3, 3], [3, 3])
    own = EarlyExit("confidence", np.array([0.5, 0.2]), scope="all")
    assert ends(own, *two) == ([4, 4], [4, 4])


def test_a_draft_at_its_end_counts_as_dead() -> None:
    assert ends(EarlyExit("confidence", 0.5, scope="all"), depth=np.array([4, 4, 2])) == ([2, 2, 2], [3, 3, 2])
    assert ends(EarlyExit("confidence", 0.5, scope="all"), depth=np.array([4, 0, 0])) == ([2, 0, 0], [3, 0, 0])


def test_no_draft_stops_before_the_minimum() -> None:
    """Passes that the minimum asks for are spent, and the first token past it may stop the draft again."""
    assert ends(EarlyExit("confidence", 0.5, min_draft_tokens=2)) == ([2, 2, 4], [3, 2, 4])
    assert ends(EarlyExit("confidence", 0.5, min_draft_tokens=3)) == ([3, 4, 4], [3, 4, 4])
    assert ends(EarlyExit("confidence", 0.95, min_draft_tokens=3, keep_last=True)) == ([3, 3, 3], [3, 3, 3])
    assert ends(EarlyExit("confidence", 0.95, min_draft_tokens=3), depth=np.array([1, 2, 4])) == ([1, 2, 3], [1, 2, 3])
    dead = EarlyExit("confidence", 0.95, scope="all", min_draft_tokens=1)
    assert ends(dead) == ([1, 1, 1], [1, 1, 1])


def test_a_short_draft_is_dropped_whole() -> None:
    assert ends(EarlyExit("confidence", 0.5, drop_below=2)) == ([2, 0, 4], [3, 2, 4])
    assert ends(EarlyExit("confidence", 0.5, keep_last=True, drop_below=3)) == ([3, 0, 4], [3, 2, 4])
    assert ends(EarlyExit("confidence", 0.5, drop_below=5)) == ([0, 0, 0], [3, 2, 4])


def test_an_empty_batch() -> None:
    for scope in SCOPES:
        assert ends(EarlyExit("confidence", 0.5, scope=scope), np.zeros((0, 4)), np.zeros(0, dtype=int)) == ([], [])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"signal": "margin"}, "early_exit.signal is 'margin', expected one of confidence, product, entropy"),
        ({"scope": "any"}, "early_exit.scope is 'any', expected one of request, mean, all"),
        ({"threshold": 1.5}, "early_exit.threshold is 1.5, expected 0 to 1"),
        ({"threshold": -0.5}, "early_exit.threshold is -0.5, expected 0 to 1"),
        ({"threshold": np.array([0.5, np.nan])}, "early_exit.threshold is nan, expected 0 to 1"),
        ({"signal": "product", "threshold": np.array([0.5, 2.0])}, "early_exit.threshold is 2, expected 0 to 1"),
        ({"signal": "entropy", "threshold": -1.0}, "early_exit.threshold is -1, expected 0 to inf"),
        (
            {"scope": "mean", "threshold": np.array([0.5, 0.5])},
            "early_exit.threshold is one number per request, expected one number for scope mean",
        ),
        ({"min_draft_tokens": -1}, "early_exit.min_draft_tokens is -1, expected 0 or more"),
        ({"drop_below": -2}, "early_exit.drop_below is -2, expected 0 or more"),
    ],
)
def test_errors(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        EarlyExit(**{"signal": "confidence", "threshold": 0.5, **given})
    assert str(error.value) == message


@st.composite
def cases(draw: st.DrawFn) -> tuple[EarlyExit, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    number, width = draw(st.integers(0, 5)), draw(st.integers(1, 6))
    chance = st.floats(0, 1, width=32)
    signal = draw(hnp.arrays(np.float32, (number, width), elements=chance))
    depth = draw(hnp.arrays(np.int64, number, elements=st.integers(0, width)))
    scope = draw(st.sampled_from(SCOPES))
    one = scope == "mean" or draw(st.booleans())
    threshold = draw(chance) if one else draw(hnp.arrays(np.float64, number, elements=chance))
    rule = EarlyExit(
        draw(st.sampled_from(SIGNALS)),
        threshold,
        keep_last=draw(st.booleans()),
        scope=scope,
        min_draft_tokens=draw(st.integers(0, 7)),
        drop_below=draw(st.integers(0, 7)),
    )
    return rule, signal, depth


@given(cases())
def test_bounds_of_any_rule(case: tuple[EarlyExit, np.ndarray[Any, Any], np.ndarray[Any, Any]]) -> None:
    rule, signal, depth = case
    kept, passes = stopped_drafts(rule, signal, depth)
    assert (kept >= 0).all()
    assert (kept <= passes).all()
    assert (passes <= depth).all()
    assert ((kept == 0) | (kept >= rule.drop_below)).all()
    assert (passes >= np.minimum(depth, 1)).all()
    if rule.drop_below == 0:
        assert (kept >= np.minimum(rule.min_draft_tokens, depth)).all()
        assert (passes - kept <= 1).all()


@given(cases())
def test_a_request_alone_stops_where_it_does_in_a_batch(
    case: tuple[EarlyExit, np.ndarray[Any, Any], np.ndarray[Any, Any]],
) -> None:
    """In scope "request"; a stop for the whole batch is the same pass for all that draft so far."""
    rule, signal, depth = case
    kept, passes = stopped_drafts(rule, signal, depth)
    if rule.scope == "request":
        alone = [stopped_drafts(rule.of([row]), signal[[row]], depth[[row]]) for row in range(len(depth))]
        assert [(int(k[0]), int(p[0])) for k, p in alone] == list(zip(kept.tolist(), passes.tolist(), strict=True))
    else:
        assert (passes == np.minimum(depth, passes.max(initial=0))).all()
