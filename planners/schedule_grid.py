"""Schedule grid: vLLM's batch-size schedules, with or without context lengths, checked and spread out into a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lightspec_bench.core import BenchError, IntArray


@dataclass(frozen=True, slots=True)
class Grid:
    """K per batch size and context length: `depth` (batch ranges, context ranges), and where each range starts."""

    size_starts: IntArray
    context_starts: IntArray
    depth: IntArray

    def table(self, max_num_seqs: int, max_draft_tokens: int) -> IntArray:
        """K for 0 to `max_num_seqs` requests, (max_num_seqs + 1, context ranges), none above D.

        A size between two ranges takes the row of the one below, a size above the last that of the last, an empty
        step that of one request.
        """
        sizes = np.maximum(np.arange(max_num_seqs + 1), 1)
        rows = np.searchsorted(self.size_starts, sizes, side="right") - 1
        return np.minimum(self.depth, max_draft_tokens)[rows]


class Cell(NamedTuple):
    """One entry: its batch range, its context range, its K, and the entry as it was written."""

    size: tuple[int, int]
    context: tuple[int, int]
    depth: int
    row: list[int]


def parse_grid(ranges: Sequence[Any] | Mapping[Any, Any], planner: str = "schedule") -> Grid:
    """A grid from [lo, hi, K] or [lo, hi, ctx_lo, ctx_hi, K] entries, or a mapping "lo-hi" -> K, in any order.

    Raises `BenchError` where vLLM raises: no entry, entries of both lengths, the first batch or context range does not
    start at 1, batch ranges overlap, context ranges do not follow one another, a pair of ranges is missing, lo > hi,
    K < 0.
    """
    rows = [_from_key(planner, *item) for item in ranges.items()] if isinstance(ranges, Mapping) else list(ranges)
    cells = sorted(_cell(planner, row) for row in rows)
    if not cells:
        raise BenchError(f"{planner}: ranges is empty, expected at least one [lo, hi, K]")
    longer = [cell.row for cell in cells if len(cell.row) == 5]
    if 0 < len(longer) < len(cells):
        raise BenchError(f"{planner}: range {longer[0]} has 5 numbers and others 3, expected all 3 or all 5")
    sizes, contexts = sorted({cell.size for cell in cells}), sorted({cell.context for cell in cells})
    for context in contexts:
        _check_sizes(planner, [cell for cell in cells if cell.context == context])
    _check_contexts(planner, contexts)
    found = {(cell.size, cell.context): cell.depth for cell in cells}
    for size in sizes:
        for context in contexts:
            if (size, context) not in found:
                raise BenchError(
                    f"{planner}: ranges has no K for batch sizes {list(size)} and context {list(context)}, "
                    "expected every batch range with every context range"
                )
    depth = np.array([[found[size, context] for context in contexts] for size in sizes], dtype=np.int64)
    return Grid(np.array([lo for lo, _ in sizes]), np.array([lo for lo, _ in contexts]), depth)


def _check_sizes(planner: str, cells: list[Cell]) -> None:
    first = cells[0]
    if first.size[0] != 1:
        raise BenchError(f"{planner}: the first range {first.row} starts at {first.size[0]}, expected 1")
    for below, above in pairwise(cells):
        if above.size[0] <= below.size[1]:
            raise BenchError(
                f"{planner}: ranges {below.row} and {above.row} overlap, expected a start above {below.size[1]}"
            )


def _check_contexts(planner: str, contexts: list[tuple[int, int]]) -> None:
    first = contexts[0]
    if first[0] != 1:
        raise BenchError(f"{planner}: the first context range {list(first)} starts at {first[0]}, expected 1")
    for below, above in pairwise(contexts):
        if above[0] != below[1] + 1:
            raise BenchError(
                f"{planner}: context range {list(above)} follows {list(below)}, expected a start at {below[1] + 1}"
            )


def _from_key(planner: str, key: Any, depth: Any) -> list[Any]:
    match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", str(key))
    if match is None:
        raise BenchError(f"{planner}: range {key!r} is not a batch-size range, expected 'lo-hi' such as '1-16'")
    return [int(match[1]), int(match[2] or match[1]), depth]


def _cell(planner: str, row: Any) -> Cell:
    whole = isinstance(row, Sequence) and len(row) in (3, 5) and all(type(value) is int for value in row)
    if not whole:
        raise BenchError(
            f"{planner}: range {row!r} is not three whole numbers, expected [lo, hi, K] or [lo, hi, ctx_lo, ctx_hi, K]"
        )
    cell = Cell((row[0], row[1]), (row[2], row[3]) if len(row) == 5 else (1, 1), row[-1], list(row))
    for kind, (lo, hi) in (("", cell.size), ("context ", cell.context)):
        if not 1 <= lo <= hi:
            raise BenchError(f"{planner}: range {cell.row} goes {kind}from {lo} to {hi}, expected 1 <= lo <= hi")
    if cell.depth < 0:
        raise BenchError(f"{planner}: range {cell.row} has K {cell.depth}, expected at least 0")
    return cell
