"""Importer of our own JSON lines, for traces recorded with another engine (docs/traces.md has the format)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.core import BenchError, Confidence, Trace
from lightspec_bench.registry import did_you_mean
from lightspec_bench.traces.importer import Recorded, build_trace, complete_info
from lightspec_bench.traces.layout import SCHEMA_VERSION
from lightspec_bench.traces.lines import counts, first_object, read_objects
from lightspec_bench.traces.steps import positions_from_steps, spread_over_positions

METADATA_KEY = "lightspec_bench"
_COMMON = {
    "request_id", "id", "category", "arrival_s", "num_prompt_tokens", "num_output_tokens", "repeats_from", "finish",
    "confidence", "entropy",
}  # fmt: skip
_BY_POSITION = _COMMON | {"num_accepted", "num_draft_tokens"}
_BY_STEP = _COMMON | {"num_verify_tokens", "num_accepted_tokens"}


class JsonLines:
    """A line per request, by output position or by decode step; a metadata line may come first."""

    def sniffs(self, path: Path) -> bool:
        first = first_object(path)
        return METADATA_KEY in first or "num_accepted" in first or "num_accepted_tokens" in first

    def read(self, path: Path, given: Mapping[str, Any]) -> Trace:
        lines = list(read_objects(path))
        found: dict[str, Any] = {}
        if lines and METADATA_KEY in lines[0][1]:
            found = _metadata(*lines.pop(0))
        by_step = bool(lines) and "num_accepted_tokens" in lines[0][1]
        found = {"made_by": f"lightspec-bench traces import, from {path.name}", **found}
        info = complete_info({**found, **({"indexing": "step"} if by_step else {})}, given, path)
        if by_step and info.indexing != "step":
            raise BenchError(f"{path}: indexing is {info.indexing!r}, expected 'step' for lines with a list per step")
        read = _by_step if by_step else _by_position
        return build_trace(info, [read(value, where, info.max_draft_tokens) for where, value in lines], path)


def _metadata(where: str, line: dict[str, Any]) -> dict[str, Any]:
    if line[METADATA_KEY] != SCHEMA_VERSION:
        raise BenchError(f"{where}: schema version is {line[METADATA_KEY]!r}, expected {SCHEMA_VERSION}")
    return {key: value for key, value in line.items() if key != METADATA_KEY}


def _by_position(line: dict[str, Any], where: str, depth: int) -> Recorded:
    _check_keys(line, _BY_POSITION, ("num_prompt_tokens", "num_output_tokens", "num_accepted"), where)
    length = _whole(line, "num_output_tokens", where)
    if length < 1:
        raise BenchError(f"{where}: num_output_tokens is {length}, expected at least 1")
    drafted = line.get("num_draft_tokens")
    return Recorded(
        **_request(line, where),
        num_accepted=counts(line["num_accepted"], "num_accepted", where, length),
        num_draft_tokens=None if drafted is None else counts(drafted, "num_draft_tokens", where, length),
        confidence=_signal(line, "confidence", where, length, depth),
        entropy=_signal(line, "entropy", where, length, depth),
    )


def _by_step(line: dict[str, Any], where: str, depth: int) -> Recorded:
    _check_keys(line, _BY_STEP, ("num_prompt_tokens", "num_verify_tokens", "num_accepted_tokens"), where)
    taken = counts(line["num_accepted_tokens"], "num_accepted_tokens", where)
    verified = counts(line["num_verify_tokens"], "num_verify_tokens", where)
    if len(verified) != len(taken):
        raise BenchError(f"{where}: num_verify_tokens has {len(verified)} entries, num_accepted_tokens {len(taken)}")
    if (wrong := (taken < 0) | (taken > verified)).any():
        step = int(np.argmax(wrong))
        raise BenchError(f"{where}: num_accepted_tokens[{step}] is {taken[step]}, expected 0 to {verified[step]}")
    length = int(taken.sum()) + len(taken) + 1
    if "num_output_tokens" in line:
        length = _whole(line, "num_output_tokens", where)
    if length < 1:
        raise BenchError(f"{where}: num_output_tokens is {length}, expected at least 1")
    log = positions_from_steps(verified, taken, length)
    return Recorded(
        **_request(line, where),
        num_accepted=log.num_accepted,
        num_draft_tokens=log.num_draft_tokens,
        confidence=spread_over_positions(_signal(line, "confidence", where, len(taken), depth), log),
        entropy=spread_over_positions(_signal(line, "entropy", where, len(taken), depth), log),
    )


def _request(line: dict[str, Any], where: str) -> dict[str, Any]:
    loop = line.get("repeats_from")
    name = line.get("request_id", line.get("id"))
    if name is None:
        raise BenchError(f"{where}: request_id is missing")
    arrival = line.get("arrival_s", 0.0)
    if isinstance(arrival, bool) or not isinstance(arrival, (int, float)):
        raise BenchError(f"{where}: arrival_s is {arrival!r}, expected a number")
    return {
        "request_id": str(name),
        "category": str(line.get("category", "all")),
        "arrival_s": float(arrival),
        "num_prompt_tokens": _whole(line, "num_prompt_tokens", where),
        "repeats_from": None if loop is None else _whole(line, "repeats_from", where),
    }


def _check_keys(line: dict[str, Any], known: set[str], needed: tuple[str, ...], where: str) -> None:
    for key in line:
        if key not in known:
            raise BenchError(f"{where}: unknown key {key!r}{did_you_mean(key, known)}")
    for key in needed:
        if key not in line:
            raise BenchError(f"{where}: {key} is missing")


def _whole(line: dict[str, Any], name: str, where: str) -> int:
    value = line[name]
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**31:
        raise BenchError(f"{where}: {name} is {value!r}, expected a whole number")
    return value


def _signal(line: dict[str, Any], name: str, where: str, length: int, depth: int) -> Confidence | None:
    """(length, D) from a list of lists; null or a short list leaves NaN, for draft tokens that were not proposed."""
    rows = line.get(name)
    if rows is None:
        return None
    if not isinstance(rows, list) or len(rows) != length:
        raise BenchError(f"{where}: {name} is not a list of {length} lists")
    out = np.full((length, depth), np.nan, np.float32)
    for position, row in enumerate(rows):
        if row is None:
            continue
        if not isinstance(row, list) or len(row) > depth or any(isinstance(x, (str, bool, list, dict)) for x in row):
            raise BenchError(f"{where}: {name}[{position}] is {row!r:.60}, expected null or at most {depth} numbers")
        out[position, : len(row)] = [np.nan if x is None else x for x in row]
    return out
