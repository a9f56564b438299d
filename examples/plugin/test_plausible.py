"""The planner keeps the rules: bounds, determinism, no peeking, nothing written to, no kind of batch that breaks it."""

from plausible_planner import Plausible

from lightspec_bench.conformance import check_planner


def test_plausible_is_sound() -> None:
    assert check_planner(Plausible) == []
    assert check_planner(Plausible, options={"survival": 0.9, "headroom": 1}) == []
