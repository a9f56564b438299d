"""A tuning task: what is tuned for which engine and which loads, and the bounds that have to hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lightspec_bench.core import BenchError
from lightspec_bench.reports.export_text import Deployment
from lightspec_bench.slo import parse_ms
from lightspec_bench.suite import Conditions

DEFAULT_LOADS = {"hf": "1", "llama.cpp": "1-8"}  # one sequence at a time; a few slots
_STATISTICS = ("mean", "p50", "p90", "p99")
_QUANTITIES = ("tpot", "itl", "e2el", "ttft")
SLO_NAMES = tuple(
    name for each in _QUANTITIES for name in (f"{each}_ms", *(f"{each}_{kind}_ms" for kind in _STATISTICS))
)


@dataclass(frozen=True, slots=True)
class Bound:
    """An SLO: `name` as the user wrote it, the summary's `column`, and the most it may be, in seconds."""

    name: str
    column: str
    most_s: float

    @property
    def words(self) -> str:
        return f"{self.column.removesuffix('_s').replace('_', ' ').upper()} ≤ {self.most_s * 1e3:g} ms"


@dataclass(frozen=True, slots=True)
class Task:
    """What `tune` is asked. `loads` ascend; `refine` is how often a load is put between two whose best K differ;
    `current` is the planner that runs today, to be held against what is found."""

    traces: tuple[str, ...]
    latency: str
    engine: str
    deployment: Deployment
    loads: tuple[int, ...]
    seeds: tuple[int, ...] = (0,)
    bounds: tuple[Bound, ...] = ()
    current: str | None = None
    refine: int = 2
    conditions: Conditions = field(default_factory=Conditions)


def parse_loads(text: str) -> tuple[int, ...]:
    """`1-256` -> 1, 2, 4, ..., 256 (its ends and the powers of two between them), `1,8,64` -> these; both mix."""
    found: set[int] = set()
    for part in text.split(","):
        span = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        low, high = (int(span[1]), int(span[2] or span[1])) if span else (0, 0)
        if not 1 <= low <= high:
            raise BenchError(f"--concurrency has {part.strip()!r}, expected a number, or first-last, from 1 up")
        found |= {low, high, *(1 << power for power in range(high.bit_length()) if low < 1 << power < high)}
    return tuple(sorted(found))


def loads_of(engine: str, text: str | None) -> tuple[int, ...]:
    """The loads that are tried for an engine. Raises `BenchError` where it does not run that many at once."""
    loads = parse_loads(DEFAULT_LOADS.get(engine, "1-256") if text is None else text)
    if engine == "hf" and loads != (1,):
        raise BenchError(
            f"--concurrency has {loads[-1]}, expected 1: transformers runs assisted generation with one sequence"
        )
    return loads


def parse_bounds(texts: Sequence[str], prefill: str) -> tuple[Bound, ...]:
    """`tpot_ms=30` -> bounds; a name without a statistic is the 99th percentile over requests."""
    bounds: dict[str, Bound] = {}
    for name, most_ms in parse_ms(texts, SLO_NAMES).items():
        quantity, *statistic = name.removesuffix("_ms").split("_")
        if quantity == "ttft" and prefill == "off":
            raise BenchError(f"--slo: {name} needs prompts to cost something, expected --prefill separate or chunked")
        bounds[name] = Bound(name, f"{quantity}_{statistic[0] if statistic else 'p99'}_s", most_ms / 1e3)
    return tuple(bounds.values())


def bounds_document(bounds: Sequence[Bound]) -> Mapping[str, float]:
    """Bounds as JSON values: summary column -> seconds."""
    return {bound.column: bound.most_s for bound in bounds}
