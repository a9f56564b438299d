"""Option checks: the one sentence for an option out of range, and mappings keyed by batch size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightspec_bench.core import BenchError


def expect(ok: bool, planner: str, option: str, value: object, expected: str) -> None:
    """Raise `BenchError` naming planner, option, value and what was expected, unless `ok`."""
    if not ok:
        raise BenchError(f"{planner}: {option} is {value}, expected {expected}")


def is_whole(value: object) -> bool:
    """Whether a value is a whole number; booleans are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def by_batch_size(planner: str, option: str, mapping: Mapping[Any, Any]) -> list[tuple[int, Any]]:
    """(batch size, value) pairs by ascending size, from keys that are whole numbers or spell one."""
    expect(bool(mapping), planner, option, dict(mapping), "at least one batch size")
    pairs: dict[int, Any] = {}
    for key, value in mapping.items():
        spelled = isinstance(key, str) and key.strip().isdecimal()
        expect(is_whole(key) or spelled, planner, f"{option} batch size", repr(key), "a whole number")
        size = int(key)
        expect(size >= 1, planner, f"{option} batch size", size, "at least 1")
        expect(size not in pairs, planner, f"{option} batch size", size, "each size once")
        pairs[size] = value
    return sorted(pairs.items())


def depths(planner: str, option: str, values: Any, least: int, most: int) -> list[int]:
    """Ascending depths of a list, each cut to `most` (the drafter's D) and kept once."""
    whole = isinstance(values, (list, tuple)) and len(values) > 0 and all(is_whole(v) for v in values)
    expect(whole, planner, option, values, "a list of whole numbers")
    expect(min(values) >= least, planner, option, values, f"at least {least} each")
    return sorted({min(value, most) for value in values})
