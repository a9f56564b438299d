"""Latency tables of others' profiles: which format a file has, and what its header must be told."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.latency_file import write_latency_csv
from lightspec_bench.latency_format import DRAFT_LINE_KEYS, HOST_KEYS, Point
from lightspec_bench.latency_itl import itl_table
from lightspec_bench.latency_vidur import vidur_table
from lightspec_bench.registry import did_you_mean

FORMATS = {"vidur": "a CSV of operators timed one by one", "itl": "a JSON of inter-token latency per batch size"}
LABELS = ("name", "device", "model", "dtype", "engine", "date", "source", "licence")
_DRAFTER = {"drafter_step_ms": 0.3, "drafter_request_us": 5.0}


@dataclass(frozen=True, slots=True)
class Imported:
    """A table as it was written: points, and sentences on what it holds and lacks."""

    points: tuple[Point, ...]
    notes: tuple[str, ...]


def import_latency(path: str | Path, out: Path, format_name: str | None, options: Mapping[str, Any]) -> Imported:
    """Read a foreign latency profile and write it as a latency file.

    `options`: labels, host terms and the drafter's line by header key, and what a format asks for (`layers`,
    `tensor_parallel`, `tb_per_s`, `tflops`; `gpu`, `num_gpus`). Raises `BenchError` naming the file.
    """
    path = Path(path)
    text = _text(path)
    name = format_name or _sniffed(path, text)
    if name not in FORMATS:
        raise BenchError(f"{path}: unknown format {name!r}{did_you_mean(name, FORMATS)}")
    read = vidur_table if name == "vidur" else itl_table
    found, points, notes = read(text, str(path), options)
    header = _header(path, out, found, notes, options)
    write_latency_csv(out, header, points)
    if not any(key in header for key in DRAFT_LINE_KEYS):
        notes = [*notes, "no drafter is priced: give --draft-fixed-ms and its line, or only no speculation can be run"]
    return Imported(tuple(points), tuple(notes))


def _header(
    path: Path, out: Path, found: Mapping[str, str], notes: list[str], options: Mapping[str, Any]
) -> dict[str, str]:
    labels = {"name": out.stem, "dtype": "not stated", "licence": "not stated", **found}
    labels |= {key: str(options[key]) for key in LABELS if options.get(key) is not None}
    missing = [key for key in LABELS if key not in labels]
    if missing:
        raise BenchError(f"{path}: {', '.join(missing)} not in the file, expected --{missing[0]} TEXT")
    terms = {key: options[key] for key in (*HOST_KEYS, *DRAFT_LINE_KEYS) if options.get(key) is not None}
    if any(key in terms for key in DRAFT_LINE_KEYS):
        terms = {**dict.fromkeys(DRAFT_LINE_KEYS, 0.0), **terms}
    host = {key: found.get(key, str(_DRAFTER.get(key, 0.0))) for key in HOST_KEYS}
    order = ("kind", *LABELS[:6], "origin", *LABELS[6:], "note")
    merged = {"kind": "table", **labels, "note": ". ".join(notes) + ".", "context_cost": "0", **host}
    merged |= {key: str(value) for key, value in {**found, **terms}.items() if key not in LABELS}
    return {**{key: merged[key] for key in order}, **{k: v for k, v in merged.items() if k not in order}}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise BenchError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise BenchError(f"{path}: not UTF-8 text, expected {' or '.join(FORMATS.values())}") from None
    except OSError as error:
        raise BenchError(f"{path}: cannot be read: {error.strerror or error}") from None


def _sniffed(path: Path, text: str) -> str:
    if text.lstrip()[:1] in ("{", "["):
        try:
            json.loads(text)
        except ValueError as error:
            raise BenchError(f"{path}: is cut off or not JSON ({error})") from None
        return "itl"
    columns = next(csv.reader(text.splitlines()[:1]), [])
    if any(column.startswith("time_stats.") for column in columns):
        return "vidur"
    raise BenchError(f"{path} is in no known format, expected {' or '.join(FORMATS.values())}")
