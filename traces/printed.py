"""Figures as logs print them: rounded. Which whole numbers stand behind them, where only those do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lightspec_bench.acceptance import Counts
from lightspec_bench.core import FloatArray, IntArray
from lightspec_bench.skipped import Malformed

_EPSILON = 1e-9
_MOST = 2_000_000  # candidates that are tried; a window with more drafts is given bounds from its length alone


@dataclass(frozen=True, slots=True)
class Printed:
    """A figure and half a unit of its last digit: what was rounded lies within `value` -/+ `half`."""

    value: float
    half: float


def printed(text: str) -> Printed:
    """`5.44` -> 5.44 -/+ 0.005."""
    digits = len(text.partition(".")[2])
    return Printed(float(text), 0.5 * 10.0**-digits)


def agrees(figure: Printed, value: float) -> bool:
    """Whether a value may have been printed as that figure."""
    return abs(figure.value - value) <= figure.half + _EPSILON


def with_spec_steps(
    accepted: int, drafted: int, length: Printed | None, per_pos: Sequence[Printed], depth: int | None
) -> tuple[Counts, Counts | None]:
    """Counts of a window that prints tokens, a mean acceptance length and rates per position, but no number of drafts.

    The number is that which reproduces every figure, where only one does; else it is given bounds. Second: the counts
    if every draft had `depth` tokens, None where that fits less well. Raises `Malformed` where no number fits.
    """
    known = Counts(num_accepted_tokens=accepted, num_draft_tokens=drafted, num_verify_tokens=drafted)
    if length is None and not per_pos:
        return known, None
    fits = _fitting(accepted, drafted, length, per_pos, depth)
    if len(fits) == 0:
        figures = f"mean acceptance length {length.value:g}" if length else "its rates per position"
        counts = f"{accepted} accepted of {drafted}"
        raise Malformed("contradicts itself", f"{figures} for {counts} fits no number of drafts")
    full = drafted // depth if depth and drafted % depth == 0 else None
    in_full = None if full is None or full not in fits else _exactly(known, full, per_pos)
    if len(fits) == 1:
        return _exactly(known, int(fits[0]), per_pos), in_full
    return replace(known, spec_steps_bounds=(int(fits[0]), int(fits[-1]))), in_full


def _exactly(known: Counts, steps: int, per_pos: Sequence[Printed]) -> Counts:
    survived = _whole(per_pos, steps, known.num_accepted_tokens or 0)
    return replace(known, num_spec_steps=steps, num_survived_per_pos=survived)


def _fitting(
    accepted: int, drafted: int, length: Printed | None, per_pos: Sequence[Printed], depth: int | None
) -> IntArray:
    """Every number of drafts that reproduces the figures, ascending."""
    low, high = (math.ceil(drafted / depth) if depth else 1), drafted
    if length is not None and accepted:
        above = length.value + length.half - 1.0 + _EPSILON
        below = length.value - length.half - 1.0 - _EPSILON
        low = max(low, math.ceil(accepted / above)) if above > 0 else high + 1
        high = min(high, math.floor(accepted / below)) if below > 0 else high
    elif length is not None and not agrees(length, 1.0):
        return np.zeros(0, np.int64)
    if high - low > _MOST:
        return np.array([low, high], np.int64)
    steps = np.arange(low, high + 1, dtype=np.int64)
    if not per_pos:
        return steps
    least, most = _count_bounds(per_pos, steps)
    fits = (least <= most).all(axis=0) & (least.sum(axis=0) <= accepted)
    return np.asarray(steps[fits & (most.sum(axis=0) >= accepted)])


def _count_bounds(per_pos: Sequence[Printed], steps: IntArray) -> tuple[FloatArray, FloatArray]:
    """(positions, steps): the least and the most counts that are printed as those rates."""
    value = np.array([[rate.value] for rate in per_pos])
    half = np.array([[rate.half] for rate in per_pos])
    least = np.maximum(np.ceil((value - half) * steps - _EPSILON), 0.0)
    return least, np.minimum(np.floor((value + half) * steps + _EPSILON), steps)


def _whole(per_pos: Sequence[Printed], steps: int, accepted: int) -> tuple[int, ...] | None:
    """Counts per position, where the rates leave one choice each or their sum decides it; else None."""
    if not per_pos:
        return None
    least, most = (bound[:, 0] for bound in _count_bounds(per_pos, np.array([steps])))
    if least.sum() == accepted:
        return tuple(map(int, least))
    return tuple(map(int, most)) if most.sum() == accepted else None
