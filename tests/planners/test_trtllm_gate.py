"""TensorRT-LLM's speculation gate: its two kinds of sample, and that it never opens again."""

from __future__ import annotations

from typing import Any

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError
from lightspec_bench.planners.trtllm_gate import TrtLlmGate

from .drive import drive
from .support import engine


@pytest.mark.parametrize("options", [{}, {"form": "old", "window": 2, "threshold": 4.0}])
def test_it_is_sound(options: dict[str, Any]) -> None:
    assert check_planner("trtllm-gate", options=options) == []


def test_it_closes_when_the_window_is_full_and_its_mean_too_low() -> None:
    """k 4, 2 accepted: a rate of 0.5 in steps 1 to 3 is not below 0.5; with 1 accepted in step 4 the last three have
    (0.5 + 0.5 + 0.25) / 3, and the plan of step 5 knows it."""
    planner = TrtLlmGate(engine(7), window=3, threshold=0.5, k=4)
    assert drive(planner, [2] * 8, lambda t: 1 if t == 4 else 2) == [4, 4, 4, 4, 4, 0, 0, 0]


def test_an_unfilled_window_decides_nothing() -> None:
    planner = TrtLlmGate(engine(7), window=5, threshold=0.5, k=4)
    assert drive(planner, [1] * 5, lambda t: 0) == [4] * 5
    assert not planner.closed


def test_one_bad_window_closes_it_for_good() -> None:
    """Eight hopeless steps at the start, then a drafter that is always right: 990 steps without speculation."""
    planner = TrtLlmGate(engine(7))
    depths = drive(planner, [4] * 1000, lambda t: 0 if t < 9 else 7)
    assert depths[:9] == [3] * 9
    assert set(map(str, depths[10:])) == {"0"}
    patient = TrtLlmGate(engine(7), window=64)
    assert drive(patient, [4] * 1000, lambda t: 0 if t < 9 else 7) == [3] * 1000


def test_the_rate_is_of_the_whole_batch() -> None:
    """Accepted 4 + 0 of drafted 4 + 4; steps without any proposal are no samples."""
    planner = TrtLlmGate(engine(7), window=1, threshold=0.51, k=4)
    assert drive(planner, [2, 2, 2], lambda t: [4, 0]) == [4, 4, 0]


def test_old_form_counts_finished_requests() -> None:
    """Request 1 runs in steps 0 to 3 and gets 0, 2, 1, 2 draft tokens accepted: 1.25 per iteration. It is missed in
    step 4, so the plan of step 5 knows; request 0 is still running and not asked."""
    sizes, accepted = [2, 2, 2, 2, 1, 1, 1], [0, 2, 1, 2, 0, 0, 0]

    def depths(threshold: float) -> list[Any]:
        planner = TrtLlmGate(engine(7), "old", window=1, threshold=threshold, k=4)
        return drive(planner, sizes, lambda t: accepted[t])

    assert depths(1.25) == [4] * 7
    assert depths(1.26) == [4, 4, 4, 4, 4, 0, 0]


def test_old_form_takes_the_last_requests_only() -> None:
    """Two leave with nothing accepted, which a window of 3 alone would not see; the third closes it."""
    planner = TrtLlmGate(engine(7), "old", window=3, threshold=0.1, k=4)
    assert drive(planner, [4, 3, 2, 1, 1], lambda t: 0) == [4, 4, 4, 4, 0]


def test_default_k_is_cut_to_the_drafter() -> None:
    assert (TrtLlmGate(engine(7)).k, TrtLlmGate(engine(2)).k) == (3, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window is 0, expected at least 1"),
        ({"threshold": 1.5}, r"threshold is 1.5, expected 0 to 1 \(form new\)"),
        ({"threshold": float("nan")}, "threshold is nan, expected 0 to 1"),
        ({"threshold": -0.5, "form": "old"}, r"threshold is -0.5, expected at least 0 \(form old\)"),
        ({"k": 8}, r"k is 8, expected 0 to 7 \(the drafter's max_draft_tokens\)"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchError, match=f"^trtllm-gate: {message}"):
        TrtLlmGate(engine(7), **options)
