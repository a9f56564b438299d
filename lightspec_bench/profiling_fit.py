"""From timings to the terms of a latency table: points, a drafter's line, host time per step and per request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np

from lightspec_bench.core import FloatArray
from lightspec_bench.latency_format import Point


class ShapeLike(Protocol):
    @property
    def rows(self) -> int: ...
    @property
    def requests(self) -> int: ...
    @property
    def context(self) -> int: ...


class TimingLike(Protocol):
    @property
    def part(self) -> str: ...
    @property
    def shape(self) -> ShapeLike: ...
    @property
    def median_s(self) -> float: ...


Padded = Callable[[int], int]


def points(
    timings: Sequence[TimingLike], target: Padded = lambda rows: rows, draft: Padded = lambda rows: rows
) -> list[Point]:
    """The table's rows: a target row per shape; a drafter's pass over B rows, and over N rows for a later token.

    At B = N both are a pass over N rows; the later one is taken, since it runs depth - 1 times in a step. `target` and
    `draft` say to how many rows a pass is padded: that is what was timed.
    """
    found = []
    for timing in timings:
        shape, part = timing.shape, timing.part
        if part == "proposal" or (part == "first" and shape.rows == shape.requests):
            continue
        where: Literal["target", "draft"] = "target" if part == "verify" else "draft"
        ms, rows = max(timing.median_s * 1e3, 1e-6), (target if where == "target" else draft)(shape.rows)
        found.append(Point(where, rows, shape.requests, shape.requests * shape.context, round(ms, 6)))
    return sorted(found, key=lambda p: (p.part != "target", p.rows, p.requests, p.context_tokens))


def parallel_line(timings: Sequence[TimingLike], block: int) -> tuple[dict[str, float], float]:
    """A parallel drafter's line (`DRAFT_LINE_KEYS`), and the median relative error of the proposals it prices.

    A proposal is D(B) + D(N block), of which only the sum can be timed: with D(r) = fixed + row r + context C it is
    2 fixed + row (B + N block) + 2 context C, fitted to relative errors with no negative term.
    """
    some = [timing for timing in timings if timing.part == "proposal"]
    shapes = [timing.shape for timing in some]
    rows = np.array([shape.rows + shape.requests * block for shape in shapes], dtype=np.float64)
    context = np.array([shape.requests * shape.context for shape in shapes], dtype=np.float64)
    columns = np.stack((np.full(len(some), 2.0), rows, 2.0 * context), axis=1)
    seconds = np.array([timing.median_s for timing in some])
    terms = nonnegative_fit(columns / seconds[:, None], np.ones(len(some)))
    error = float(np.median(np.abs(columns @ terms / seconds - 1.0)))
    names = ("draft_fixed_ms", "draft_us_per_row", "draft_us_per_context_token")
    return dict(zip(names, (terms * (1e3, 1e6, 1e6)).tolist(), strict=True)), error


def host_terms(plain_s: Mapping[int, float], drafting_s: Mapping[int, float]) -> dict[str, float]:
    """`HOST_KEYS` from host seconds of a step by number of requests, without a drafter and with one.

    Lines through both, no term below zero; the drafter's terms are what its line adds at either end.
    """
    step, request = host_line(plain_s)
    more_step, more_request = 0.0, 0.0
    if drafting_s:
        added = {n: max(seconds - step - request * n, 0.0) for n, seconds in drafting_s.items()}
        more_step, more_request = host_line(added)
    values = (step * 1e3, request * 1e6, more_step * 1e3, more_request * 1e6)
    return dict(zip(("host_step_ms", "host_request_us", "drafter_step_ms", "drafter_request_us"), values, strict=True))


def host_line(seconds: Mapping[int, float]) -> tuple[float, float]:
    """(per step, per request) by least squares, none negative; one size alone gives a step's."""
    numbers = np.array(sorted(seconds), dtype=np.float64)
    values = np.array([seconds[int(n)] for n in numbers])
    if len(numbers) == 1:
        return float(values[0]), 0.0
    step, request = nonnegative_fit(np.stack((np.ones_like(numbers), numbers), axis=1), values)
    return float(step), float(request)


def nonnegative_fit(columns: FloatArray, values: FloatArray) -> FloatArray:
    """Least squares with no negative coefficient: the best of all choices of columns, of which there are few."""
    width = columns.shape[1]
    best, least = np.zeros(width), np.inf
    for chosen in range(1, 1 << width):
        mask = np.array([bool(chosen >> column & 1) for column in range(width)])
        found = np.zeros(width)
        found[mask] = np.linalg.lstsq(columns[:, mask], values, rcond=None)[0]
        error = float(((columns @ found - values) ** 2).sum())
        if (found >= 0).all() and error < least * (1.0 - 1e-12):
            best, least = found, error
    return best
