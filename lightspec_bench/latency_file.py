"""Latency models by name: the tables that ship, your own files, and options that change their host terms.

A spec is a name or the path of a CSV file, then options: `h200-qwen3-14b:host_step_ms=4,host=vllm-49548`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from lightspec_bench.core import BenchError, IntArray, LatencyModel
from lightspec_bench.files import write_atomically
from lightspec_bench.latency import HostCost, LinearLatency, RooflineLatency, TableLatency, vllm_49548
from lightspec_bench.latency_curves import NO_SIZES, AffineCurve, ContextCost, TableCurve, fit_table
from lightspec_bench.latency_format import (
    DEVICE_KEYS,
    DRAFT_LINE_KEYS,
    FORMAT,
    HOST_KEYS,
    LINE_KEYS,
    SHAPE_KEYS,
    SHAPE_OPTIONS,
    LatencyFile,
    Point,
    format_latency_text,
    number_in,
    parse_latency_text,
    read_latency_csv,
)
from lightspec_bench.latency_roofline import Device, ModelShape, RooflineCurve
from lightspec_bench.registry import Option, check_options, did_you_mean, parse_spec

__all__ = [
    "LatencyFile",
    "Point",
    "build_latency",
    "describe_latency",
    "latency_names",
    "load_latency",
    "parse_sizes",
    "read_latency_csv",
    "write_latency_csv",
]

_TABLES = Path(__file__).parent / "latency_tables"
_PRESETS = {"vllm-49548": vllm_49548}
_OPTIONS = {
    **{key: Option(key, float, None, False) for key in HOST_KEYS},
    "host": Option("host", Literal["vllm-49548"], None, False),
}


def latency_names() -> list[str]:
    """Names of the tables that ship."""
    return sorted(path.stem for path in _TABLES.glob("*.csv"))


def load_latency(spec: str) -> LatencyModel:
    """The latency model that a spec names. `BenchError` for an unknown name or option, or a bad file."""
    path, options = _resolve(spec)
    return build_latency(read_latency_csv(path), options)


def describe_latency(spec: str) -> dict[str, str]:
    """The labels of a latency file (device, model, dtype, engine, date, origin, source, licence, ...) as text."""
    return dict(read_latency_csv(_resolve(spec)[0]).header)


def write_latency_csv(path: str | os.PathLike[str], header: Mapping[str, str], points: Sequence[Point] = ()) -> None:
    """Write a latency file that `load_latency` loads; checked first, and put in place at once or not at all.

    `format` is filled in and white space in values is folded; `points` are written in the order given.
    """
    path = Path(path)
    text = format_latency_text({"format": FORMAT, **header}, points)
    build_latency(parse_latency_text(text, os.fspath(path)))
    write_atomically(path, lambda temporary: temporary.write_bytes(text.encode()))


def _resolve(spec: str) -> tuple[Path, dict[str, Any]]:
    """The file and the options of a spec. The longest name that exists wins, so paths may hold `:` and `=`."""
    for end in [len(spec), *(at for at in range(len(spec) - 1, 0, -1) if spec[at] == ":")]:
        name, rest = spec[:end], spec[end + 1 :]
        path = _TABLES / f"{name}.csv" if name in latency_names() else Path(name)
        if path.is_file():
            return path, _options(name, rest)
    name = parse_spec(spec)[0]
    if name.endswith(".csv") or "/" in name or "\\" in name:
        raise BenchError(f"{name}: no such latency file")
    raise BenchError(f"unknown latency {name!r}{did_you_mean(name, latency_names())} or the path of a CSV file")


def _options(name: str, rest: str) -> dict[str, Any]:
    if not rest:
        return {}
    if "=" not in rest.partition(",")[0]:  # parse_spec would take it for a class
        raise BenchError(f"latency {name}: {rest!r} is not an option, expected key=value")
    options = check_options(f"latency {name}", parse_spec(f"latency:{rest}")[1], _OPTIONS)
    for key in HOST_KEYS:
        if key in options:
            number_in(str(options[key]), f"latency {name}: option {key}")
    return options


def build_latency(file: LatencyFile, options: Mapping[str, Any] | None = None) -> LatencyModel:
    """The model a latency file describes; `options` are host terms by header key, and `host`, a preset's name."""
    header = file.header
    terms: dict[str, Any] = {
        "name": header["name"],
        "origin": header["origin"],
        "source": header["source"],
        "host": _host(file, options or {}),
        "sampling_row_s": _us(file, "sampling_us_per_row", 0.0),
        "draft_sampling_row_s": _us(file, "draft_sampling_us_per_row", 0.0),
    }
    try:
        if header["kind"] == "roofline":
            most = int(_number(file, "max_num_seqs", 256, least=1, whole=True))
            draft = _roofline(file, "draft_") if _prices_draft(file) else None
            return RooflineLatency(target=_roofline(file, "target_"), draft=draft, max_num_seqs=most, **terms)
        if header["kind"] == "linear":
            return LinearLatency(target=_line(file, LINE_KEYS), draft=_draft_line(file), **terms)
        return TableLatency(target=_table(file, "target", ""), draft=_draft(file), **terms)
    except BenchError as error:
        raise error if str(error).startswith(file.where) else BenchError(f"{file.where}: {error}") from None


def _host(file: LatencyFile, options: Mapping[str, Any]) -> HostCost:
    values = {key: _number(file, key) for key in HOST_KEYS}
    host = _host_cost(values)
    if "host" in options:
        host = _PRESETS[options["host"]](host)
    for key, value in options.items():
        if key != "host":
            host = replace(host, **_host_field(key, value))
    return host


