"""Where a step's time goes: verify, draft, host, prefill and the part of the planner that lengthens it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lightspec_bench.reports.cells import BEST_STATIC, NO_SPECULATION, is_dynamic, is_oracle
from lightspec_bench.reports.charts import Chart, Stack, Stacks, small_multiples
from lightspec_bench.reports.columns import milliseconds, origin_label, percent, planner_label, records
from lightspec_bench.reports.styles import Style

PARTS = {
    "verify": Style("#0072b2", "s", "-"),
    "draft": Style("#e69f00", "s", "-"),
    "host": Style("#009e73", "s", "-"),
    "prefill": Style("#cc79a7", "s", "-"),
    "planner": Style("#d55e00", "s", "-"),
}
_COLUMNS = (
    "planner",
    "stands_for",
    "throughput",
    "step_time_s",
    "planner_time_s",
    *(f"{part}_share" for part in PARTS),
)


def waterfall_chart(comparison: pd.DataFrame, current: str | None = None, more: str = "") -> Chart:
    """Milliseconds of a mean step by part, per planner, at one concurrency: the middle one, others on the page.

    Drawn are no speculation, the best static K, `current`, and the dynamic planners of the comparison; fastest first.
    """
    loads = sorted(comparison["concurrency"].unique())
    kept = [_is_drawn(str(planner), current) for planner in comparison["planner"]]
    by_load = {_label(load): _rows(comparison[kept], load) for load in loads}
    chosen = _label(loads[len(loads) // 2])
    caption = (
        "Mean milliseconds of one step of the whole batch, each part beginning where the one before it ends; a longer "
        "step may still be faster per token, as it emits more: planners stand by throughput, fastest on top. A "
        f"planner's time that is hidden behind the device's work lengthens nothing and is in the text only.{more}"
    )
    title = "Where a step's time goes"
    return Chart(title, caption, origin_label(comparison), by_load[chosen], legend=PARTS, choices=by_load)


def _label(load: Any) -> str:
    return "1 request" if load == 1 else f"{load} requests"


def _is_drawn(planner: str, current: str | None) -> bool:
    return planner in (NO_SPECULATION, BEST_STATIC, current) or is_dynamic(planner) or is_oracle(planner)


def _rows(comparison: pd.DataFrame, load: Any) -> list[list[Stacks]]:
    at_load = comparison[comparison["concurrency"] == load]
    title = "{} · " + _label(load)
    return [
        [Stacks(title.format(name), [_stack(row) for row in records(group, _COLUMNS)], "milliseconds of a step")
         for name, group in row if len(group)]
        for row in small_multiples(at_load)
    ]  # fmt: skip


def _stack(row: dict[str, Any]) -> Stack:
    step_ms = 1000.0 * row["step_time_s"]
    parts = []
    for name in PARTS:
        share = row[f"{name}_share"]
        text = f"{name} {milliseconds(share * row['step_time_s'])} ms, {percent(share)} of the step"
        if name == "planner" and row["planner_time_s"] > 0:
            text += f"; {milliseconds(row['planner_time_s'])} ms in all, the rest hidden"
        parts.append((name, share * step_ms, text))
    total = f"{milliseconds(row['step_time_s'])} ms, {row['throughput']:,.0f} tok/s"
    return Stack(planner_label(row), parts, total)
