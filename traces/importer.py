"""Importers: their protocols, picking one for a file, and building a trace from what was read."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lightspec_bench.acceptance_summary import AcceptanceSummary
from lightspec_bench.core import BenchError, Confidence, IntArray, Trace, TraceInfo
from lightspec_bench.registry import check_options, names, options_of, parse_spec, resolve
from lightspec_bench.traces.info import FIELDS, make_info
from lightspec_bench.traces.validate import check_trace


class Importer(Protocol):
    """Reads one foreign format. Built as `Class(**options)`; installed ones are found by the entry point
    `lightspec_bench.importers`.
    """

    def sniffs(self, path: Path) -> bool:
        """Whether the file looks like this format; looks at its beginning only and never raises for a strange file."""
        ...

    def read(self, path: Path, given: Mapping[str, Any]) -> Trace:
        """The whole file as a trace. `given` are `TraceInfo` fields the user stated: they win over the file's own."""
        ...


class SummaryImporter(Protocol):
    """Reads a log or counters that tell how much was accepted. One that can make a trace of them has `read` as well."""

    def sniffs(self, path: Path) -> bool: ...

    def summarise(self, path: Path) -> AcceptanceSummary:
        """What the file tells, what it does not left unknown. Lines that cannot be read are counted; `BenchError`
        where none can."""
        ...


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as an importer read it. L output positions; arrays are None where the format has no such thing."""

    request_id: str
    category: str
    num_prompt_tokens: int
    num_accepted: IntArray  # (L,)
    arrival_s: float = 0.0
    repeats_from: int | None = None
    num_draft_tokens: IntArray | None = None  # (L,)
    confidence: Confidence | None = None  # (L, D)
    entropy: Confidence | None = None  # (L, D)


def import_trace(path: str | Path, spec: str | None = None, given: Mapping[str, Any] | None = None) -> Trace:
    """Read a foreign file with the importer `spec` names (`NAME[:key=value,...]`), or the first that recognises it.

    The result is validated; raises `BenchError` naming the file.
    """
    path, importer = _importer_for(path, spec)
    if not hasattr(importer, "read"):
        raise BenchError(
            f"{path}: {type(importer).__name__} reads sums over steps, of which no trace can be made; "
            "`traces import` without --out prints what it tells of acceptance"
        )
    trace = typing.cast(Importer, importer).read(path, given or {})
    check_trace(trace, str(path))
    return trace


def import_summary(path: str | Path, spec: str | None = None) -> AcceptanceSummary:
    """What a foreign file tells of acceptance; arguments and errors as of `import_trace`."""
    path, importer = _importer_for(path, spec)
    if not hasattr(importer, "summarise"):
        raise BenchError(
            f"{path}: {type(importer).__name__} reads a trace, expected --out FILE to write it; `traces show FILE` "
            "then prints its acceptance"
        )
    return typing.cast(SummaryImporter, importer).summarise(path)


def _importer_for(path: str | Path, spec: str | None) -> tuple[Path, Importer | SummaryImporter]:
    path = Path(path)
    if not path.is_file():
        raise BenchError(f"{path} {'is a folder' if path.exists() else 'does not exist'}, expected a file to import")
    return path, make_importer(spec) if spec else _recognise(path)


def make_importer(spec: str) -> Importer | SummaryImporter:
    """Build the importer a spec names; options are its constructor's."""
    name, given = parse_spec(spec)
    cls = resolve("importer", name)
    importer: Importer | SummaryImporter = cls(**check_options(name, given, options_of(cls)))
    return importer


def _recognise(path: Path) -> Importer | SummaryImporter:
    for name in names("importer"):
        importer = make_importer(name)
        if importer.sniffs(path):
            return importer
    raise BenchError(f"{path} is in no known format, expected one of {', '.join(names('importer'))}")


def complete_info(found: Mapping[str, Any], given: Mapping[str, Any], path: Path) -> TraceInfo:
    """The file's metadata with the user's on top; names what neither has and the option that states it."""
    stem = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    values = {
        "name": stem, "dataset": "not stated", "sampling": "not stated", "licence": "not stated",
        "indexing": "position", "origin": "recorded", **found, **given,
    }  # fmt: skip
    missing = [name for name in FIELDS if name not in values]
    if missing:
        options = ", ".join("--" + name.replace("_", "-") for name in missing)
        raise BenchError(f"{path}: metadata {', '.join(missing)} missing, expected in the file or as {options}")
    return make_info(values, str(path))


def build_trace(info: TraceInfo, requests: Sequence[Recorded], path: Path) -> Trace:
    """One trace of the recorded requests. Accepted tokens never take the last position, where the bonus token goes."""
    if not requests:
        raise BenchError(f"{path} has no requests, expected at least 1")
    lengths = np.array([len(r.num_accepted) for r in requests], np.int64)
    loops = [len(r.num_accepted) if r.repeats_from is None else r.repeats_from for r in requests]
    return Trace(
        info=info,
        request_id=np.array([r.request_id for r in requests], np.str_),
        category=np.array([r.category for r in requests], np.str_),
        arrival_s=np.array([r.arrival_s for r in requests], np.float64),
        num_prompt_tokens=np.array([r.num_prompt_tokens for r in requests], np.int64),
        num_output_tokens=lengths,
        repeats_from=np.array(loops, np.int64),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        num_accepted=np.concatenate([_ended(r.num_accepted, info.max_draft_tokens) for r in requests]).astype(np.int16),
        num_draft_tokens=_joined(requests, "num_draft_tokens", np.int16, path),
        confidence=_joined(requests, "confidence", np.float32, path),
        entropy=_joined(requests, "entropy", np.float32, path),
    )


def _ended(num_accepted: IntArray, max_draft_tokens: int) -> IntArray:
    """A draft that is right to the very last token counts one less: that token comes out as the bonus either way."""
    ahead = np.arange(len(num_accepted))[::-1]
    out = np.where((num_accepted == ahead + 1) & (num_accepted <= max_draft_tokens), ahead, num_accepted)
    out[0] = 0
    return out


def _joined(requests: Sequence[Recorded], name: str, dtype: Any, path: Path) -> npt.NDArray[Any] | None:
    parts = [getattr(r, name) for r in requests]
    absent = [part is None for part in parts]
    if all(absent):
        return None
    if any(absent):
        row = absent.index(True)
        raise BenchError(f"{path}: request {row} has no {name}, expected it in every request or in none")
    return np.concatenate(parts).astype(dtype)
