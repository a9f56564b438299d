"""Comparison: summary rows in; seeds pooled, best static K, ratios, regret, ranks and intervals out.

A summary has one row per cell: `trace`, `latency`, `latency_origin`, `concurrency`, `planner`, `seed`, `origin` and
the metrics of `summarise`. A comparison has one row per (trace, latency, concurrency, planner), seeds pooled, and one
`best-static` row per group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lightspec_bench.core import BenchError, FloatArray
from lightspec_bench.reports import intervals
from lightspec_bench.reports.cells import (
    BEST_STATIC,
    CELL,
    GROUP,
    LABELS,
    NO_SPECULATION,
    is_oracle,
    is_static,
    static_depth,
)
from lightspec_bench.reports.current import deepest_static
from lightspec_bench.reports.pooling import pool_seeds
from lightspec_bench.reports.request_metrics import quotient

RATIOS = {"ratio_to_none": NO_SPECULATION, "ratio_to_best_static": BEST_STATIC}


def compare(
    summary: pd.DataFrame,
    requests: pd.DataFrame | None = None,
    seed: int = 0,
    num_resamples: int = 1000,
    current: str | None = None,
) -> pd.DataFrame:
    """One row per group and planner, fastest first within a group (acceptance length does not rank).

    Adds to the pooled metrics: `stands_for` (the planner behind a `best-static` row), `ratio_to_none`,
    `ratio_to_best_static`, `ratio_to_current` (the planner in `current`: the one given, else the deepest static K),
    `request_speed_ratio_to_none`, `regret` (1 - throughput / the oracle's), `rank` (1 = fastest; hindsight is not
    ranked) and, with `requests` (rows of `request_rows`), `num_distinct_requests` and `*_low` and `*_high`: 95 %
    bootstrap bounds of throughput, TPOT, acceptance length, the ratios and the regret.
    """
    missing = [name for name in (*CELL, *LABELS, "seed", "throughput") if name not in summary.columns]
    if missing:
        raise BenchError(f"summary: column {missing[0]!r} is missing, expected one row per cell with its metrics")
    pooled = pool_seeds(summary)
    by_group = {} if requests is None else dict(iter(requests.groupby(list(GROUP), sort=False)))
    groups = [
        _compare_group(group, by_group.get(names), seed, num_resamples, current)
        for names, group in pooled.groupby(list(GROUP), sort=False)
    ]
    order = {name: {value: i for i, value in enumerate(pooled[name].unique())} for name in ("trace", "latency")}
    result = pd.concat(groups, ignore_index=True)
    keys = [result["trace"].map(order["trace"]), result["latency"].map(order["latency"]), result["concurrency"]]
    place = np.lexsort([-result["throughput"], *keys[::-1]])
    return result.iloc[place].reset_index(drop=True)


def best_static(group: pd.DataFrame) -> str | None:
    """The fastest of `none` and every static K, ties to the smaller K; None where no static K was run."""
    fixed = group[[planner == NO_SPECULATION or is_static(planner) for planner in group["planner"]]]
    if not any(is_static(planner) for planner in fixed["planner"]):
        return None
    fastest = fixed.loc[fixed["throughput"] == fixed["throughput"].max(), "planner"]
    return str(min(fastest, key=_depth_key))


def fastest_oracle(group: pd.DataFrame) -> int | None:
    """Place of the fastest oracle among a group's rows, None where no oracle was run."""
    oracles = np.flatnonzero([is_oracle(planner) for planner in group["planner"]])
    return int(oracles[group["throughput"].to_numpy()[oracles].argmax()]) if len(oracles) else None


def _depth_key(planner: str) -> float:
    if planner == NO_SPECULATION:
        return -1.0
    depth = static_depth(planner)
    return float("inf") if depth is None else float(depth)


def _compare_group(
    group: pd.DataFrame, requests: pd.DataFrame | None, seed: int, num_resamples: int, current: str | None
) -> pd.DataFrame:
    group = group.assign(stands_for=group["planner"], current=current or deepest_static(group["planner"]))
    winner = best_static(group)
    if winner is not None:
        row = group[group["planner"] == winner].assign(planner=BEST_STATIC)
        group = pd.concat([group, row], ignore_index=True)
    group = group.reset_index(drop=True)
    for column, planner in _references(group).items():
        group[column] = group["throughput"] / _value(group, planner, "throughput")
    speed = "request_speed_mean_of_ratios"
    if speed in group:
        group["request_speed_ratio_to_none"] = group[speed] / _value(group, NO_SPECULATION, speed)
    bound = fastest_oracle(group)
    group["regret"] = 1.0 - group["throughput"] / (np.nan if bound is None else group["throughput"].iloc[bound])
    group["rank"] = group["throughput"].where(group["planner"] != BEST_STATIC).rank(ascending=False, method="min")
    return group if requests is None else group.assign(**_intervals(group, requests, seed, num_resamples))


def _references(group: pd.DataFrame) -> dict[str, str]:
    """Name of a ratio -> the planner it is held against."""
    return RATIOS | {"ratio_to_current": str(group["current"].iloc[0])}


def _value(group: pd.DataFrame, planner: str, column: str) -> float:
    found = group.loc[group["planner"] == planner, column]
    return float(found.iloc[0]) if len(found) else float("nan")


def _intervals(group: pd.DataFrame, requests: pd.DataFrame, seed: int, num_resamples: int) -> dict[str, FloatArray]:
    """`*_low` and `*_high` columns of a group; every planner sees the same draws of requests."""
    units = np.unique(requests["request_id"].to_numpy())
    by_planner = {
        planner: intervals.sums_by_request({name: rows[name].to_numpy() for name in rows.columns}, units)
        for planner, rows in requests.groupby("planner", sort=False)
    }
    absent = np.full((len(units), len(intervals.QUANTITIES), 2), np.nan)
    sums = np.stack([by_planner.get(planner, absent) for planner in group["stands_for"]], axis=1)
    drawn = intervals.values_of(intervals.resample(sums, seed, num_resamples))  # (draws, planners, quantities)
    drawn[..., 0] *= quotient(group["throughput"].to_numpy(), intervals.values_of(sums.sum(axis=0))[:, 0])
    columns = {name: drawn[..., i] for i, name in enumerate(intervals.QUANTITIES)}
    for ratio, reference in _references(group).items():
        place = np.flatnonzero((group["planner"] == reference).to_numpy())
        if len(place):
            columns[ratio] = drawn[..., 0] / drawn[:, place, 0]
    bound = fastest_oracle(group)
    if bound is not None:
        columns["regret"] = 1.0 - drawn[..., 0] / drawn[:, [bound], 0]
    if len(units) < 2:
        columns = {name: np.full_like(values, np.nan) for name, values in columns.items()}
    distinct = np.isfinite(sums[:, :, 0, 0]).astype(float) * (sums[:, :, 0, 0] > 0)
    return {"num_distinct_requests": distinct.sum(axis=0), **_bounds(columns)}


def _bounds(columns: dict[str, FloatArray]) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for name, values in columns.items():
        both = np.array([intervals.interval(column) for column in values.T])
        bounds[f"{name}_low"], bounds[f"{name}_high"] = both[:, 0], both[:, 1]
    return bounds
