"""Acceptance per draft position with Wilson intervals: prefix survival, and given the one before."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd

from lightspec_bench.reports.cells import static_depth
from lightspec_bench.reports.charts import Bar, Bars, Chart
from lightspec_bench.reports.columns import origin_label, records

FEW = 30
_Z = 1.959963984540054  # 97.5 % point of the normal distribution


def wilson(successes: float, trials: float, z: float = _Z) -> tuple[float, float]:
    """Wilson's score interval of a rate (Wilson, 1927), (NaN, NaN) without a trial."""
    if not trials > 0:
        return math.nan, math.nan
    rate, square = successes / trials, z * z
    middle = (rate + square / (2 * trials)) / (1 + square / trials)
    half = z * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials)) / (1 + square / trials)
    return max(0.0, middle - half), min(1.0, middle + half)


def acceptance_chart(comparison: pd.DataFrame) -> Chart:
    """Two panels per trace: prefix survival, and the rate given the one before.

    Taken from the deepest static K, where every draft token is verified, at the concurrency with the most spec steps;
    without static planners from the row that verified most per step. The latency model does not matter there: traces
    are rows only. Repetitions of a request count once for the intervals where the comparison knows how many are
    distinct (`num_distinct_requests`).
    """
    sources = {str(trace): _deepest(records(group)) for trace, group in comparison.groupby("trace", sort=False)}
    rows = [_panels(trace, source) for trace, source in sources.items()]
    caption = (
        "Left: share of proposals accepted at least up to k. Right: share accepted at k where all before it were; "
        f"outlined: fewer than {FEW} samples. Whiskers: Wilson's 95 % intervals, steps taken as independent, "
        "repetitions of a request counted once; where requests differ they are too narrow."
    )
    return Chart("Acceptance per draft position", caption, origin_label(comparison), rows)


def _panels(trace: str, source: dict[str, Any]) -> list[Bars]:
    at_risk = _positions(source, "num_at_risk_pos")
    y_label = f"draft tokens accepted (%)\n{source['planner']}, concurrency {source['concurrency']}"
    share = _distinct_share(source)
    found = []
    for metric, title, trials in (
        ("acceptance_rate_pos", "prefix survival", [float(source["num_spec_steps"])] * len(at_risk)),
        ("conditional_acceptance_rate_pos", "given the one before", at_risk),
    ):
        rates = _positions(source, metric)
        bars = [_bar(k, rate, n, share) for k, (rate, n) in enumerate(zip(rates, trials, strict=False), start=1)]
        found.append(Bars(f"{trace}: {title}", bars, "draft position k", y_label, "no draft token was verified"))
    return found


def _bar(k: int, rate: float, trials: float, share: float) -> Bar:
    low, high = wilson(rate * trials * share, trials * share)
    text = f"k={k}: {100 * rate:.1f} % [{100 * low:.1f}, {100 * high:.1f}], {trials:,.0f} samples"
    return Bar(str(k), 100 * rate, 100 * low, 100 * high, text, trials < FEW)


def _distinct_share(source: dict[str, Any]) -> float:
    """Share of the finished requests that are no repetition of another one; 1 where unknown."""
    distinct, total = source.get("num_distinct_requests", math.nan), source.get("num_requests", math.nan)
    return min(1.0, distinct / total) if distinct > 0 and total > 0 else 1.0


def _deepest(rows: list[dict[str, Any]]) -> dict[str, Any]:
    static = [row for row in rows if static_depth(row["planner"])]
    if not static:
        return max(rows, key=lambda row: float(np.nan_to_num(row["verify_volume_per_step"])))
    return max(static, key=lambda row: (static_depth(row["planner"]) or 0, row["num_spec_steps"]))


def _positions(row: dict[str, Any], name: str) -> list[float]:
    """Values at k = 1, 2, ... up to the last position that was reached."""
    positions = (float(row.get(f"{name}_{k}", math.nan)) for k in itertools.count(1))
    return list(itertools.takewhile(lambda value: not math.isnan(value), positions))
