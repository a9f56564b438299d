"""Curves: seconds for one forward pass, by rows and context tokens; measured points or a straight line.

A curve answers `seconds(rows, requests, context)`, `context` summed over the batch, for Python numbers (a float in
about a microsecond: simulators ask once per step) and for arrays, which broadcast.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np

from lightspec_bench.core import BenchError, FloatArray, IntArray, Number

ContextCost: TypeAlias = "Literal['per-size', 'common'] | float"
SCALAR = (int, float, np.generic)
NO_SIZES: IntArray = np.zeros(0, dtype=np.int64)
NO_SIZES.setflags(write=False)


class Curve(Protocol):
    """Seconds of one forward pass: a float when rows and context are scalars, else a float64 array."""

    @property
    def graph_sizes(self) -> IntArray: ...

    def seconds(self, rows: Number, requests: Number, context: Number) -> float | FloatArray: ...


@dataclass(frozen=True, slots=True)
class AffineCurve:
    """`fixed_s + row_s * rows + context_s * context`, the same at every size."""

    fixed_s: float
    row_s: float = 0.0
    context_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("fixed_s", "row_s", "context_s"):
            check_seconds(name, getattr(self, name))

    @property
    def graph_sizes(self) -> IntArray:
        return NO_SIZES

    def seconds(self, rows: Number, requests: Number, context: Number) -> float | FloatArray:
        if isinstance(rows, SCALAR) and isinstance(context, SCALAR):
            return self.fixed_s + self.row_s * float(rows) + self.context_s * float(context)
        return np.asarray(self.fixed_s + self.row_s * rows + self.context_s * context, dtype=np.float64)

    def lines(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Seconds at no context and per context token at each number of rows."""
        return np.asarray(self.fixed_s + self.row_s * rows, np.float64), np.full(len(rows), self.context_s)


