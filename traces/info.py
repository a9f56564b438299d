"""Metadata of a trace: checked in one place, wherever it comes from."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from lightspec_bench.core import BenchError, TraceInfo
from lightspec_bench.registry import did_you_mean

MOST_DRAFT_TOKENS = 1024  # counts are stored in 16 bits; no drafter comes near this
FIELDS = tuple(field.name for field in fields(TraceInfo))


def make_info(values: Mapping[str, Any], source: str) -> TraceInfo:
    """A `TraceInfo` from plain values; raises `BenchError` naming `source`, the key and what was expected."""
    for key in values:
        if key not in FIELDS:
            raise BenchError(f"{source}: unknown metadata {key!r}{did_you_mean(key, FIELDS)}")
    missing = [name for name in FIELDS if name not in values]
    if missing:
        raise BenchError(f"{source}: metadata {', '.join(missing)} missing, expected every one of {', '.join(FIELDS)}")
    hints = typing.get_type_hints(TraceInfo)
    for name in FIELDS:
        _check(name, values[name], hints[name], source)
    return TraceInfo(**values)


def _check(name: str, value: Any, hint: Any, source: str) -> None:
    if hint is int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_DRAFT_TOKENS:
            raise BenchError(f"{source}: {name} is {value!r}, expected a whole number from 1 to {MOST_DRAFT_TOKENS}")
    elif hint is str:
        if not isinstance(value, str):
            raise BenchError(f"{source}: {name} is {value!r}, expected a text")
    elif value not in typing.get_args(hint):
        raise BenchError(f"{source}: {name} is {value!r}{did_you_mean(str(value), typing.get_args(hint))}")
