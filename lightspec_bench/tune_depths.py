"""Best K at each load, where it changes, and the batch-size schedule that follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from lightspec_bench.reports.export_text import spec_of
from lightspec_bench.tune_evidence import Evidence, Place, first_level
from lightspec_bench.tune_task import Bound

FINEST = 1.2  # two loads nearer than this factor are not told apart any further


def static(k: int) -> str:
    return spec_of("static", k=k)


def holds(evidence: Evidence, planner: str, place: Place, bounds: Sequence[Bound]) -> bool:
    """Whether a planner keeps every bound at a place. What is unknown is not kept."""
    return all(evidence.value(planner, place, bound.column) <= bound.most_s for bound in bounds)


def excess(evidence: Evidence, planner: str, place: Place, bounds: Sequence[Bound]) -> float:
    """By which factor a planner is past its worst bound; 1 is just kept."""
    return max(evidence.value(planner, place, bound.column) / bound.most_s for bound in bounds)


def best_depth(
    evidence: Evidence, traces: Sequence[str], load: int, depths: Sequence[int], bounds: Sequence[Bound]
) -> int:
    """The K for a load, over all traces: among those that keep the bounds, the smallest that is level with the fastest.

    Where none keeps them, the K that is nearest to it on the trace where it is farthest.
    """
    places = [(trace, load) for trace in traces]
    known = [k for k in depths if evidence.has(static(k), places)]
    kept = [k for k in known if all(holds(evidence, static(k), place, bounds) for place in places)]
    if not kept:
        return min(known, key=lambda k: max(excess(evidence, static(k), place, bounds) for place in places))
    chosen = first_level(evidence, [static(k) for k in kept], places)
    return next(k for k in kept if static(k) == chosen)


def between(depth_at: Mapping[int, int]) -> dict[int, list[int]]:
    """Loads to try next, each with the K worth trying there: halfway, on a log scale, between two loads whose K
    differ."""
    found = {}
    for low, high in pairwise(sorted(depth_at)):
        middle = round(math.sqrt(low * high))
        if depth_at[low] != depth_at[high] and high / low > FINEST and low < middle < high:
            ends = sorted((depth_at[low], depth_at[high]))
            found[middle] = list(range(ends[0], ends[1] + 1))
    return found


def ranges_of(depth_at: Mapping[int, int]) -> list[list[int]]:
    """[lo, hi, K] from 1 up: a load's K holds until the next load that was tried, equal neighbours merged."""
    loads = sorted(depth_at)
    ranges: list[list[int]] = []
    for place, load in enumerate(loads):
        last = loads[place + 1] - 1 if place + 1 < len(loads) else load
        if ranges and ranges[-1][2] == depth_at[load]:
            ranges[-1][1] = last
        else:
            ranges.append([load if ranges else 1, last, depth_at[load]])
    return ranges


def words_of(ranges: Sequence[Sequence[int]]) -> str:
    """`K=3 up to 15, K=1 up to 63, K=0 up to 256`."""
    return ", ".join(f"K={k} up to {hi}" for _, hi, k in ranges)
