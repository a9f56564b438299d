"""Repeats of a measured run: medians over repeats, and ratios of planners that ran in the same repeat."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from lightspec_bench.core import BenchError
from lightspec_bench.reports.cells import NO_SPECULATION, is_dynamic, is_static
from lightspec_bench.reports.columns import count, gain, records


def repeats_frame(summary: pd.DataFrame) -> pd.DataFrame:
    """One row per concurrency and planner: `num_repeats`, and the median, lowest and highest over repeats of
    `throughput` and of its ratio to no speculation (`ratio_to_none`) and to the best static K (`ratio_to_best_static`,
    K chosen by its median over
    the repeats that have them all) in the same repeat.

    `summary` has a row per cell with `concurrency`, `planner`, `seed` (the repeat) and `throughput`.
    """
    if summary.duplicated(["concurrency", "planner", "seed"]).any():
        raise BenchError("summary: a cell appears twice, expected one row per planner, concurrency and repeat")
    parts = [_one_load(int(str(name)), cells) for name, cells in summary.groupby("concurrency", sort=False)]
    return pd.concat(parts, ignore_index=True)


def _one_load(concurrency: int, cells: pd.DataFrame) -> pd.DataFrame:
    table = cells.pivot(index="planner", columns="seed", values="throughput")
    table = table.loc[list(dict.fromkeys(cells["planner"]))]
    static = [str(name) for name in table.index if is_static(str(name)) or name == NO_SPECULATION]
    together = table.loc[static].dropna(axis="columns")  # an interrupted repeat has not all of them
    best = str(together.median(axis=1).idxmax()) if any(map(is_static, static)) and together.size else None
    columns = {"throughput": table}
    columns["ratio_to_none"] = table / (table.loc[NO_SPECULATION] if NO_SPECULATION in table.index else float("nan"))
    columns["ratio_to_best_static"] = table / (table.loc[best] if best is not None else float("nan"))
    found = pd.DataFrame({"concurrency": concurrency, "planner": table.index, "num_repeats": table.count(axis=1)})
    for name, values in columns.items():
        found[name], found[f"{name}_low"], found[f"{name}_high"] = (
            values.median(axis=1), values.min(axis=1), values.max(axis=1)
        )  # fmt: skip
    return found.reset_index(drop=True)


def repeat_lines(frame: pd.DataFrame) -> list[str]:
    """A sentence per dynamic planner and concurrency that was repeated: medians over repeats, with the range."""
    rows = [row for row in records(frame) if is_dynamic(str(row["planner"])) and row["num_repeats"] > 1]
    return [_line(row) for row in rows]


def _line(row: dict[str, Any]) -> str:
    against = {"ratio_to_none": "no speculation", "ratio_to_best_static": "best static K"}
    shown = [
        f", {gain(row[name])} [{gain(row[f'{name}_low'])}, {gain(row[f'{name}_high'])}] against {reference}"
        for name, reference in against.items()
        if not math.isnan(row[name])
    ]
    return (
        f"At {row['concurrency']} requests, {row['num_repeats']} repeats: {row['planner']} {count(row['throughput'])} "
        f"tok/s{''.join(shown)} (medians over repeats and the range of ratios within one)."
    )
