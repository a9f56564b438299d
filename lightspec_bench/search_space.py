"""Search spaces: ranges and choices for planners' options, read from a suite's list of planners.

planners:
  - none
  - lightspec-reference: {ema: {range: [0.01, 0.5], log: true}, window: {range: [8, 64], step: 8}}
  - dspark: {threshold: {choice: [0.1, 0.2]}}
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from lightspec_bench.core import BenchError
from lightspec_bench.registry import check_spec, options_of, parse_spec, resolve
from lightspec_bench.reports.export_text import spec_of
from lightspec_bench.settings import mapping, read_yaml
from lightspec_bench.suite import Suite, read_suite, suite_from

Scalar: TypeAlias = "int | float | str | bool | None"
GRID_POINTS = 5


@dataclass(frozen=True, slots=True)
class Range:
    """From `low` to `high`, both included: whole numbers where both are, on a logarithmic scale where `log`."""

    low: int | float
    high: int | float
    log: bool = False
    step: int | float | None = None

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def rounded(self, value: int | float) -> int | float:
        """The value in four digits: more would say more than a simulation can tell."""
        return min(max(float(f"{value:.4g}"), self.low), self.high) if type(value) is float and not self.step else value

    def grid(self) -> tuple[Scalar, ...]:
        """Every step of a range that has one, as whole numbers do, else `GRID_POINTS` of it."""
        step = self.step or (1 if self.is_whole and not self.log else None)
        if step:
            count = int((self.high - self.low) / step + 1e-9) + 1
            return tuple(self.low + number * step for number in range(count))
        spaced = np.geomspace if self.log else np.linspace
        points = spaced(self.low, self.high, GRID_POINTS).tolist()
        return tuple(dict.fromkeys(round(p) for p in points)) if self.is_whole else tuple(points)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values."""

    values: tuple[Scalar, ...]

    def grid(self) -> tuple[Scalar, ...]:
        return self.values


Space: TypeAlias = "Range | Choice"
Spaces: TypeAlias = "Mapping[str, Mapping[str, Space]]"  # planner's spec -> option -> space


def read_search(name_or_path: str) -> tuple[Suite, Spaces]:
    """A suite with its planners as their defaults are, and the spaces of those that have any.

    Raises `BenchError` naming the file, the planner and the option.
    """
    path = Path(name_or_path)
    document = read_yaml(path) if path.is_file() else None
    listed = document.get("planners") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(listed, list):
        return read_suite(name_or_path), {}
    spaces = {}
    for entry in listed:
        if isinstance(entry, dict):
            planner, space = _entry(entry, str(path))
            spaces[planner] = space
    names = [next(iter(entry)) if isinstance(entry, dict) else entry for entry in listed]
    suite = suite_from({**document, "planners": names}, str(path), path.stem)
    for planner, space in spaces.items():
        _check(planner, space, str(path))
    return suite, spaces


def with_options(planner: str, options: Mapping[str, Any]) -> str:
    """The planner's spec with some options more, or other values for those it has."""
    name, given = parse_spec(planner)
    return spec_of(name, **(given | dict(options)))


def default_options(planner: str, space: Mapping[str, Space]) -> dict[str, Any] | None:
    """What the searched options are where nobody sets them, None where one lies outside its space."""
    name, given = parse_spec(planner)
    known = options_of(resolve("planner", name))
    found = {option: given.get(option, known[option].default) for option in space}
    return found if all(_contains(space[option], value) for option, value in found.items()) else None


def grid(space: Mapping[str, Space]) -> list[dict[str, Scalar]]:
    """Every combination of the options' grids."""
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*(s.grid() for s in space.values()))]


def num_points(space: Mapping[str, Space]) -> float:
    """How many combinations of options there are, infinitely many where a range has no steps."""
    return math.prod(_num_values(each) for each in space.values())


def _num_values(space: Space) -> float:
    if isinstance(space, Choice):
        return len(space.values)
    if space.step:
        return len(space.grid())
    return space.high - space.low + 1 if space.is_whole else math.inf


def _contains(space: Space, value: Any) -> bool:
    if isinstance(space, Choice):
        return any(type(each) is type(value) and each == value for each in space.values)
    if type(value) not in (int, float) or (space.is_whole and type(value) is float):
        return False
    steps = (value - space.low) / space.step if space.step else 0.0
    return bool(space.low <= value <= space.high and abs(steps - round(steps)) < 1e-9)


def _entry(entry: dict[Any, Any], source: str) -> tuple[str, dict[str, Space]]:
    if len(entry) != 1 or not isinstance(next(iter(entry)), str):
        raise BenchError(f"{source}: planners has {entry!r}, expected one planner with its options' spaces")
    planner, options = next(iter(entry.items()))
    if not isinstance(options, dict) or not options:
        raise BenchError(f"{source}: planner {planner} has {options!r}, expected options with a range or a choice each")
    return planner, {str(name): _space(f"{planner}: {name}", value, source) for name, value in options.items()}


def _space(what: str, value: Any, source: str) -> Space:
    document = mapping(value, {"range", "log", "step", "choice"}, source, what)
    if ("range" in document) == ("choice" in document):
        raise BenchError(f"{source}: {what} is {value!r}, expected a range or a choice")
    if "choice" in document:
        return _choice(what, document, source)
    bounds, log, step = document["range"], document.get("log", False), document.get("step")
    numbers = isinstance(bounds, list) and len(bounds) == 2 and all(type(b) in (int, float) for b in bounds)
    if not numbers or not bounds[0] < bounds[1]:
        raise BenchError(f"{source}: {what} has range {bounds!r}, expected two numbers, the lower one first")
    if type(log) is not bool or (log and (bounds[0] <= 0 or step is not None)):
        raise BenchError(f"{source}: {what} has log {log!r}, expected true only above 0 and without a step")
    if step is not None and (type(step) not in (int, float) or not 0 < step <= bounds[1] - bounds[0]):
        raise BenchError(f"{source}: {what} has step {step!r}, expected a number above 0 within the range")
    low, high = bounds if {type(b) for b in bounds} == {int} and type(step) is not float else map(float, bounds)
    return Range(low, high, log, step)


def _choice(what: str, document: dict[str, Any], source: str) -> Choice:
    values = document["choice"]
    scalars = isinstance(values, list) and all(v is None or type(v) in (int, float, str, bool) for v in values)
    if not scalars or not values or len(document) > 1:
        raise BenchError(
            f"{source}: {what} has choice {values!r}, expected a list of numbers or words, and nothing else"
        )
    return Choice(tuple(values))


def _check(planner: str, space: Mapping[str, Space], source: str) -> None:
    """Every bound and choice must be a value that the planner takes."""
    ends = {o: each.values if isinstance(each, Choice) else (each.low, each.high) for o, each in space.items()}
    try:
        for option, values in ends.items():
            for value in values:
                check_spec(with_options(planner, {option: value}))
    except BenchError as error:
        raise BenchError(f"{source}: {error}") from error
