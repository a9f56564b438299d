"""Ranking: planners over all cells and per trace, and who loses to no speculation where. Comparison in, tables out.

A planner's figure over several cells is the geometric mean of its ratios. Its interval weighs requests at random, one
weight for a request in all cells (`intervals.weights`): ratios are paired, and cells of one trace are not taken for
independent evidence. Row r of every trace has the same weight: traces of the same prompts stay paired too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lightspec_bench.core import FloatArray
from lightspec_bench.reports import intervals
from lightspec_bench.reports.cells import BEST_STATIC, CELL, GROUP, NO_SPECULATION, is_dynamic, is_oracle
from lightspec_bench.reports.columns import gain, records
from lightspec_bench.reports.comparison import fastest_oracle
from lightspec_bench.reports.verdict import signs

OVERALL = "all traces"
MEANS = ("ratio_to_best_static", "ratio_to_none", "regret")


def rank(
    comparison: pd.DataFrame, requests: pd.DataFrame | None = None, seed: int = 0, num_resamples: int = 1000
) -> pd.DataFrame:
    """One row per scope and planner, best first; scopes are `OVERALL` and, of several traces, each trace.

    `place` (1 = best; unknown for hindsight and for a planner without a result in some cell of the scope: what it
    left out may be harder), `num_cells`, geometric means `ratio_to_best_static` and `ratio_to_none`, `regret` (1 -
    geometric mean of throughput / the oracle's), each with `_low` and `_high` where `requests` are given,
    `worst_ratio` to best static K with `worst_trace`, `worst_latency`, `worst_concurrency`, counts of cells
    `num_ahead` of and `num_behind` best static K and `num_losing` to no speculation (`verdict.sign`), and
    `switches_per_1000_steps`.
    """
    comparison = comparison.reset_index(drop=True)
    logs = _log_ratios(comparison, np.log(comparison["throughput"].to_numpy(dtype=np.float64))[:, None])
    draws = None
    if requests is not None:
        draws = _log_ratios(comparison, log_draws(comparison, requests, seed, num_resamples))
    traces = [str(trace) for trace in comparison["trace"].unique()]
    scopes = [(OVERALL, comparison), *((trace, comparison[comparison["trace"] == trace]) for trace in traces)]
    ranked = [_rank_scope(scope, frame, logs, draws) for scope, frame in scopes[: None if len(traces) > 1 else 1]]
    return pd.concat(ranked, ignore_index=True)


def losing(comparison: pd.DataFrame) -> pd.DataFrame:
    """Per cell group: `num_planners` dynamic planners held against no speculation, and `planners`, a list of those
    that lose to it, worst first: at least 1 % slower, with an interval that does not contain equal speed."""
    rows = []
    for names, group in comparison.groupby(list(GROUP), sort=False):
        held = group[group["planner"].map(is_dynamic)].sort_values("throughput")
        found = signs(held, "ratio_to_none")
        losers = [str(planner) for planner, one in zip(held["planner"], found, strict=True) if one == -1]
        known = sum(one is not None for one in found)
        rows.append({**dict(zip(GROUP, names, strict=True)), "num_planners": known, "planners": losers})
    return pd.DataFrame(rows)


def losing_sentences(comparison: pd.DataFrame) -> list[str]:
    """`chat · h200 · 64: 1 of 3 dynamic planners loses to no speculation: dspark (-4.5 %)`, for each cell with any."""
    changes = comparison.set_index([*GROUP, "planner"])["ratio_to_none"]
    found = []
    for row in records(losing(comparison)):
        where = tuple(row[name] for name in GROUP)
        named = ", ".join(f"{planner} ({gain(changes[(*where, planner)])})" for planner in row["planners"])
        verb = "loses" if len(row["planners"]) == 1 else "lose"
        if named:
            held = f"{len(row['planners'])} of {row['num_planners']} dynamic planners {verb} to no speculation"
            found.append(f"{' · '.join(map(str, where))}: {held}: {named}.")
    return found


def with_absent(ranking: pd.DataFrame, absent: pd.DataFrame) -> pd.DataFrame:
    """The ranking with `num_absent` cells per scope and planner and the `reason`; planners without any result last.

    `absent` has a row per cell without a result: the cell's names and a `reason`.
    """
    found = []
    for scope in ranking["scope"].unique():
        inside = absent if scope == OVERALL else absent[absent["trace"] == scope]
        for planner, rows in inside.groupby("planner", sort=False):
            reason = "; ".join(rows["reason"].unique())
            cells = len(rows.drop_duplicates(list(GROUP)))
            found.append({"scope": scope, "planner": planner, "num_absent": cells, "reason": reason})
    columns = ["scope", "planner", "num_absent", "reason"]
    merged = ranking.merge(pd.DataFrame(found, columns=columns), on=columns[:2], how="outer", sort=False)
    filled = merged.assign(
        num_absent=merged["num_absent"].fillna(0).astype(int),
        reason=merged["reason"].fillna(""),
        num_cells=merged["num_cells"].fillna(0).astype(int),
    )
    scopes = {scope: i for i, scope in enumerate(ranking["scope"].unique())}
    places = {key: i for i, key in enumerate(zip(ranking["scope"], ranking["planner"], strict=True))}
    order = [
        (scopes[s], places.get((s, p), len(places))) for s, p in zip(filled["scope"], filled["planner"], strict=True)
    ]
    return filled.iloc[sorted(range(len(filled)), key=order.__getitem__)].reset_index(drop=True)


def log_draws(comparison: pd.DataFrame, requests: pd.DataFrame, seed: int, num_resamples: int) -> FloatArray:
    """Log throughput of every row of the comparison under random weights, (rows, draws); NaN where unknown.

    One request has one weight in all rows, so differences of rows are paired.
    """
    units = np.arange(int(requests["request_id"].max()) + 1)
    cells: dict[tuple[Any, ...], int] = {}
    sums: list[FloatArray] = []
    for names, rows in requests.groupby(list(CELL), sort=False):
        if rows["request_id"].nunique() > 1:  # one request alone has no spread to speak of
            cells[tuple(names)] = len(sums)
            sums.append(intervals.sums_by_request({name: rows[name].to_numpy() for name in rows.columns}, units)[:, 0])
    drawn = np.full((len(comparison), num_resamples), np.nan)
    if not sums:
        return drawn
    by_cell = np.stack(sums)  # (cells, units, tokens and seconds)
    weighted = np.tensordot(by_cell, intervals.weights(len(units), seed, num_resamples), axes=(1, 1))
    shifts = np.log(weighted[:, 0] / weighted[:, 1]) - np.log(by_cell[..., 0].sum(1) / by_cell[..., 1].sum(1))[:, None]
    keys = zip(*(comparison[name] for name in (*GROUP, "stands_for")), strict=True)
    for row, (key, throughput) in enumerate(zip(keys, comparison["throughput"], strict=True)):
        if key in cells:
            drawn[row] = np.log(throughput) + shifts[cells[key]]
    return drawn


def _log_ratios(comparison: pd.DataFrame, logs: FloatArray) -> dict[str, FloatArray]:
    """Logs of throughput against best static K, no speculation and the oracle of the row's group, (rows, draws)."""
    against = {name: np.full_like(logs, np.nan) for name in MEANS}
    for _, group in comparison.groupby(list(GROUP), sort=False):
        rows, planners = group.index.to_numpy(), group["planner"].to_numpy()
        found = [next(iter(np.flatnonzero(planners == name)), None) for name in (BEST_STATIC, NO_SPECULATION)]
        for name, place in zip(MEANS, (*found, fastest_oracle(group)), strict=True):
            if place is not None:
                against[name][rows] = logs[rows] - logs[rows[place]]
    return against


def _rank_scope(
    scope: str, frame: pd.DataFrame, logs: dict[str, FloatArray], draws: dict[str, FloatArray] | None
) -> pd.DataFrame:
    num_cells = len(frame.groupby(list(GROUP)))
    ranked = pd.DataFrame(
        {"scope": scope, "planner": planner, **_entry(rows, logs, draws)}
        for planner, rows in frame.groupby("planner", sort=False)
    )
    hindsight = np.array([name == BEST_STATIC or is_oracle(name) for name in ranked["planner"]])
    placed = (ranked["num_cells"] == num_cells) & ~hindsight
    ranked.insert(2, "place", ranked["mean_log"].round(12).where(placed).rank(ascending=False, method="min"))
    by = ["ratio_to_best_static", "ratio_to_none", "mean_log"]
    return ranked.sort_values(by, ascending=False, kind="stable").drop(columns="mean_log")


def _entry(rows: pd.DataFrame, logs: dict[str, FloatArray], draws: dict[str, FloatArray] | None) -> dict[str, Any]:
    """The figures of one planner over its cells in a scope."""
    place = rows.index.to_numpy()
    entry: dict[str, Any] = {"num_cells": len(rows), "mean_log": float(np.log(rows["throughput"]).mean())}
    for name in MEANS:
        entry[name] = float(_shown(name, logs[name][place].mean(axis=0))[0])
        if draws is not None:
            entry[f"{name}_low"], entry[f"{name}_high"] = intervals.interval(_shown(name, draws[name][place].mean(0)))
    entry |= _worst(rows)
    for name, ratio, wanted in (
        ("num_ahead", "ratio_to_best_static", 1),
        ("num_behind", "ratio_to_best_static", -1),
        ("num_losing", "ratio_to_none", -1),
    ):
        found = signs(rows, ratio)
        entry[name] = float(found.count(wanted)) if any(one is not None for one in found) else float("nan")
    steps = rows["num_steps"].where(rows["num_switches"].notna()).sum()
    entry["switches_per_1000_steps"] = 1000.0 * rows["num_switches"].sum() / steps if steps else float("nan")
    return entry


def _shown(name: str, mean_log: FloatArray) -> FloatArray:
    return 1.0 - np.exp(mean_log) if name == "regret" else np.exp(mean_log)


def _worst(rows: pd.DataFrame) -> dict[str, Any]:
    ratios = rows["ratio_to_best_static"]
    if ratios.isna().all():
        return {"worst_ratio": float("nan"), "worst_trace": None, "worst_latency": None, "worst_concurrency": None}
    row = rows.iloc[int(ratios.to_numpy().argmin())]
    return {"worst_ratio": float(row["ratio_to_best_static"]), **{f"worst_{name}": row[name] for name in GROUP}}
