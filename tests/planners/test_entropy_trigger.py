"""Entropy trigger: off above 0.82 bits, on again below 0.55, per request; a probe where nothing else would show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, Plan, Step
from lightspec_bench.planners.entropy_trigger import EntropyTrigger

from .driven import batch_of, outcome
from .support import engine

LN2 = float(np.log(2.0))


def seen(bits: list[list[float]], drafted: list[int], accepted: list[int], request_id: list[int]) -> Step:
    return outcome(request_id, drafted, accepted, entropy=[[b * LN2 for b in row] for row in bits])


def depths(planner: EntropyTrigger, request_id: list[int]) -> list[int]:
    return list(np.asarray(planner.plan(batch_of(request_id)).num_draft_tokens).tolist())


def test_a_request_begins_with_k() -> None:
    made = EntropyTrigger(engine(7)).plan(batch_of([1, 2], pending=3))
    depth = made.num_draft_tokens
    assert isinstance(depth, np.ndarray)
    assert depth.tolist() == [5, 5]
    assert made == Plan(depth, 8)
    assert depths(EntropyTrigger(engine(3)), [1]) == [3]


def test_entropy_is_that_of_the_first_token_not_accepted() -> None:
    """1 bit at the token after the accepted ones, or at the last where all were accepted; the others have none."""
    planner = EntropyTrigger(engine(3))
    planner.observe(seen([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]], [3, 3, 3, 3], [1, 1, 3, 0], [1, 2, 3, 4]))
    assert depths(planner, [1, 2, 3, 4, 5]) == [0, 3, 0, 3, 3]


def test_smoothing_and_hysteresis_by_hand() -> None:
    """0.35 H + 0.65 ema: 0.7 stays on; 1.1 makes 0.84, off; 0.3 makes 0.651, still off; 0.3 makes 0.528, on again."""
    planner = EntropyTrigger(engine(5))
    wished = []
    for bits in (0.7, 1.1, 0.3, 0.3):
        planner.observe(seen([[bits] * 5], [1], [0], [1]))
        wished += depths(planner, [1])
    assert wished == [5, 0, 0, 5]


def test_without_probes_a_request_stays_off_for_good() -> None:
    planner = EntropyTrigger(engine(5), probe_steps=0)
    planner.observe(seen([[1.0] * 5], [5], [0], [1]))
    for _ in range(50):
        assert depths(planner, [1]) == [0]
        planner.observe(seen([[np.nan] * 5], [0], [0], [1]))


def test_a_probe_every_few_steps() -> None:
    """Off after step 0; two steps without drafts, then a probe, of which only its own step may make another."""
    planner = EntropyTrigger(engine(5), probe_steps=2)
    planner.observe(seen([[1.0] * 5], [5], [0], [1]))
    wished = []
    for drafted in (0, 0, 0, 1, 0, 0):
        wished += depths(planner, [1])
        planner.observe(seen([[0.9] * 5], [drafted], [0], [1]))
    assert wished == [0, 0, 1, 0, 0, 0]
    assert depths(planner, [1]) == [1]
    planner.observe(seen([[0.0] * 5], [1], [1], [1]))  # 0.65 * 0.965: still above 0.55
    planner.observe(seen([[0.0] * 5], [1], [1], [1]))
    assert depths(planner, [1]) == [5]


def test_a_request_that_left_is_forgotten() -> None:
    planner = EntropyTrigger(engine(5))
    planner.observe(seen([[1.0] * 5, [1.0] * 5], [5, 5], [0, 0], [1, 2]))
    assert depths(planner, [2, 1]) == [0, 0]
    planner.observe(seen([[1.0] * 5], [5], [0], [2]))
    assert depths(planner, [2, 1]) == [0, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "entropy-trigger: k is 0, expected at least 1"),
        ({"low": -1.0}, "entropy-trigger: low is -1.0, expected at least 0"),
        ({"high": 0.5}, "entropy-trigger: high is 0.5, expected at least low, which is 0.55"),
        ({"alpha": 0.0}, "entropy-trigger: alpha is 0.0, expected above 0, at most 1"),
        ({"probe_steps": -1}, "entropy-trigger: probe_steps is -1, expected at least 0"),
        (
            {"entropy": "target"},
            "entropy-trigger: entropy is 'target', expected 'drafter', the only approximation there is",
        ),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError) as error:
        EntropyTrigger(engine(), **options)
    assert str(error.value) == message


def test_conformance() -> None:
    with pytest.raises(BenchError, match="entropy-trigger: the step has no entropies, expected a trace or engine"):
        EntropyTrigger(engine()).observe(outcome([1], [1], [1]))
    assert check_planner("entropy-trigger") == []
