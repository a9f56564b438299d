"""Summary: what to run, in a sentence a manager can read, per trace and latency model, and load by load.

The recommended planner is the verdict's: the dynamic one where it pays, otherwise the best single setting. It is held
against no speculation and against the current setting (`comparison.compare`'s `current`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from lightspec_bench.reports.cells import NO_SPECULATION
from lightspec_bench.reports.columns import Column, count, gain, records, short_static
from lightspec_bench.reports.current import current_words
from lightspec_bench.reports.verdict import Verdict, change, requests_words, sign

CURRENT = "ratio_to_current"


@dataclass(frozen=True, slots=True)
class Load:
    """One concurrency: the recommended planner's row and the current setting's, None where it did not run there."""

    concurrency: int
    recommended: dict[str, Any]
    current: dict[str, Any] | None
    best: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What to run on a (trace, latency): `planner`, one `sentence`, and every load."""

    trace: str
    latency: str
    planner: str
    current: str
    sentence: str
    loads: tuple[Load, ...]


def summarise_loads(comparison: pd.DataFrame, verdict: Verdict, is_given: bool) -> Summary | None:
    """The summary of one verdict; None where it recommends nothing. `is_given`: somebody said what is current."""
    if verdict.recommended is None:
        return None
    group = comparison[(comparison["trace"] == verdict.trace) & (comparison["latency"] == verdict.latency)]
    current = next((str(name) for name in group.get("current", pd.Series(dtype=object)).dropna()), "")
    loads = tuple(
        _load(int(str(load)), rows, verdict.recommended, current) for load, rows in group.groupby("concurrency")
    )
    sentence = _sentence(_shown(loads, is_given), loads, verdict.recommended, current, is_given)
    return Summary(verdict.trace, verdict.latency, verdict.recommended, current, sentence, loads)


def _load(concurrency: int, rows: pd.DataFrame, planner: str, current: str) -> Load:
    found = {row["planner"]: row for row in records(rows)}
    best = found.get("best-static")
    return Load(concurrency, found[planner], found.get(current), short_static(str(best["stands_for"])) if best else "")


def _shown(loads: Sequence[Load], is_given: bool) -> Load:
    """The load a sentence is about: furthest from a current setting that was given, else the most gained."""
    column = CURRENT if is_given else "ratio_to_none"
    logs = [math.log(ratio) if (ratio := load.recommended.get(column, math.nan)) > 0 else 0.0 for load in loads]
    return max(zip(logs, loads, strict=True), key=lambda pair: abs(pair[0]) if is_given else pair[0])[1]


def _sentence(shown: Load, loads: Sequence[Load], planner: str, current: str, is_given: bool) -> str:
    """`At 64 concurrent requests, X: +24.3 % [21.7, 27.1] over no speculation; your current K=5 loses 9.0 %`."""
    row, name = shown.recommended, short_static(planner)
    where = requests_words(shown.concurrency)
    parts = []
    if planner == NO_SPECULATION:
        parts.append(f"At {where}, no speculation is fastest")
    elif math.isnan(row["ratio_to_none"]):
        parts.append(f"At {where}, {name}: {count(row['throughput'])} tokens/s")
    else:
        over = "over" if row["ratio_to_none"] >= 1.0 else "against"
        parts.append(f"At {where}, {name}: {change(row, 'ratio_to_none')} {over} no speculation")
    if shown.current is not None and current != planner:
        parts.append(f"{current_words(current, is_given)} {_loses(shown.current)}")
        if is_given:
            parts.append(f"changing over: {change(row, CURRENT)}")
    elif current == planner:
        parts.append("that is what runs now" if is_given else "that is the drafter's full depth")
    return "; ".join([*parts, *_elsewhere(shown, loads, name)]) + "."


def _elsewhere(shown: Load, loads: Sequence[Load], name: str) -> list[str]:
    """Where else the recommended setting loses to no speculation, the worst of it."""
    losing = [load for load in loads if load is not shown and sign(load.recommended, "ratio_to_none") == -1]
    if not losing:
        return []
    worst = min(losing, key=lambda load: load.recommended["ratio_to_none"])
    return [f"but at {requests_words(worst.concurrency)} {name} loses {_turned(worst.recommended)}"]


def _loses(row: dict[str, Any]) -> str:
    """Whether the current setting gains or loses against no speculation."""
    if math.isnan(row["ratio_to_none"]):
        return f"gives {count(row['throughput'])} tokens/s"
    way = sign(row, "ratio_to_none")
    if not way:
        return f"makes no difference ({change(row, 'ratio_to_none')})"
    shown = change(row, "ratio_to_none")
    return f"gains {shown.removeprefix('+')}" if way > 0 else f"loses {_turned(row)}"


def _turned(row: dict[str, Any]) -> str:
    """A loss without its sign: `9.1 % [7.0, 11.2]`."""
    low, high = (row.get(f"ratio_to_none_{side}", math.nan) for side in ("low", "high"))
    lost = gain(row["ratio_to_none"]).removeprefix("-")
    bounds = f"{100 * (1 - high):.1f}", f"{100 * (1 - low):.1f}"
    return lost if math.isnan(low) or bounds[0] == bounds[1] else f"{lost} [{', '.join(bounds)}]"


LOADS = (
    Column(
        "ratio_to_none", "vs no\nspec.", "Throughput of the recommended setting against no speculation.", gain, True
    ),
    Column(CURRENT, "vs\ncurrent", "Throughput of the recommended setting against the current one.", gain, True),
)
CURRENTS = Column("ratio_to_none", "current vs\nno spec.", "Throughput of the current setting against no speculation.",
                  gain, True)  # fmt: skip
