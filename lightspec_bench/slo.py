"""Service-level objectives as users write them: bounds in milliseconds by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.registry import did_you_mean
from lightspec_bench.reports.request_metrics import SLO_NAMES

REQUEST_BOUNDS = tuple(name.replace("_s", "_ms") for name in SLO_NAMES)


def parse_ms(texts: Iterable[str], names: Collection[str]) -> dict[str, float]:
    """`tpot_ms=30,ttft_ms=500` -> milliseconds by name. Raises `BenchError` for anything else."""
    found: dict[str, float] = {}
    for text in (part for each in texts for part in each.split(",")):
        name, equals, value = (word.strip() for word in text.partition("="))
        if not equals or name not in names:
            hint = did_you_mean(name, names) if equals else ", expected NAME=MILLISECONDS such as tpot_ms=30"
            raise BenchError(f"--slo: {text!r} is no bound{hint}")
        if not re.fullmatch(r"\d+(\.\d+)?", value) or float(value) <= 0:
            raise BenchError(f"--slo: {name} is {value!r}, expected milliseconds above 0")
        found[name] = float(value)
    return found


def request_slo(texts: Iterable[str]) -> dict[str, float]:
    """Bounds of one request in seconds, as `request_goodput` takes them."""
    return _seconds(parse_ms(texts, REQUEST_BOUNDS))


def slo_from(document: Any, source: str) -> dict[str, float]:
    """A suite's `slo`: a mapping such as `{tpot_ms: 30}`, or its seconds as a results folder keeps them."""
    if not isinstance(document, dict):
        raise BenchError(f"{source} is {document!r}, expected a mapping such as {{tpot_ms: 30}}")
    for name, value in document.items():
        if name not in (*REQUEST_BOUNDS, *SLO_NAMES):
            raise BenchError(f"{source}: unknown bound {name!r}{did_you_mean(str(name), REQUEST_BOUNDS)}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise BenchError(f"{source}: {name} is {value!r}, expected a number above 0")
    return _seconds(document)


def _seconds(bounds: Mapping[str, float]) -> dict[str, float]:
    return {n.replace("_ms", "_s"): value / 1e3 if n.endswith("_ms") else float(value) for n, value in bounds.items()}
