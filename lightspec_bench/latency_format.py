"""Text of a latency file: a block of `# key: value` lines, then plain CSV rows; read, checked and written.

docs/latency.md describes the format for people who write one by hand. Every complaint names file and line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from lightspec_bench.core import BenchError
from lightspec_bench.registry import did_you_mean

FORMAT = "lightspec-bench-latency 1"
KINDS = ("table", "linear", "roofline")
ORIGINS = ("measured", "modelled", "quoted")
COLUMNS = ("part", "rows", "requests", "context_tokens", "ms")
HOST_KEYS = ("host_step_ms", "host_request_us", "drafter_step_ms", "drafter_request_us")
_LABELS = ("name", "device", "model", "dtype", "engine", "date", "origin", "source", "licence")
REQUIRED = ("format", "kind", *_LABELS, *HOST_KEYS)
_COMMON = ("drafter", "note", "sampling_us_per_row", "draft_sampling_us_per_row")
DRAFT_LINE_KEYS = ("draft_fixed_ms", "draft_us_per_row", "draft_us_per_context_token")
_GRAPHS = ("graph_sizes", "graph_limit", "draft_graph_sizes", "draft_graph_limit")
LINE_KEYS = ("fixed_ms", "us_per_row", "us_per_context_token")
SHAPE_KEYS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
SHAPE_OPTIONS = ("input_multiple", "weight_bytes", "kv_bytes", "pass_us", "logits_passes")
DEVICE_KEYS = ("device_tb_per_s", "device_tflops", "device_attention_tflops", "device_layer_us", "device_layer_row_us")
_SHAPES = tuple(f"{part}{key}" for part in ("target_", "draft_") for key in (*SHAPE_KEYS, *SHAPE_OPTIONS))
KEYS_OF_KIND = {
    "table": (*_GRAPHS, "context_cost", "draft_context_cost", *DRAFT_LINE_KEYS),
    "linear": (*LINE_KEYS, *DRAFT_LINE_KEYS),
    "roofline": (*_SHAPES, *DEVICE_KEYS, "graph_sizes", "max_num_seqs"),
}


@dataclass(frozen=True, slots=True)
class Point:
    """One measured forward: `ms` milliseconds for `rows` rows of `requests` requests with `context_tokens` in all."""

    part: Literal["target", "draft"]
    rows: int
    requests: int
    context_tokens: int
    ms: float


@dataclass(frozen=True, slots=True)
class LatencyFile:
    """A latency file as text: header values by key, and its points. `where` and `lines` are for messages."""

    header: Mapping[str, str]
    points: Sequence[Point]
    where: str = "latency file"
    lines: Mapping[str, int] = field(default_factory=dict)

    def at(self, key: str) -> str:
        """`file:line` of a header key, the file alone where it has no line."""
        return f"{self.where}:{self.lines[key]}" if key in self.lines else self.where


def read_latency_csv(path: str | os.PathLike[str]) -> LatencyFile:
    """Read and check a latency file. `BenchError` with file and line for anything unknown, missing or out of range."""
    where = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise BenchError(f"{where}: no such latency file") from None
    except UnicodeDecodeError:
        raise BenchError(f"{where}: not UTF-8 text, expected a latency file (header block and CSV rows)") from None
    except OSError as error:
        raise BenchError(f"{where}: cannot be read ({error.strerror})") from None
    return parse_latency_text(text, where)


def format_latency_text(header: Mapping[str, str], points: Sequence[Point]) -> str:
    """The text of a latency file."""
    lines = [f"# {key}: {' '.join(str(value).split())}" for key, value in header.items()]
    if points:
        lines.append(",".join(COLUMNS))
        lines += [f"{p.part},{p.rows},{p.requests},{p.context_tokens},{float(p.ms)!r}" for p in points]
    return "\n".join(lines) + "\n"


def parse_latency_text(text: str, where: str) -> LatencyFile:
    """The checked contents of a latency file; `where` stands in messages."""
    numbered = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1)]
    body = [(number, line) for number, line in numbered if line and not line.startswith("#")]
    first = body[0][0] if body else len(numbered) + 1
    header, lines = _header([(n, line) for n, line in numbered if n < first and line.strip("#")], where)
    for number, line in numbered[first - 1 :]:
        if line.startswith("#"):
            raise BenchError(f"{where}:{number}: a comment between rows, expected all # lines above the first row")
    file = LatencyFile(header, _points(body, where), where, lines)
    _check_header(file)
    _check_body(file, first)
    return file


def _header(numbered: list[tuple[int, str]], where: str) -> tuple[dict[str, str], dict[str, int]]:
    header: dict[str, str] = {}
    lines: dict[str, int] = {}
    last = ""
    for number, line in numbered:
        if last and line.startswith("#   "):  # an indented line goes on with the value above it
            header[last] += f" {line[1:].strip()}"
            continue
        key, colon, value = (part.strip() for part in line[1:].partition(":"))
        if not colon:
            raise BenchError(f"{where}:{number}: {line!r} is not a header line, expected '# key: value'")
        if key in header:
            raise BenchError(f"{where}:{number}: header key {key!r} is given twice, first in line {lines[key]}")
        header[key], lines[key], last = value, number, key
    return header, lines


def _check_header(file: LatencyFile) -> None:
    header = file.header
    if header.get("format") != FORMAT:
        found = f"format is {header['format']!r}" if "format" in header else "header key 'format' is missing"
        raise BenchError(f"{file.at('format')}: {found}, expected '# format: {FORMAT}'")
    _check_choice(file, "kind", KINDS)
    known = {*REQUIRED, *_COMMON, *KEYS_OF_KIND[header["kind"]]}
    for key in header:
        if key not in known:
            raise BenchError(f"{file.at(key)}: unknown header key {key!r}{did_you_mean(key, known)}")
    for key in REQUIRED:
        if not header.get(key):
            raise BenchError(f"{file.at(key)}: header key {key!r} is missing or empty, expected '# {key}: ...'")
    _check_choice(file, "origin", ORIGINS)
    if not re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", header["date"]):
        raise BenchError(f"{file.at('date')}: date is {header['date']!r}, expected YYYY-MM-DD, YYYY-MM or YYYY")


def _check_choice(file: LatencyFile, key: str, choices: tuple[str, ...]) -> None:
    value = file.header.get(key)
    if value not in choices:
        found = f"header key {key!r} is missing" if value is None else f"{key} is {value!r}"
        raise BenchError(f"{file.at(key)}: {found}{did_you_mean(value or '', choices)}")


def _check_body(file: LatencyFile, first: int) -> None:
    kind = file.header["kind"]
    if kind == "table" and not any(point.part == "target" for point in file.points):
        raise BenchError(f"{file.where}: the table has no target rows, expected at least one")
    if kind != "table" and file.points:
        raise BenchError(f"{file.where}:{first}: rows in a file of kind {kind}, expected its header alone")


def _points(body: list[tuple[int, str]], where: str) -> tuple[Point, ...]:
    if not body:
        return ()
    number, line = body[0]
    columns = [column.strip() for column in line.split(",")]
    for column in columns:
        if column not in COLUMNS:
            raise BenchError(f"{where}:{number}: unknown column {column!r}{did_you_mean(column, COLUMNS)}")
    if sorted(columns) != sorted(COLUMNS):
        raise BenchError(f"{where}:{number}: columns are {line!r}, expected each of {','.join(COLUMNS)} once")
    return tuple(_unique(body[1:], columns, where))


def _unique(body: list[tuple[int, str]], columns: list[str], where: str) -> Iterator[Point]:
    seen: dict[tuple[str, int, int, int], int] = {}
    for number, line in body:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(columns):
            raise BenchError(f"{where}:{number}: {len(cells)} values in {line!r}, expected {len(columns)}")
        point = _point(dict(zip(columns, cells, strict=True)), f"{where}:{number}")
        key = (point.part, point.rows, point.requests, point.context_tokens)
        if key in seen:
            shape = f"{point.part} {point.rows} rows, {point.requests} requests, {point.context_tokens} context tokens"
            raise BenchError(f"{where}:{number}: {shape} is given twice, first in line {seen[key]}")
        seen[key] = number
        yield point


def _point(cells: dict[str, str], where: str) -> Point:
    part = cells["part"]
    if part not in ("target", "draft"):
        raise BenchError(f"{where}: part is {part!r}, expected target or draft")
    rows = int(number_in(cells["rows"], f"{where}: rows", least=1, whole=True))
    requests = int(number_in(cells["requests"], f"{where}: requests", least=1, whole=True))
    context = int(number_in(cells["context_tokens"], f"{where}: context_tokens", whole=True))
    ms = number_in(cells["ms"], f"{where}: ms")
    if ms == 0:
        raise BenchError(f"{where}: ms is {cells['ms']!r}, expected a number above 0")
    if requests > rows:
        raise BenchError(f"{where}: requests is {requests}, expected 1 to {rows}, the rows of the step")
    return Point(cast(Literal["target", "draft"], part), rows, requests, context, ms)


def number_in(text: str, what: str, least: float = 0, whole: bool = False) -> float:
    """The number a text holds, finite and at least `least`; `what` ("file:3: rows") begins the complaint."""
    expected = f"expected a {'whole number' if whole else 'number'} from {least:g} up"
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        raise BenchError(f"{what} is {text!r}, {expected}") from None
    if not least <= value < float("inf"):
        raise BenchError(f"{what} is {text!r}, {expected}")
    return value