def _host_cost(values: Mapping[str, float]) -> HostCost:
    return HostCost(**{name: s for key, value in values.items() for name, s in _host_field(key, value).items()})


def _host_field(key: str, value: float) -> dict[str, float]:
    """`host_step_ms` -> `step_s`, `drafter_request_us` -> `drafter_request_s`, with the value in seconds."""
    name, _, unit = key.removeprefix("host_").rpartition("_")
    return {f"{name}_s": value / {"ms": 1e3, "us": 1e6}[unit]}


def _number(file: LatencyFile, key: str, default: float | None = None, least: float = 0, whole: bool = False) -> float:
    text = file.header.get(key)
    if text is None:
        if default is None:
            raise BenchError(f"{file.where}: header key {key!r} is missing, expected a number")
        return default
    return number_in(text, f"{file.at(key)}: {key}", least, whole)


def _us(file: LatencyFile, key: str, default: float | None = None) -> float:
    return _number(file, key, default) / 1e6


def _line(file: LatencyFile, keys: tuple[str, str, str]) -> AffineCurve:
    fixed, row, context = keys
    return AffineCurve(_number(file, fixed) / 1e3, _us(file, row), _us(file, context))


def _draft_line(file: LatencyFile) -> AffineCurve | None:
    return _line(file, DRAFT_LINE_KEYS) if any(key in file.header for key in DRAFT_LINE_KEYS) else None


def _draft(file: LatencyFile) -> TableCurve | AffineCurve | None:
    if not any(point.part == "draft" for point in file.points):
        return _draft_line(file)
    for key in DRAFT_LINE_KEYS:
        if key in file.header:
            raise BenchError(f"{file.at(key)}: draft rows and a drafter's line, expected one of them")
    return _table(file, "draft", "draft_")


def _table(file: LatencyFile, part: str, prefix: str) -> TableCurve:
    points = [point for point in file.points if point.part == part]
    rows = np.array([point.rows for point in points], dtype=np.int64)
    context = np.array([point.context_tokens for point in points], dtype=np.float64)
    seconds = np.array([point.ms for point in points], dtype=np.float64) / 1e3
    return fit_table(rows, context, seconds, _graphs(file, prefix, rows), _context_cost(file, f"{prefix}context_cost"))


def _context_cost(file: LatencyFile, key: str) -> ContextCost:
    text = file.header.get(key, "per-size")
    if text in ("per-size", "common"):
        return cast(ContextCost, text)
    try:
        return number_in(text, key) / 1e6
    except BenchError:
        raise BenchError(
            f"{file.at(key)}: {key} is {text!r}, expected per-size, common or microseconds per context token"
        ) from None


def _graphs(file: LatencyFile, prefix: str, rows: IntArray) -> IntArray:
    """Captured sizes: a list, or the measured sizes up to a limit and the limit itself."""
    sizes, limit = f"{prefix}graph_sizes", f"{prefix}graph_limit"
    if sizes in file.header and limit in file.header:
        raise BenchError(f"{file.at(limit)}: both {sizes} and {limit}, expected one of them")
    if limit in file.header:
        most = int(_number(file, limit, least=1, whole=True))
        return np.union1d(rows[rows <= most], [most])
    return parse_sizes(file.header[sizes], f"{file.at(sizes)}: {sizes}") if sizes in file.header else NO_SIZES


def parse_sizes(text: str, what: str) -> IntArray:
    """`1-4, 8-32/8, 40` -> 1, 2, 3, 4, 8, 16, 24, 32, 40; ascending. `what` begins the complaint."""
    sizes: list[int] = []
    for part in text.split(","):
        span, _, stride = part.strip().partition("/")
        low, dash, high = span.partition("-")
        try:
            first, last, step = int(low), int(high if dash else low), int(stride or 1)
        except ValueError:
            first = last = step = 0
        if first < 1 or last < first or step < 1:
            raise BenchError(f"{what} holds {part.strip()!r}, expected a size, first-last or first-last/stride")
        sizes += range(first, last + 1, step)
    if sorted(set(sizes)) != sizes:
        raise BenchError(f"{what} is {text!r}, expected ascending sizes")
    return np.array(sizes, dtype=np.int64)


def _prices_draft(file: LatencyFile) -> bool:
    return any(f"draft_{key}" in file.header for key in (*SHAPE_KEYS, *SHAPE_OPTIONS))


def _roofline(file: LatencyFile, prefix: str) -> RooflineCurve:
    def number(key: str, default: float) -> float:
        return _number(file, f"{prefix}{key}", default)

    layers, hidden, heads, kv_heads, head_dim, ffn, vocab = (
        int(_number(file, f"{prefix}{key}", least=1, whole=True)) for key in SHAPE_KEYS
    )
    multiple = int(_number(file, f"{prefix}input_multiple", 1, least=1, whole=True))
    widths = number("weight_bytes", 2.0), number("kv_bytes", 2.0)
    shape = ModelShape(layers, hidden, heads, kv_heads, head_dim, ffn, vocab, multiple, *widths)
    sizes = _graphs(file, "", NO_SIZES) if prefix == "target_" else NO_SIZES
    return RooflineCurve(shape, _device(file), number("pass_us", 0.0) / 1e6, number("logits_passes", 4.0), sizes)


def _device(file: LatencyFile) -> Device:
    bandwidth, peak, attention, layer, layer_row = (_number(file, key) for key in DEVICE_KEYS)
    return Device(bandwidth * 1e12, peak * 1e12, attention * 1e12, layer / 1e6, layer_row / 1e6)
