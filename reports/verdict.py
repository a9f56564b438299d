"""Verdict: what a comparison says, in sentences: would dynamic MTP pay, where, and against what.

One dynamic planner answers for a (trace, latency): the one with the highest geometric mean of throughput over loads,
so that no planner is picked anew per load in hindsight. It is held against no speculation, against the best single
setting for all loads (what an engineer would have to configure), and against the best static K of each load, which
nobody knows beforehand. Less than `TIE` either way is a tie, and so is a single load whose interval has no change in
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from lightspec_bench.reports.cells import BEST_STATIC, NO_SPECULATION, is_dynamic, is_static
from lightspec_bench.reports.columns import gain, records, short_static
from lightspec_bench.reports.selection import MANY

TIE = 0.01
Answer = Literal["yes", "no", "tie", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one (trace, latency): a word, one headline sentence, and the reasons. `recommended` is what to
    run: the dynamic planner where it pays, else the best single setting; None where neither ran at every load."""

    trace: str
    latency: str
    answer: Answer
    headline: str
    reasons: tuple[str, ...]
    recommended: str | None = None

    @property
    def text(self) -> str:
        """Headline and reasons as one paragraph."""
        return " ".join((self.headline, *self.reasons))


def verdicts(comparison: pd.DataFrame) -> list[Verdict]:
    """One verdict per (trace, latency), in the comparison's order."""
    return [
        _verdict(str(trace), str(latency), group)
        for (trace, latency), group in comparison.groupby(["trace", "latency"], sort=False)
    ]


def _verdict(trace: str, latency: str, group: pd.DataFrame) -> Verdict:
    table = group.pivot_table(index="concurrency", columns="planner", values="throughput", aggfunc="first")
    table = table.dropna(axis="columns")  # only planners that ran at every load can be compared over all
    dynamic = _best(table, [str(p) for p in table.columns if is_dynamic(str(p))])
    single = _best(table, _fixed(table))
    where = f"On {trace} with {latency}"
    if dynamic is None or single is None:
        missing = "dynamic planner" if dynamic is None else "no speculation or static K"
        return Verdict(
            trace,
            latency,
            "unknown",
            f"{where}: no {missing} ran at every load, so there is no answer.",
            (),
            dynamic or single,
        )
    rows = {row["concurrency"]: row for row in records(group) if row["planner"] == dynamic}
    change = _mean_ratio(table[dynamic] / table[single])
    beside = "ratio_to_none" if single == NO_SPECULATION else "ratio_to_best_static"
    level = len(table) == 1 and sign(next(iter(rows.values())), beside) == 0
    answer: Answer = "tie" if level or abs(change - 1.0) < TIE else "yes" if change > 1.0 else "no"
    kept = {row["concurrency"]: row["throughput"] for row in records(group) if row["planner"] == single}
    load = max(rows, key=lambda n: abs(math.log(rows[n]["throughput"] / kept[n])))
    reasons = [*_chosen(table), _headline_row(where, rows[load], group), _by_load(rows.values())]
    if len(table) > 1:
        reasons.append(_single_setting(table, single, dynamic))
    headline = _answer(answer, dynamic, single, change, len(table))
    recommended = dynamic if answer == "yes" else single
    return Verdict(trace, latency, answer, headline, tuple(filter(None, reasons)), recommended)


def _chosen(table: pd.DataFrame) -> list[str]:
    """That the planner was picked of many with these very results: a choice that flatters it."""
    count = sum(is_dynamic(str(planner)) for planner in table.columns)
    return [f"It is the best of {count} dynamic planners here, picked in hindsight."] if count > MANY else []


def _fixed(table: pd.DataFrame) -> list[str]:
    return [str(p) for p in table.columns if p == NO_SPECULATION or is_static(str(p))]


def _best(table: pd.DataFrame, planners: list[str]) -> str | None:
    """The planner with the highest geometric mean over loads; of equals the first."""
    means = np.log(table[planners].to_numpy(dtype=np.float64)).mean(axis=0)
    return planners[int(means.argmax())] if planners else None


