"""Pooling: summary rows of several seeds become one, as if their runs had been one.

Counts and seconds add up. A quotient is averaged with its own denominator as weight, which gives the quotient of the
sums exactly. Percentiles and means over requests are averaged with the number of requests as weight.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from lightspec_bench.core import BenchError
from lightspec_bench.reports.cells import CELL, LABELS

DENOMINATORS = {
    "throughput": "elapsed_s",
    "request_throughput": "elapsed_s",
    "request_goodput": "elapsed_s",
    "decode_throughput": "decode_s",
    "mean_acceptance_length": "num_spec_steps",
    "mean_tokens_per_step": "num_request_steps",
    "target_efficiency": "num_target_tokens",
    "verify_acceptance_rate": "num_verify_tokens",
    "draft_acceptance_rate": "num_draft_tokens",
    "verify_volume": "num_decode_tokens",
    "verify_volume_per_step": "num_steps",
    "draft_tokens_per_token": "num_decode_tokens",
    "step_time_s": "num_steps",
    "planner_time_s": "num_steps",
    "switches_per_1000_steps": "num_steps",
    "exposed_planner_share": "planner_s",
    "verify_share": "busy_s",
    "draft_share": "busy_s",
    "host_share": "busy_s",
    "prefill_share": "busy_s",
    "planner_share": "busy_s",
}
_SUMMED_SECONDS = ("elapsed_s", "busy_s", "decode_s", "planner_s")


def denominator(metric: str) -> str | None:
    """The column that weighs a metric when seeds are pooled; None for a count or a sum of seconds, which add up."""
    if metric.startswith("num_") or metric in _SUMMED_SECONDS:
        return None
    if metric.startswith("conditional_acceptance_rate_pos_"):
        return metric.replace("conditional_acceptance_rate", "num_at_risk")
    if metric.startswith("acceptance_rate_pos_"):
        return "num_spec_steps"
    return DENOMINATORS.get(metric, "num_requests")


def pool_seeds(summary: pd.DataFrame) -> pd.DataFrame:
    """One row per (trace, latency, concurrency, planner) in order of appearance, with `num_seeds`.

    `BenchError` where a cell appears twice with the same seed, or its seeds differ in origin.
    """
    cells = summary.groupby(list(CELL), sort=False)
    twice = summary[summary.duplicated([*CELL, "seed"])]
    if len(twice):
        raise BenchError(
            f"summary: cell {_name(twice.iloc[0][[*CELL, 'seed']])} appears twice, expected one row per cell and seed"
        )
    mixed = cells[list(LABELS)].nunique(dropna=False).max(axis=1)
    if (mixed > 1).any():
        raise BenchError(
            f"summary: cell {_name(mixed.index[mixed.to_numpy() > 1][0])} has rows of different origins, expected one"
        )
    pooled = cells[list(LABELS)].first().assign(num_seeds=cells["seed"].nunique())
    metrics = [name for name in summary.columns if name not in (*CELL, *LABELS, "seed")]
    columns = {name: _pool(summary, name, [summary[key] for key in CELL]) for name in metrics}
    return pd.concat([pooled, pd.DataFrame(columns)], axis=1).reset_index()


def _pool(summary: pd.DataFrame, metric: str, keys: list[pd.Series]) -> pd.Series:
    weight_name = denominator(metric)
    values = summary[metric].astype(float)
    if weight_name is None:
        return values.groupby(keys, sort=False).sum(min_count=1)
    weight = summary[weight_name].where(values.notna(), 0.0)
    total = weight.groupby(keys, sort=False).sum()
    return (values * weight).groupby(keys, sort=False).sum() / total.where(total > 0, np.nan)


def _name(parts: Iterable[object]) -> str:
    return f"({', '.join(map(str, parts))})"
