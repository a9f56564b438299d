"""ROC thresholds: hand-made curves, the same curve by plain loops, histories in slots."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from lightspec_bench.planners.roc_threshold import PairHistories, best_thresholds, pair_keys

Pairs = list[tuple[float, bool]]


def best(*histories: Pairs, miss_weight: float = 3.0, min_pairs: int = 5) -> list[float | None]:
    """The threshold of each history, None where it has none."""
    width = max(map(len, histories))
    keys = np.full((len(histories), width), -1)
    for row, pairs in enumerate(histories):
        probability, matched = np.array([p for p, _ in pairs], dtype=np.float32), np.array([m for _, m in pairs])
        keys[row, width - len(pairs) :] = pair_keys(probability, matched, np.ones(len(pairs), dtype=bool))
    keys.sort(axis=1)
    thresholds, known = best_thresholds(keys, miss_weight, min_pairs)
    return [round(float(t), 6) if k else None for t, k in zip(thresholds, known, strict=True)]


SIX: Pairs = [(0.9, True), (0.8, True), (0.7, False), (0.6, True), (0.5, False), (0.4, False)]


def test_costs_by_hand() -> None:
    """fpr + 3 fnr: 0.9 -> 2, 0.8 -> 1, 0.7 -> 4/3, 0.6 -> 1/3, 0.5 -> 2/3, 0.4 -> 1.

    With weight 1/2: 1/3, 1/6, 1/2, 1/3, 2/3, 1. With weight 0 the highest of those that pass no miss.
    """
    assert best(SIX) == [0.6]
    assert best(SIX, miss_weight=0.5) == [0.8]
    assert best(SIX, miss_weight=0.0) == [0.9]


def test_of_equal_costs_the_highest_threshold() -> None:
    """Weight 1: 0.9 costs 0 + 1/2, 0.6 costs 1/2 + 0."""
    four: Pairs = [(0.9, True), (0.7, False), (0.6, True), (0.5, False)]
    assert best(four, miss_weight=1.0, min_pairs=3) == [0.9]


def test_pairs_with_one_probability_pass_together() -> None:
    """0.8 passes a miss as well (cost 1/2 + 0), 0.9 misses half (0 + 3/2)."""
    tied: Pairs = [(0.9, True), (0.8, True), (0.8, False), (0.2, False)]
    assert best(tied, min_pairs=3) == [0.8]


def test_a_threshold_needs_enough_pairs_of_both_kinds() -> None:
    assert best(SIX[:5], [(0.5, True)] * 6, [(0.5, False)] * 7, SIX) == [None, None, None, 0.6]
    assert best(SIX[:5], min_pairs=4) == [0.6]
    assert best_thresholds(np.zeros((2, 0), dtype=np.int64), 3.0, 5)[1].tolist() == [False, False]


def test_pairs_that_do_not_count_are_no_keys() -> None:
    keys = pair_keys(np.array([0.5, np.nan], dtype=np.float32), np.array([True, False]), np.array([True, False]))
    assert keys.tolist() == [2 * int(np.float32(0.5).view(np.int32)) + 1, -1]


def plain(pairs: Pairs, miss_weight: float, min_pairs: int) -> float | None:
    """The same by loops over thresholds."""
    positives = sum(matched for _, matched in pairs)
    negatives = len(pairs) - positives
    if len(pairs) <= min_pairs or not positives or not negatives:
        return None
    cheapest: tuple[float, float] | None = None
    for threshold in sorted({p for p, _ in pairs}, reverse=True):
        passed = [matched for p, matched in pairs if p >= threshold]
        cost = (len(passed) - sum(passed)) / negatives + miss_weight * (1.0 - sum(passed) / positives)
        if cheapest is None or cost < cheapest[0]:
            cheapest = cost, threshold
    assert cheapest is not None
    return round(cheapest[1], 6)


history = st.lists(st.tuples(st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 1.0]), st.booleans()), max_size=12)


@given(st.lists(history, min_size=1, max_size=4), st.sampled_from([0.0, 1.0, 3.0]), st.integers(0, 6))
def test_equal_to_plain_loops(histories: list[Pairs], miss_weight: float, min_pairs: int) -> None:
    expected = [plain(pairs, miss_weight, min_pairs) for pairs in histories]
    assert best(*histories, miss_weight=miss_weight, min_pairs=min_pairs) == expected


def test_many_requests_are_looked_at_in_blocks() -> None:
    rng = np.random.default_rng(0)
    keys = pair_keys(rng.random((700, 50), dtype=np.float32), rng.random((700, 50)) < 0.6, np.full((700, 50), True))
    keys.sort(axis=1)
    together, known = best_thresholds(keys, 3.0, 5)
    alone = [float(best_thresholds(keys[[row]], 3.0, 5)[0][0]) for row in range(700)]
    assert together.tolist() == alone
    assert known.all()


def test_histories_keep_pairs_sorted_and_forget_released_slots() -> None:
    histories = PairHistories()
    slots = histories.claim(2)
    assert len(set(slots.tolist())) == 2

    def added(slots: np.ndarray[Any, Any], keys: list[list[int]]) -> list[list[int]]:
        held = histories.add(slots, np.array(keys, dtype=np.int64))
        return [[key for key in row if key >= 0] for row in held.tolist()]

    assert added(slots, [[8, -1], [4, 2]]) == [[8], [2, 4]]
    assert added(slots, [[6, 10], [-1, -1]]) == [[6, 8, 10], [2, 4]]
    assert added(slots[[1]], [[3, 5]]) == [[2, 3, 4, 5]]
    histories.release(slots[[0]])
    again = histories.claim(3)
    assert slots[0] in again.tolist()
    assert slots[1] not in again.tolist()
    assert histories.add(again, np.full((3, 2), -1)).tolist() == [[-1, -1]] * 3  # as wide as the longest history and D
    together = np.append(again, slots[1])
    assert added(together, [[1, -1], [-1, 7], [-1, -1], [-1, -1]]) == [[1], [7], [], [2, 3, 4, 5]]
