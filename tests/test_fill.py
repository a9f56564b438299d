"""Fill: LightLLM's vectors 64-68, and what holds for any confidences, pending counts and budget."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from lightspec_bench.fill import depth_survival, fill, prefix_survival

ROWS = np.array([[0.95, 0.9, 0.1], [0.2, 0.8, 0.8], [0.99, 0.99, 0.99]], dtype=np.float32)


@pytest.mark.parametrize(
    ("budget", "pending", "verify"),
    [
        (3, [3, 3, 3], [0, 0, 0]),
        (4, [3, 3, 3], [0, 0, 1]),
        (5, [3, 3, 3], [0, 0, 2]),
        (8, [3, 3, 3], [2, 0, 3]),
        (9, [3, 3, 3], [2, 1, 3]),
        (12, [3, 3, 3], [3, 3, 3]),
        (5, [1, 1, 1], [1, 0, 1]),
        (6, [2, 2, 2], [1, 0, 2]),
    ],
)
def test_reference_vectors(budget: int, pending: list[int], verify: list[int]) -> None:
    """The same rows for every budget; LightLLM lightspec @414c39b, Fill."""
    assert fill(prefix_survival(ROWS), np.array(pending), budget).tolist() == verify


def test_survival_is_the_running_product() -> None:
    confidence = np.array([[0.5, 0.5, np.nan], [1.5, -1.0, 0.5]], dtype=np.float32)
    assert prefix_survival(confidence).tolist() == [[0.5, 0.25, 0.0], [1.0, 0.0, 0.0]]


def test_without_confidences_shallow_tokens_go_first() -> None:
    assert sorted(fill(depth_survival(3, 2), np.array([2, 2, 2]), 3 + 4).tolist()) == [1, 1, 2]


def test_an_idle_batch_has_nothing_to_fill() -> None:
    empty = np.zeros(0, dtype=np.int64)
    assert fill(np.zeros((0, 3)), empty, 0).tolist() == []


@given(
    data=st.data(),
    confidence=arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 6), st.integers(1, 5)),
        elements=st.sampled_from([0.0, 0.25, 0.5, 0.984375, 1.0]),
    ),
)
def test_fill_spends_its_budget_on_the_surest_tokens(data: st.DataObject, confidence: np.ndarray) -> None:  # type: ignore[type-arg]
    """Exactly the budget, never more than is pending, no token left out that is surer than one chosen, ties or not.
    Counts per request are prefixes by construction."""
    number, depth = confidence.shape
    pending = np.array(data.draw(st.lists(st.integers(0, depth), min_size=number, max_size=number)))
    budget = data.draw(st.integers(number, number + int(pending.sum()) + 2))
    survival = prefix_survival(confidence)
    verify = fill(survival, pending, budget)
    assert verify.sum() == min(budget - number, pending.sum())
    assert (verify >= 0).all()
    assert (verify <= pending).all()
    chosen = np.arange(depth) < verify[:, None]
    left = (np.arange(depth) < pending[:, None]) & ~chosen
    if chosen.any() and left.any():
        assert survival[chosen].min() >= survival[left].max()
