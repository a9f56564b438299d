"""Traces by name: the shipped ones, files, synthetic ones, and parts of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lightspec_bench.core import BenchError, BoolArray, IntArray, Trace
from lightspec_bench.registry import check_options, did_you_mean, options_of, parse_spec
from lightspec_bench.traces.validate import check_trace

DATA = Path(__file__).parent / "data"
SYNTHETIC = "synthetic"


@dataclass(frozen=True, slots=True)
class Selection:
    """What a spec asks for of a trace, taken in this order: categories, loops, a part such as 1/2, first requests."""

    category: str | list[str] | None = None
    loops: Literal["keep", "drop"] = "keep"
    part: str | None = None
    requests: int | None = None


_PARTS = options_of(Selection)


def trace_names() -> list[str]:
    """Names of the shipped traces."""
    return sorted(path.stem for path in DATA.glob("*.parquet"))


def trace_path(name: str) -> Path:
    """The file of a shipped trace or a path as given; raises `BenchError` for a name that is neither."""
    path = Path(name)
    if path.exists() or path.suffix == ".parquet" or len(path.parts) > 1:
        return path
    if name not in trace_names():
        raise BenchError(f"unknown trace {name!r}{did_you_mean(name, [*trace_names(), SYNTHETIC])}")
    return DATA / f"{name}.parquet"


def load_trace(spec: str) -> Trace:
    """The trace a spec names: `NAME` or `FILE.parquet`, then `:category=C,loops=drop,requests=N` to take a part.

    `synthetic:shape=dspark,workload=[chat,code],...` makes one (see `synthetic.Dials`). An existing file always wins.
    `part=1/2` and `part=2/2` are halves without a common request. The result's `info.name` shows the selection.
    Files are validated: a broken one raises `BenchError`.
    """
    if os.path.exists(spec):  # Path.exists() raises where a spec is longer than a file name may be
        return _read_valid(Path(spec))
    name, options = parse_spec(spec)
    if name == SYNTHETIC and not Path(name).exists():
        part = Selection(**check_options(name, {k: options.pop(k) for k in ("part",) if k in options}, _PARTS))
        return _select_all(_synthetic(options), part)
    part = Selection(**check_options(name, options, _PARTS))
    return _select_all(_read_valid(trace_path(name)), part)


def _read_valid(path: Path) -> Trace:
    from lightspec_bench.traces.format import read_trace

    trace = read_trace(path)
    check_trace(trace, str(path))
    return trace


def _synthetic(options: dict[str, Any]) -> Trace:
    from lightspec_bench.traces.synthetic import Dials, synthesize

    return synthesize(Dials(**check_options(SYNTHETIC, options, options_of(Dials))))


def _select_all(trace: Trace, part: Selection) -> Trace:
    shown = []
    if part.category is not None:
        wanted = [part.category] if isinstance(part.category, str) else part.category
        trace = select(trace, *wanted)
        shown.append("category=" + (wanted[0] if len(wanted) == 1 else f"[{','.join(wanted)}]"))
    if part.loops == "drop":
        trace = without_loops(trace)
        shown.append("loops=drop")
    if part.part is not None:
        trace = one_part(trace, part.part)
        shown.append(f"part={part.part}")
    if part.requests is not None:
        trace = first_requests(trace, part.requests)
        shown.append(f"requests={part.requests}")
    name = trace.info.name + (":" + ",".join(shown) if shown else "")
    return replace(trace, info=replace(trace.info, name=name))


def select(trace: Trace, *categories: str) -> Trace:
    """The requests of these categories."""
    known = sorted(set(trace.category.tolist()))
    for category in categories:
        if category not in known:
            raise BenchError(f"{trace.info.name}: unknown category {category!r}{did_you_mean(str(category), known)}")
    return _take(trace, np.isin(trace.category, categories), trace.num_output_tokens)


def without_loops(trace: Trace) -> Trace:
    """Every request cut where the model fell into a loop; what is left shorter than 2 tokens is dropped.

    A draft that ran past the cut counts as accepted up to the new end.
    """
    lengths = np.minimum(trace.num_output_tokens, trace.repeats_from)
    if not (lengths >= 2).any():
        raise BenchError(f"{trace.info.name}: nothing is left without loops, expected at least 1 request of 2 tokens")
    return _take(trace, lengths >= 2, lengths)


def one_part(trace: Trace, part: str) -> Trace:
    """The requests of one part of several, `1/2`: drawn by a fixed seed, as many of each category as can be."""
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= trace.num_requests):
        expected = f"expected a number of parts such as 1/2, of {trace.num_requests} requests"
        raise BenchError(f"{trace.info.name}: part is {part!r}, {expected}")
    order = np.lexsort((np.random.default_rng(0).random(trace.num_requests), trace.category))
    dealt = np.empty(trace.num_requests, dtype=np.int64)
    dealt[order] = np.arange(trace.num_requests) % int(count)
    return _take(trace, dealt == int(number) - 1, trace.num_output_tokens)


def first_requests(trace: Trace, count: int) -> Trace:
    """The first `count` requests."""
    if not 1 <= count <= trace.num_requests:
        raise BenchError(f"{trace.info.name}: requests is {count}, expected 1 to {trace.num_requests}")
    return _take(trace, np.arange(trace.num_requests) < count, trace.num_output_tokens)


def _take(trace: Trace, rows: BoolArray, lengths: IntArray) -> Trace:
    """The chosen rows, (R,), cut to `lengths`, (R,)."""
    position = np.arange(trace.num_positions) - np.repeat(trace.offsets[:-1], trace.num_output_tokens)
    kept = np.repeat(np.where(rows, lengths, 0), trace.num_output_tokens) > position
    new = lengths[rows]
    ahead = np.repeat(new, new) - 1 - position[kept]
    return replace(
        trace,
        request_id=trace.request_id[rows],
        category=trace.category[rows],
        arrival_s=trace.arrival_s[rows],
        num_prompt_tokens=trace.num_prompt_tokens[rows],
        num_output_tokens=new,
        repeats_from=np.minimum(trace.repeats_from[rows], new),
        offsets=np.concatenate([[0], np.cumsum(new)]),
        num_accepted=np.minimum(trace.num_accepted[kept], ahead).astype(np.int16),
        num_draft_tokens=None if trace.num_draft_tokens is None else trace.num_draft_tokens[kept],
        confidence=None if trace.confidence is None else trace.confidence[kept],
        entropy=None if trace.entropy is None else trace.entropy[kept],
    )
