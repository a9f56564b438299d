"""Served steps to latency tables: what verifying, drafting and the host really cost in runs of the engine.

A pass alone misprices a served step, so the table is fitted from the steps themselves: verification by target rows,
with one cost for all context tokens, drafting as a line in the rows of its passes (`lightspec_bench.drafting`), host
time with and without a drafter as means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal

import numpy as np

from lightspec_bench.core import BenchError, Columns, Drafter, FloatArray, IntArray
from lightspec_bench.latency_format import FORMAT, LatencyFile, Point

LEAST_SAMPLES = 6  # steps behind a size of the table; rarer sizes are put together with their neighbours
_MOST_FOR_CONTEXT = 0.5  # share of a step that its context may explain, so that every size keeps a cost of its own
Centre = Literal["mean", "median"]


def fit_served(
    plain: Sequence[Columns],
    speculating: Sequence[Columns],
    drafter: Drafter,
    labels: Mapping[str, str],
    centre: Centre = "mean",
) -> LatencyFile:
    """A latency file of the steps of runs without a drafter (`plain`) and with one (`speculating`).

    Each is a run's step columns; all runs of one concurrency, since sizes are told apart by rows alone. `centre`:
    "mean" adds up to the time that was spent, "median" leaves disturbances out. `labels` are header lines (name,
    device, model, dtype, engine, source, licence). Raises `BenchError` where there is no step to fit.
    """
    steps = joined([*plain, *speculating])
    if steps is None:
        raise BenchError("no decode step was recorded, expected runs with steps to fit a latency table from")
    points, context_s = target_points(steps, centre)
    middle = np.mean if centre == "mean" else np.median
    without = [run for run in plain if len(run["host_s"])]
    host_s = float(middle(np.concatenate([run["host_s"] for run in without or [steps]])))
    drafting = joined(speculating)
    header = {
        "format": FORMAT, "kind": "table", "origin": "measured", "date": date.today().isoformat(), **labels,
        "host_step_ms": _ms(host_s), "host_request_us": "0", "drafter_step_ms": "0", "drafter_request_us": "0",
        "context_cost": repr(1e6 * context_s),
    }  # fmt: skip
    if drafting is not None:
        extra = drafting["draft_s"] if drafter.kind == "ngram" else 0.0
        header["drafter_step_ms"] = _ms(max(float(middle(drafting["host_s"] + extra)) - host_s, 0.0))
        if drafter.kind != "ngram":
            header |= draft_line(drafting, drafter)
    return LatencyFile(header, points)


def prefill_s_per_token(runs: Sequence[Columns]) -> float:
    """Mean seconds of prefill per prompt token; NaN where no prompt was read."""
    steps = joined(runs)
    tokens = 0 if steps is None else int(steps["num_prefill_tokens"].sum())
    return float(steps["prefill_s"].sum()) / tokens if steps is not None and tokens else float("nan")


def joined(runs: Sequence[Columns]) -> Columns | None:
    """Steps of several runs as one, None where there are none."""
    runs = [run for run in runs if len(run["step"])]
    return {name: np.concatenate([run[name] for run in runs]) for name in runs[0]} if runs else None


def _ms(seconds: float) -> str:
    return repr(1e3 * seconds)


def target_points(steps: Columns, centre: Centre) -> tuple[list[Point], float]:
    """A point per size, and seconds per context token."""
    rows, seconds = steps["num_target_tokens"], steps["verify_s"]
    context = steps["num_context_tokens"].astype(np.float64)
    size = sizes(rows)
    context_s = _context_s(size, context, seconds)
    points = [
        Point(
            "target",
            round(_middle(rows[chosen], centre)),
            round(float(steps["num_requests"][chosen].mean())),
            round(float(context[chosen].mean())),
            1e3 * _middle(seconds[chosen], centre),
        )
        for chosen in (size == number for number in range(int(size.max()) + 1))
    ]
    return points, context_s


def _middle(values: IntArray | FloatArray, centre: Centre) -> float:
    """Mean or median; the lower of two middle values, so that rows and seconds are those of one step."""
    return float(values.mean() if centre == "mean" else np.percentile(values, 50, method="lower"))


def sizes(rows: IntArray, least: int = LEAST_SAMPLES) -> IntArray:
    """Which size of the table each step belongs to, (S,), ascending with rows: `least` steps each, where there are.

    Steps of the same rows stay together; what is left over at the end joins the last size.
    """
    values, place, count = np.unique(rows, return_inverse=True, return_counts=True)
    number, gathered, of_value = 0, 0, np.zeros(len(values), dtype=np.int64)
    for at, samples in enumerate(count.tolist()):
        of_value[at] = number
        gathered += samples
        if gathered >= least:
            number, gathered = number + 1, 0
    if gathered and number:
        of_value[of_value == number] = number - 1
    return np.asarray(of_value[place])


def _context_s(size: IntArray, context: FloatArray, seconds: FloatArray) -> float:
    """Least squares within sizes; 0 unless it is positive by more than three standard errors."""
    count = np.bincount(size)
    mean_context, mean_seconds = (np.bincount(size, weights=values) / count for values in (context, seconds))
    off_context, off_seconds = context - mean_context[size], seconds - mean_seconds[size]
    spread, freedom = float(off_context @ off_context), len(size) - len(count) - 1
    if not spread or freedom < 1:
        return 0.0
    slope = float(off_context @ off_seconds) / spread
    error = np.sqrt(float(np.square(off_seconds - slope * off_context).sum()) / freedom / spread)
    most = _MOST_FOR_CONTEXT * float((mean_seconds / np.maximum(mean_context, 1.0)).min())
    return min(slope, most) if slope > 3.0 * error else 0.0


def draft_line(steps: Columns, drafter: Drafter) -> dict[str, str]:
    """Fixed cost of a drafter pass and cost per row, by least squares over the steps that drafted."""
    depth, number, rows = (steps[name] for name in ("draft_depth", "num_requests", "num_target_tokens"))
    drafted = depth > 0
    if not drafted.any():
        return {"draft_fixed_ms": "0", "draft_us_per_row": "0", "draft_us_per_context_token": "0"}
    if drafter.kind == "autoregressive_no_attention":
        passes, total = depth, depth * number
    elif drafter.kind == "parallel":
        passes, total = np.full_like(depth, 2), rows + number * drafter.max_draft_tokens
    else:
        passes, total = depth, rows + (depth - 1) * number
    terms = np.stack((passes[drafted], total[drafted]), axis=1).astype(np.float64)
    fixed_s, row_s = _not_negative(terms, steps["draft_s"][drafted])
    return {"draft_fixed_ms": _ms(fixed_s), "draft_us_per_row": repr(1e6 * row_s), "draft_us_per_context_token": "0"}


def _not_negative(terms: FloatArray, seconds: FloatArray) -> tuple[float, float]:
    """Least squares in two terms with no negative factor; the first alone where steps cannot tell them apart."""
    found: Any = np.linalg.lstsq(terms, seconds, rcond=None)[0]
    apart = np.linalg.matrix_rank(terms) == 2
    if apart and (found >= 0).all():
        return float(found[0]), float(found[1])
    alone = [float(column @ seconds) / float(column @ column) for column in terms.T]
    errors = [float(np.square(seconds - factor * column).sum()) for factor, column in zip(alone, terms.T, strict=True)]
    return (alone[0], 0.0) if not apart or errors[0] <= errors[1] else (0.0, alone[1])
