"""Published figures beside ours: the claims of a paper or article as records, and rows that set them next to a run's.

A claim is a set of changes against some fixed planner, as papers print them. Ours are computed from a comparison
against the same planner at the same place. Nothing of what was published enters a simulated figure here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lightspec_bench.core import BenchError
from lightspec_bench.reports.cells import BEST_STATIC, NO_SPECULATION, is_oracle, is_static
from lightspec_bench.reports.columns import count, gain, percent, planner_label, records, short_static

if TYPE_CHECKING:
    import pandas as pd

QUOTED = "quoted"
INPUT_ORIGINS = ("published", "modelled", "fitted", "measured")


@dataclass(frozen=True, slots=True)
class Claim:
    """Published changes against the planner `against` on a trace of the suite; None where nothing was published.

    `target_efficiency_gain` is a difference of fractions (.43: 43 points), `verify_volume_ratio` how many times fewer
    target rows per token, `throughput_ratio` new over old.
    """

    trace: str
    against: str
    target_efficiency_gain: float | None = None
    verify_volume_ratio: float | None = None
    throughput_ratio: float | None = None

    @property
    def changes(self) -> Changes:
        return Changes(self.target_efficiency_gain, self.verify_volume_ratio, self.throughput_ratio)


@dataclass(frozen=True, slots=True)
class Input:
    """One input of the runs: what it is, its value as text, where that comes from, and how."""

    what: str
    value: str
    origin: str
    how: str

    def __post_init__(self) -> None:
        if self.origin not in INPUT_ORIGINS:
            raise BenchError(
                f"input {self.what!r}: origin is {self.origin!r}, expected one of {', '.join(INPUT_ORIGINS)}"
            )


@dataclass(frozen=True, slots=True)
class Published:
    """What a source claims, under the name its rows get; the runs' inputs, and sentences that must stand beside."""

    name: str
    source: str
    claims: tuple[Claim, ...]
    inputs: tuple[Input, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes against a fixed planner: a difference of fractions and two quotients; None: unknown."""

    target_efficiency_gain: float | None = None
    verify_volume_ratio: float | None = None
    throughput_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """A planner's figures at one place, and their changes against the claim's fixed planner there."""

    planner: str
    target_efficiency: float
    verify_volume: float
    throughput: float
    changes: Changes


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what was published (`quoted`, no figures) or one planner of ours, by latency model."""

    planner: str
    origin: str
    quoted: Changes | None = None
    at: Mapping[str, Figures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of a claim: quoted first, then the planner it is against, then ours."""

    trace: str
    concurrency: int
    against: str
    rows: tuple[Row, ...]


def beside(comparison: pd.DataFrame, published: Published) -> list[Group]:
    """A group per claim and concurrency, in the order of the claims; single static K other than the claim's are left
    out. Raises `BenchError` where the comparison lacks the trace or the planner of a claim."""
    return [group for claim in published.claims for group in _groups(comparison, published, claim)]


def _groups(comparison: pd.DataFrame, published: Published, claim: Claim) -> Iterator[Group]:
    at_trace = comparison[comparison["trace"] == claim.trace]
    if not (at_trace["planner"] == claim.against).any():
        raise BenchError(f"published: no run of {claim.against!r} on trace {claim.trace!r}, which a claim is against")
    for concurrency, here in at_trace.groupby("concurrency"):
        by_latency = {str(name): _figures(records(rows), claim) for name, rows in here.groupby("latency", sort=False)}
        origin = str(here["origin"].iloc[0])
        rows = [Row(planner, origin, at=_of(by_latency, planner)) for planner in _shown(here, claim.against)]
        if any(change is not None for change in asdict(claim.changes).values()):
            rows.insert(0, Row(published.name, QUOTED, quoted=claim.changes))
        yield Group(claim.trace, int(str(concurrency)), claim.against, tuple(rows))


def _shown(here: pd.DataFrame, against: str) -> list[str]:
    """The claim's fixed planner, no speculation and best static K, then the others, fastest first, bounds last."""
    found = dict.fromkeys(str(planner) for planner in here["planner"])
    first = [planner for planner in (against, NO_SPECULATION, BEST_STATIC) if planner in found]
    others = [planner for planner in found if planner not in first and not is_static(planner)]
    return [*first, *sorted(others, key=is_oracle)]


def _of(by_latency: Mapping[str, Mapping[str, Figures]], planner: str) -> dict[str, Figures]:
    return {latency: rows[planner] for latency, rows in by_latency.items() if planner in rows}


def _figures(rows: Sequence[dict[str, Any]], claim: Claim) -> dict[str, Figures]:
    """Planner -> figures at one place."""
    base = next((row for row in rows if row["planner"] == claim.against), None)
    return {str(row["planner"]): _figures_of(row, base) for row in rows}


def _figures_of(row: dict[str, Any], base: dict[str, Any] | None) -> Figures:
    changes = Changes()
    if base is not None:
        changes = Changes(
            row["target_efficiency"] - base["target_efficiency"],
            base["verify_volume"] / row["verify_volume"],
            row["throughput"] / base["throughput"],
        )
    efficiency, volume, speed = (float(row[name]) for name in ("target_efficiency", "verify_volume", "throughput"))
    return Figures(str(row["stands_for"]), efficiency, volume, speed, changes)


# ------------------------------------------------------------------ as text, for every kind of table


def headings(groups: Sequence[Group]) -> list[str]:
    """Headings of `cells`: label, origin, acceptance and volume with changes, then throughput by latency model."""
    throughput = [part for name in latencies(groups) for part in (f"tok/s\n{name}", "change")]
    return ["planner", "origin", "target\neff.", "change", "rows/\ntoken", "times\nfewer", *throughput]


def latencies(groups: Sequence[Group]) -> list[str]:
    """Names of the latency models in order of appearance; the first one's runs give acceptance and volume."""
    return list(dict.fromkeys(name for group in groups for row in group.rows for name in row.at))


def cells(row: Row, names: Sequence[str]) -> list[str]:
    """A row as text under `headings`, with the latency models `names`."""
    origin = row.origin if row.quoted else row.origin.partition(" from ")[0]
    if row.quoted:
        parts = ["", points(row.quoted.target_efficiency_gain), "", times(row.quoted.verify_volume_ratio)]
        speed = [
            text for i in range(len(names)) for text in ("", change(row.quoted.throughput_ratio) if i == 0 else "")
        ]
        return [row.planner, origin, *parts, *speed]
    first = row.at.get(names[0], next(iter(row.at.values())))
    parts = [
        percent(first.target_efficiency), points(first.changes.target_efficiency_gain),
        count(first.verify_volume), times(first.changes.verify_volume_ratio),
    ]  # fmt: skip
    label = planner_label({"planner": row.planner, "stands_for": first.planner})
    return [label, origin, *parts, *(text for name in names for text in _speed(row.at.get(name), first))]


def _speed(figures: Figures | None, first: Figures) -> tuple[str, str]:
    """Throughput and its change; another planner behind a best static row than in the first place is named."""
    if figures is None:
        return "", ""
    name = NO_SPECULATION if figures.planner == NO_SPECULATION else short_static(figures.planner)
    other = f" ({name})" if figures.planner != first.planner else ""
    return count(figures.throughput) + other, change(figures.changes.throughput_ratio)


def points(value: float | None) -> str:
    """A difference of fractions as percentage points."""
    return "" if _unknown(value) else f"{100.0 * (value or 0.0):+.0f} points"


def times(value: float | None) -> str:
    """A quotient as `3.2x`."""
    return "" if _unknown(value) else f"{value:.1f}x"


def change(value: float | None) -> str:
    """A quotient as a signed change in %, empty where unknown."""
    return "" if value is None or math.isnan(value) else gain(value)


def _unknown(value: float | None) -> bool:
    return value is None or math.isnan(value)


def title(group: Group) -> str:
    """A group's heading: where, and what changes are against."""
    return f"{group.trace} · {group.concurrency} requests, against {group.against}"
