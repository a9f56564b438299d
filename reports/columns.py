"""Columns: how a comparison's metrics are headed, formatted and explained, shared by tables and pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lightspec_bench.reports.cells import BEST_STATIC, NO_SPECULATION, static_depth

if TYPE_CHECKING:
    import pandas as pd

UNKNOWN = "–"


def count(value: float) -> str:
    """Four significant digits at least, no decimals above 1000: `7.25`, `982.4`, `12,345`."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"


def gain(value: float) -> str:
    """A ratio as a signed change: 1.231 -> `+23.1 %`."""
    shown = f"{100.0 * (value - 1.0):+.1f}"
    return f"{shown.replace('-0.0', '0.0').replace('+0.0', '0.0')} %"


def percent(value: float) -> str:
    """A fraction as %: .3333 -> `33.3 %`."""
    return f"{100.0 * value:.1f} %"


def milliseconds(value: float) -> str:
    """Seconds as ms with three significant digits: `.0004` -> `0.400`."""
    ms = 1000.0 * value
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}" if ms >= 1 else f"{ms:.3f}"


@dataclass(frozen=True, slots=True)
class Column:
    """One metric as shown. `header` is short and carries the unit; `meaning` is the definition in words."""

    metric: str
    header: str
    meaning: str
    show: Callable[[float], str]
    with_interval: bool = False

    def cell(self, row: dict[str, Any]) -> str:
        """The formatted value of a row, `–` where it is unknown."""
        value = row.get(self.metric, math.nan)
        return UNKNOWN if value is None or math.isnan(value) else self.show(value)

    def interval(self, row: dict[str, Any]) -> str:
        """The 95 % interval of a row as `[low, high]`, empty where it is unknown or a point."""
        bounds = [row.get(f"{self.metric}_{side}", math.nan) for side in ("low", "high")]
        if any(math.isnan(bound) for bound in bounds) or bounds[0] == bounds[1]:
            return ""
        low, high = (self.show(bound).removesuffix(" %").removeprefix("+") for bound in bounds)
        return f"[{low}, {high}]"


SPEED = (
    Column("throughput", "tok/s", "Output tokens per second end to end: prefill, host and idle time included.",
           count, True),
    Column("ratio_to_none", "vs no\nspec.", "Throughput against `none`: speculation off, no drafter loaded.", gain,
           True),
    Column("ratio_to_best_static", "vs best\nstatic K",
           "Throughput against the fastest of `none` and every static K at this load, known only in hindsight.",
           gain, True),
    Column("regret", "regret", "Throughput missing to the oracle, which knows what will be accepted.", percent),
    Column("request_goodput", "goodput\nreq/s",
           "Requests per second that kept every bound of the SLO (vLLM's goodput).", count),
    Column("step_time_s", "step\nms", "Mean time of one step of the whole batch: verify, draft, host, prefill and "
           "exposed planner.", milliseconds),
    Column("planner_time_s", "planner\nms", "Mean time per step spent in the planner, hidden or exposed.",
           milliseconds),
    Column("tpot_p50_s", "TPOT ms\np50", "Time per output token after the first, median over requests.", milliseconds),
    Column("tpot_p99_s", "TPOT ms\np99", "Time per output token after the first, 99th percentile over requests.",
           milliseconds),
)  # fmt: skip
TOKENS = (
    Column("mean_acceptance_length", "accept\nlength",
           "1 + accepted / spec steps, pooled over steps (vLLM's mean acceptance length).", count, True),
    Column("target_efficiency", "target\neff.",
           "Emitted tokens / target rows, bonus and target row both counted (DSpark paper, LightSpec).", percent),
    Column("verify_acceptance_rate", "verify\nacc.", "Accepted / verified draft tokens.", percent),
    Column("draft_acceptance_rate", "draft\nacc.",
           "Accepted / drafted tokens (vLLM, llama.cpp).", percent),
    Column("verify_volume", "rows/\ntoken", "Target rows per emitted token (verify volume).", count),
    Column("draft_tokens_per_token", "drafts/\ntoken", "Draft tokens per emitted token.", count),
    Column("switches_per_1000_steps", "switches/\n1000 steps",
           "Steps that plan another draft depth than the step before, per 1000 steps.", count),
)  # fmt: skip


def planner_label(row: dict[str, Any]) -> str:
    """A planner's name as shown; `best static (K=3)` names what stands behind the row."""
    if row["planner"] != BEST_STATIC:
        return str(row["planner"])
    return f"best static ({short_static(str(row['stands_for']))})"


def short_static(planner: str) -> str:
    """`static:k=3` -> `K=3`, `none` -> `no speculation`; others keep their name."""
    depth = static_depth(planner)
    return "no speculation" if planner == NO_SPECULATION else planner if depth is None else f"K={depth}"


def origin_label(frame: pd.DataFrame) -> str:
    """Where the numbers of a summary or comparison come from: run origin, latency names and their origins."""
    runs = ", ".join(frame["origin"].unique())
    pairs = frame[["latency", "latency_origin"]].drop_duplicates().itertuples(index=False)
    return f"{runs[:1].upper()}{runs[1:]}; latency: {'; '.join(f'{name}, {origin}' for name, origin in pairs)}"


def with_bounds(metric: str) -> list[str]:
    """The columns of a metric and its interval."""
    return [metric, f"{metric}_low", f"{metric}_high"]


def records(frame: pd.DataFrame, columns: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Rows as dictionaries with string keys; of `columns` only, where given, those that the frame has."""
    if columns is not None:
        frame = frame[[name for name in columns if name in frame]]
    names = [str(name) for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in frame.to_numpy(dtype=object).tolist()]
