"""Log files line by line: which lines are an engine's speculative ones, and what cannot be read of them, counted."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from lightspec_bench.acceptance_summary import AcceptanceSummary, Sample, Unit
from lightspec_bench.core import BenchError
from lightspec_bench.skipped import Malformed, Skipped, Tally, sentence

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SNIFFED_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 15
# One of these is in every line that any importer reads; looking for them first makes long logs quick.
_HINTS = (b"accept", b"metrics:", b"statistics", b"mtp_avg", b"n_drafted", b"print_timing", b"spec_decode")
# What marks an engine's speculative line; the importer of each is named so.
MARKERS = {
    "vllm-log": re.compile(r"SpecDecoding metrics:|Speculative metrics:|DiffusionDecoding metrics:"),
    "sglang-log": re.compile(r"Decode batch.*\baccept len:|#running-req:.*\baccept len:"),
    "llamacpp-log": re.compile(r"draft acceptance(?: rate)?\s*=|statistics\s+\S+:\s+#calls|^n_accept\s*="),
    "lightllm-log": re.compile(r"\bmtp_avg_token_per_step:"),
}


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """(number, text) of each line that may be of use, plain or gzip, without colour codes. Only "\\n" ends a line."""
    try:
        with path.open("rb") as probe:
            opener = gzip.open if probe.read(2) == b"\x1f\x8b" else open
        with opener(path, "rb") as file:
            number = 0
            while block := file.readlines(_BLOCK_BYTES):
                for at in _useful(block):
                    line = block[at].decode("utf-8", "replace")
                    yield number + at + 1, _COLOURS.sub("", line).rstrip("\r\n")
                number += len(block)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BenchError(f"{path} is a truncated or damaged gzip file ({error})") from None


def _useful(block: list[bytes]) -> Iterator[int]:
    """Which lines of a block hold a hint; most blocks of a log hold none, which one look at all of it tells."""
    whole = b"".join(block)
    hints = [hint for hint in _HINTS if hint in whole]
    if hints:
        yield from (at for at, line in enumerate(block) if any(hint in line for hint in hints))


def sniffs_log(path: Path, name: str) -> bool:
    """Whether the first speculative line in the beginning of a file is this engine's."""
    read = 0
    try:
        for _, line in lines_of(path):
            read += len(line)
            if (found := engine_of(line)) is not None or read > _SNIFFED_BYTES:
                return found == name
    except (BenchError, OSError):
        pass
    return False


def engine_of(line: str) -> str | None:
    """The importer that a line is for, None for a line that is not about speculation."""
    return next((name for name, marker in MARKERS.items() if marker.search(line)), None)


def scan(path: Path, name: str, take: Callable[[int, str], None], also: re.Pattern[str] | None = None) -> Tally:
    """Hand each line of this engine to `take`, and those that match `also`; count what it refuses.

    `take` gets the line's number and text and raises `Malformed`. Speculative lines of another engine are refused.
    """
    tally = Tally()
    for number, line in lines_of(path):
        engine = engine_of(line)
        if engine is None and (also is None or not also.search(line)):
            continue
        tally.tried(f"{path} line {number}", partial(_take, take, name, engine, number, line))
    return tally


def _take(take: Callable[[int, str], None], name: str, engine: str | None, number: int, line: str) -> None:
    if engine not in (None, name):
        raise Malformed("is a line of another engine", f"{engine} reads it, this is {name}")
    take(number, line)


def summary_of(
    path: Path, name: str, unit: Unit, samples: list[Sample], notes: list[str], skipped: tuple[Skipped, ...]
) -> AcceptanceSummary:
    """The summary of a file; `BenchError` where nothing of it can be used."""
    if not samples:
        why = "; ".join(filter(None, [sentence(skipped), *notes])) or "it has none"
        raise BenchError(f"{path}: expected at least one usable speculative record of {name}: {why}")
    return AcceptanceSummary(name, str(path), unit, tuple(samples), tuple(notes), skipped)


def whole(line: str, pattern: str, what: str) -> int:
    """The whole number that a pattern's first group holds; `Malformed` where the line does not have it."""
    found = re.search(pattern, line)
    if found is None:
        raise Malformed("is cut off or of an unknown version", f"it has no {what}")
    return int(found[1])


def check_accepted(accepted: int, drafted: int, of: str = "drafted") -> None:
    """Refuse more accepted than drafted tokens."""
    if accepted > drafted:
        raise Malformed(f"accepts more than was {of}", f"{accepted} accepted of {drafted} {of}")


def check_rate(value: float, what: str) -> None:
    """Refuse a rate above 1."""
    if value > 1.0:
        raise Malformed("has a rate above 1", f"{what} {value:g}")
