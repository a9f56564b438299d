"""Latency tables of inter-token latencies per batch size, as the ML.ENERGY leaderboard publishes them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.latency_format import Point

_BATCH = ("avg_batch_size", "batch_size")
_ITL = ("median_itl_ms", "itl_ms")
_INSIDE = (
    "Each figure is a median inter-token latency of a serving engine without speculation: one row per request, host "
    "time, attention over the contexts of that workload and shared steps with prefill are inside"
)


def itl_table(text: str, where: str, options: Mapping[str, Any]) -> tuple[dict[str, str], list[Point], list[str]]:
    """(header values, points, notes) of a JSON with `configurations` of `avg_batch_size` and `median_itl_ms`.

    A step of r rows costs the latency at a batch of r. `gpu` and `num_gpus` pick configurations where the file has
    several kinds. Of several with the same batch the fastest counts.
    """
    document, entries = _document(text, where)
    kept = _picked(entries, where, options)
    best: dict[int, float] = {}
    for at, entry in kept:
        rows = max(1, round(_number(entry, _BATCH, f"{where}: configuration {at}")))
        ms = _number(entry, _ITL, f"{where}: configuration {at}")
        best[rows] = min(ms, best.get(rows, math.inf))
    points = [Point("target", rows, rows, 0, ms) for rows, ms in sorted(best.items())]
    notes = [_INSIDE]
    if len(best) < len(kept):
        notes.append(f"Of {len(kept)} configurations {len(kept) - len(best)} repeat a batch size: the fastest counts")
    source = f"{Path(where).name}: median inter-token latency per batch size"
    found = {"origin": "quoted", "source": source, "engine": "not stated", **_labels(document, kept[0][1])}
    return found, points, notes


def _document(text: str, where: str) -> tuple[Mapping[str, Any], list[tuple[int, Mapping[str, Any]]]]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BenchError(f"{where}: is cut off or not JSON ({error})") from None
    entries = document.get("configurations") if isinstance(document, dict) else document
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise BenchError(f"{where}: it has no list of configurations, expected batch sizes and latencies")
    return document if isinstance(document, dict) else {}, list(enumerate(entries))


def _picked(
    entries: list[tuple[int, Mapping[str, Any]]], where: str, options: Mapping[str, Any]
) -> list[tuple[int, Mapping[str, Any]]]:
    for key, option in (("gpu_model", "gpu"), ("num_gpus", "num_gpus")):
        wanted = options.get(option)
        kinds = sorted({str(entry[key]) for _, entry in entries if key in entry})
        if wanted is None and len(kinds) > 1:
            flag = option.replace("_", "-")
            raise BenchError(f"{where}: several {key} ({', '.join(kinds)}), expected --{flag} to pick one")
        if wanted is not None:
            entries = [(at, entry) for at, entry in entries if str(entry.get(key)) == str(wanted)]
            if not entries:
                raise BenchError(f"{where}: no configuration with {key} {wanted}, expected one of {', '.join(kinds)}")
    return entries


def _labels(document: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, str]:
    """What the file says of model, number format and device."""
    labels = {}
    model = document.get("model_id") or document.get("nickname")
    if isinstance(model, str):
        labels["model"] = model
    if isinstance(document.get("weight_precision"), str):
        labels["dtype"] = str(document["weight_precision"])
    if isinstance(entry.get("gpu_model"), str):
        labels["device"] = f"{entry['gpu_model']}, {entry.get('num_gpus', 1)} GPU"
    return labels


def _number(entry: Mapping[str, Any], names: tuple[str, ...], what: str) -> float:
    name = next((name for name in names if name in entry), None)
    if name is None:
        raise BenchError(f"{what} has no {names[0]}, expected a number above 0")
    value = entry[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BenchError(f"{what}: {name} is {value!r}, expected a number above 0")
    return float(value)