def _mean_ratio(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


def _answer(answer: Answer, dynamic: str, single: str, change: float, num_loads: int) -> str:
    setting = _setting(single)
    over = "at this load" if num_loads == 1 else f"over {num_loads} loads (geometric mean)"
    if answer == "tie":
        return f"Dynamic planning makes no difference: {dynamic} is level with {setting} {over}, {gain(change)}."
    verb = "pays" if answer == "yes" else "does not pay"
    figure = f"{dynamic} stands at {gain(change)} against {setting}, the best single setting, {over}"
    return f"Dynamic planning {verb}: {figure}."


def _headline_row(where: str, row: dict[str, Any], group: pd.DataFrame) -> str:
    """The load where the planner differs most from the best single setting, against both references."""
    same = (group["concurrency"] == row["concurrency"]) & (group["planner"] == BEST_STATIC)
    text = f"{where} at {requests_words(row['concurrency'])}, {row['planner']}"
    parts = []
    if not math.isnan(row["ratio_to_none"]):
        parts.append(f"{change(row, 'ratio_to_none')} against no speculation")
    if same.any():
        best = short_static(str(group.loc[same, "stands_for"].iloc[0]))
        setting = f"static {best}" if best.startswith("K=") else f"setting, {best}"
        parts.append(f"{change(row, 'ratio_to_best_static')} against the best {setting} (known only in hindsight)")
    return f"{text} stands at {' and '.join(parts)}." if parts else f"{text} has nothing to be compared with."


def _by_load(rows: Iterable[dict[str, Any]]) -> str:
    """How often the planner is ahead of, level with and behind the best static K of each load."""
    signs = [sign(row, "ratio_to_best_static") for row in rows]
    counts = {name: signs.count(value) for name, value in (("ahead", 1), ("level", 0), ("behind", -1))}
    shown = ", ".join(f"{name} at {count}" for name, count in counts.items() if count)
    loads = "load" if len(signs) == 1 else "loads"
    return f"Against the best static K of each load it is {shown} of {len(signs)} {loads}." if shown else ""


def sign(row: dict[str, Any], ratio: str) -> int | None:
    """1 ahead, -1 behind, 0 level (less than `TIE`, or the interval contains no change), None unknown."""
    low, high = (row.get(f"{ratio}_{side}", math.nan) for side in ("low", "high"))
    value = row[ratio]
    if math.isnan(value):
        return None
    if abs(value - 1.0) < TIE or low <= 1.0 <= high:
        return 0
    return 1 if value > 1.0 else -1


def signs(frame: pd.DataFrame, ratio: str) -> list[int | None]:
    """`sign` of every row."""
    columns = [name for name in (ratio, f"{ratio}_low", f"{ratio}_high") if name in frame]
    return [sign(row, ratio) for row in records(frame[columns])]


def _single_setting(table: pd.DataFrame, single: str, dynamic: str) -> str:
    """What keeping one setting for all loads costs at its worst load, and what the dynamic planner costs at its."""
    best = table[_fixed(table)].max(axis=1)
    worst = {name: (table[name] / best).min() for name in (single, dynamic)}
    load = (table[single] / best).idxmin()
    kept = f"Keeping {_setting(single)} at every load"
    loss = gain(worst[single])
    if worst[single] > 1.0 - TIE:
        return f"{kept} costs less than {100 * TIE:.0f} % anywhere."
    where = f"at {requests_words(load)}: {loss} against the best setting there"
    return f"{kept} costs most {where}; {dynamic} at its worst {gain(worst[dynamic])}."


def change(row: dict[str, Any], ratio: str) -> str:
    """A ratio with its interval where it is known: `+23.1 % [18.0, 27.4]`."""
    low, high = (row.get(f"{ratio}_{side}", math.nan) for side in ("low", "high"))
    if math.isnan(low) or math.isnan(high):
        return gain(row[ratio])
    bounds = [gain(bound).removesuffix(" %").removeprefix("+") for bound in (low, high)]
    return gain(row[ratio]) if bounds[0] == bounds[1] else f"{gain(row[ratio])} [{', '.join(bounds)}]"


def _setting(planner: str) -> str:
    return short_static(planner) if planner == NO_SPECULATION else f"static {short_static(planner)}"


def requests_words(count: Any) -> str:
    """`64 concurrent requests`."""
    return "1 request" if count == 1 else f"{count} concurrent requests"