@dataclass(frozen=True, slots=True, eq=False)
class TableCurve:
    """Measured sizes: a staircase over the captured sizes, a separate interpolated curve above them.

    At a size, cost is `base_s + context_s * context`. `rows` ascend. Up to the largest of `graph_sizes` a batch pays
    for the next captured size; a captured size that was not measured takes the line between its measured neighbours
    below the edge (the nearest one past the ends). Above the edge only sizes measured there count: interpolated,
    held below the first, continued past the last by the slope of the last two (never downwards). One point alone, or
    the edge itself where nothing is measured above it, continues in proportion to rows, as LightLLM's table does.
    Without `graph_sizes` the whole table is the interpolated part.
    """

    rows: IntArray
    base_s: FloatArray
    context_s: FloatArray
    graph_sizes: IntArray = field(default_factory=lambda: NO_SIZES)
    _stair: _Points = field(init=False, repr=False)
    _above: _Points = field(init=False, repr=False)
    _slope_s: float = field(init=False, repr=False)
    _edge: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_table(self.rows, self.base_s, self.context_s, self.graph_sizes)
        edge = int(self.graph_sizes[-1]) if len(self.graph_sizes) else 0
        measured = _Points(self.rows, self.base_s, self.context_s)
        stair = measured.where(self.rows <= edge).at(self.graph_sizes) if edge else measured
        above = measured.where(self.rows > edge)
        if not len(above.rows):
            above = stair.where(stair.rows == edge)
        object.__setattr__(self, "_edge", edge)
        object.__setattr__(self, "_stair", stair)
        object.__setattr__(self, "_above", above)
        object.__setattr__(self, "_slope_s", above.last_slope())

    def seconds(self, rows: Number, requests: Number, context: Number) -> float | FloatArray:
        if isinstance(rows, SCALAR) and isinstance(context, SCALAR):
            return self._scalar(float(rows), float(context))
        base, per_token = self.lines(np.asarray(rows))
        return np.asarray(base + per_token * context, dtype=np.float64)

    def lines(self, rows: IntArray | FloatArray) -> tuple[FloatArray, FloatArray]:
        """Seconds at no context and per context token at each number of rows."""
        inside = rows <= self._edge
        if not self._edge or not inside.any():
            return self._above_edge(rows)
        stair = self._stair
        at = np.minimum(np.searchsorted(stair.rows, rows), len(stair.rows) - 1)
        base, per_token = stair.base[at], stair.context[at]
        if inside.all():
            return base, per_token
        base_above, per_token_above = self._above_edge(rows)
        return np.where(inside, base, base_above), np.where(inside, per_token, per_token_above)

    def _above_edge(self, rows: IntArray | FloatArray) -> tuple[FloatArray, FloatArray]:
        above = self._above
        base = np.interp(rows, above.rows, above.base) + self._slope_s * np.maximum(rows - above.rows[-1], 0)
        return base, np.interp(rows, above.rows, above.context)

    def _scalar(self, rows: float, context: float) -> float:
        if rows <= self._edge:
            _, base, per_token = self._stair.lists
            at = bisect_left(self._stair.lists[0], rows)
            return base[at] + per_token[at] * context
        sizes, base, per_token = self._above.lists
        if rows >= sizes[-1]:
            return base[-1] + self._slope_s * (rows - sizes[-1]) + per_token[-1] * context
        at = bisect_left(sizes, rows)
        if at == 0:
            return base[0] + per_token[0] * context
        part = (rows - sizes[at - 1]) / (sizes[at] - sizes[at - 1])
        low = base[at - 1] + per_token[at - 1] * context
        return low + part * (base[at] + per_token[at] * context - low)


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """Sizes with their cost, as arrays for arrays and as lists for scalars."""

    rows: IntArray
    base: FloatArray
    context: FloatArray
    lists: tuple[list[int], list[float], list[float]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lists", (self.rows.tolist(), self.base.tolist(), self.context.tolist()))

    def where(self, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> _Points:
        return _Points(self.rows[chosen], self.base[chosen], self.context[chosen])

    def at(self, rows: IntArray) -> _Points:
        return _Points(rows, np.interp(rows, self.rows, self.base), np.interp(rows, self.rows, self.context))

    def last_slope(self) -> float:
        rows, base, _ = self.lists
        if len(rows) == 1:
            return base[0] / rows[0]
        return max(0.0, (base[-1] - base[-2]) / (rows[-1] - rows[-2]))


def fit_table(
    rows: IntArray,
    context: FloatArray,
    seconds: FloatArray,
    graph_sizes: IntArray = NO_SIZES,
    context_cost: ContextCost = "per-size",
) -> TableCurve:
    """A `TableCurve` of measured points, all (P,): cost at a size is a line in the context tokens of the batch.

    Points of one size may differ in context. `context_cost` says what a context token costs: "per-size" fits each size
    measured at several contexts by least squares (others take the line between their neighbours' values; none: 0),
    "common" fits one value over all sizes, a number gives it in seconds. A fitted value is never below 0. The base of
    a size is what remains at no context, averaged over its points, so sizes measured once come back exactly.
    """
    sizes, at, count = np.unique(rows, return_inverse=True, return_counts=True)

    def mean(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(at, weights=values) / count)

    mean_context, mean_seconds = mean(context), mean(seconds)
    off_context, off_seconds = context - mean_context[at], seconds - mean_seconds[at]
    shared, spread = mean(off_context * off_seconds) * count, mean(off_context * off_context) * count
    per_token = _per_token(sizes, shared, spread, context_cost)
    base = mean_seconds - per_token * mean_context
    if (base <= 0).any():
        size = int(sizes[np.argmax(base <= 0)])
        raise BenchError(f"a step of {size} rows costs nothing once its context is paid, expected a lower context cost")
    return TableCurve(sizes, base, per_token, graph_sizes)


def _per_token(sizes: IntArray, shared: FloatArray, spread: FloatArray, context_cost: ContextCost) -> FloatArray:
    known = spread > 0
    if context_cost not in ("per-size", "common"):
        return np.full(len(sizes), float(context_cost))
    if not known.any():
        return np.zeros(len(sizes))
    if context_cost == "common":
        return np.full(len(sizes), max(0.0, float(shared.sum() / spread.sum())))
    return np.interp(sizes, sizes[known], np.maximum(shared[known] / spread[known], 0.0))


def check_seconds(name: str, value: float) -> None:
    """Raise `BenchError` unless a cost is a finite number of seconds, at least 0."""
    if not 0.0 <= value < float("inf"):
        raise BenchError(f"{name} is {value}, expected a number of seconds from 0 up")


def _check_table(rows: IntArray, base: FloatArray, per_token: FloatArray, graph_sizes: IntArray) -> None:
    if not len(rows):
        raise BenchError("a latency table has no rows, expected at least one measured size")
    for name, sizes in (("rows", rows), ("graph_sizes", graph_sizes)):
        if len(sizes) and (sizes[0] < 1 or (np.diff(sizes) <= 0).any()):
            raise BenchError(f"{name} are {sizes.tolist()}, expected ascending whole numbers from 1 up")
    if len(graph_sizes) and rows[0] > graph_sizes[-1]:
        raise BenchError(
            f"the smallest measured size is {rows[0]} rows, expected one at or below the largest graph size, "
            f"{graph_sizes[-1]}"
        )
    if not (np.isfinite(base).all() and (base > 0).all() and (per_token >= 0).all()):
        raise BenchError("a latency table holds a cost that is not above 0")
