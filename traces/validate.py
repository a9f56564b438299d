"""Checks of a trace's values: every invariant at once, the first violation by name and the count of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import BenchError, BoolArray, IntArray, Trace

PART_POSITIONS = 1_000_000
_PER_POSITION = ("num_accepted", "num_draft_tokens", "confidence", "entropy")
_Say = Callable[[int], str]  # index of a violation -> "has NAME VALUE[ at position P], expected WHAT"


@dataclass(frozen=True, slots=True)
class Violations:
    """What `validate` found. `first` names the request and position of the earliest violation, "" for none."""

    count: int = 0
    by_rule: dict[str, int] = field(default_factory=dict)
    first: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    wrong: BoolArray  # (R,), (P,) or (P, D)
    say: _Say
    per_request: bool = False


def check_trace(trace: Trace, source: str) -> None:
    """Raise `BenchError` naming `source`, the first violation and the count of all, unless the trace is valid."""
    found = validate(trace)
    if found.count:
        rules = ", ".join(f"{name} {count}" for name, count in found.by_rule.items())
        more = f"; {found.count} violations in all ({rules})" if found.count > 1 else ""
        raise BenchError(f"{source}: {found.first}{more}")


def validate(trace: Trace) -> Violations:
    """Check every invariant of a trace; values are only looked at when the arrays fit together."""
    misfit = next(_misfits(trace), None)
    if misfit:
        return Violations(1, {"structure": 1}, misfit)
    by_rule: dict[str, int] = {}
    firsts = [_note(trace, 0, rule, by_rule) for rule in _request_rules(trace)]
    for row, part in _parts(trace):
        firsts += [_note(part, row, rule, by_rule) for rule in _position_rules(part)]
    found = min((first for first in firsts if first), key=lambda first: first[:2], default=None)
    return Violations(sum(by_rule.values()), by_rule, found[2] if found else "")


def _parts(trace: Trace) -> Iterator[tuple[int, Trace]]:
    """The trace in parts of whole requests with their first row, so that checks take little memory beside it."""
    cuts = np.searchsorted(trace.offsets, np.arange(0, trace.num_positions, PART_POSITIONS))
    cuts = np.unique(np.append(cuts, trace.num_requests))
    for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        first, last = int(trace.offsets[start]), int(trace.offsets[stop])
        own: dict[str, Any] = {n: getattr(trace, n) for n in _PER_POSITION}
        own = {name: None if values is None else values[first:last] for name, values in own.items()}
        own |= {n: getattr(trace, n)[start:stop] for n in ("request_id", "num_output_tokens")}
        yield start, replace(trace, offsets=trace.offsets[start : stop + 1] - first, **own)


def _note(trace: Trace, first_row: int, rule: _Rule, by_rule: dict[str, int]) -> tuple[int, int, str] | None:
    """Count a rule's violations; the first one's request, position and sentence."""
    count = int(np.count_nonzero(rule.wrong))
    if not count:
        return None
    by_rule[rule.name] = by_rule.get(rule.name, 0) + count
    index = int(np.argmax(rule.wrong))
    position = -1 if rule.per_request else index // int(rule.wrong.size / rule.wrong.shape[0])
    row = index if rule.per_request else int(np.searchsorted(trace.offsets, position, side="right")) - 1
    said = f"request {first_row + row} ({str(trace.request_id[row])!r}) {rule.say(index)}"
    return first_row + row, -1 if position < 0 else position - int(trace.offsets[row]), said


def _misfits(trace: Trace) -> Iterator[str]:
    requests, depth = trace.num_requests, trace.max_draft_tokens
    if requests == 0:
        yield "the trace has no requests, expected at least 1"
    for name in ("request_id", "category", "arrival_s", "num_prompt_tokens", "repeats_from"):
        if getattr(trace, name).shape != (requests,):
            yield f"{name} has shape {getattr(trace, name).shape}, expected ({requests},)"
    if (trace.num_output_tokens < 1).any():
        row = int(np.argmax(trace.num_output_tokens < 1))
        yield f"request {row} has num_output_tokens {trace.num_output_tokens[row]}, expected at least 1"
    if not np.array_equal(trace.offsets, np.concatenate([[0], np.cumsum(trace.num_output_tokens)])):
        yield "offsets are not the running sum of num_output_tokens, starting at 0"
    shapes = {"num_accepted": (), "num_draft_tokens": (), "confidence": (depth,), "entropy": (depth,)}
    for name, rest in shapes.items():
        values = getattr(trace, name)
        if values is not None and values.shape != (trace.num_positions, *rest):
            yield f"{name} has shape {values.shape}, expected {(trace.num_positions, *rest)}"


def _request_rules(trace: Trace) -> Iterator[_Rule]:
    def rule(name: str, wrong: BoolArray, expected: str, values: npt.NDArray[Any]) -> _Rule:
        return _Rule(name, wrong, lambda r: f"has {name} {values[r]}, expected {expected}", per_request=True)

    _, first = np.unique(trace.request_id, return_index=True)
    repeated = np.ones(trace.num_requests, np.bool_)
    repeated[first] = False
    yield rule("request_id", repeated, "an id that no request before it has", trace.request_id)
    late = ~(np.isfinite(trace.arrival_s) & (trace.arrival_s >= 0))
    yield rule("arrival_s", late, "a finite number of at least 0", trace.arrival_s)
    yield rule("num_prompt_tokens", trace.num_prompt_tokens < 0, "at least 0", trace.num_prompt_tokens)
    outside = (trace.repeats_from < 0) | (trace.repeats_from > trace.num_output_tokens)
    yield rule("repeats_from", outside, "a position of the request, or num_output_tokens", trace.repeats_from)


def _position_rules(trace: Trace) -> Iterator[_Rule]:
    lengths, depth = trace.num_output_tokens, trace.max_draft_tokens
    position = np.arange(trace.num_positions) - np.repeat(trace.offsets[:-1], lengths)
    ahead = np.repeat(lengths, lengths) - 1 - position
    accepted, drafted = trace.num_accepted, trace.num_draft_tokens
    known = np.full(trace.num_positions, depth) if drafted is None else drafted.astype(np.int64)

    def count_rule(name: str, values: npt.NDArray[Any], most: IntArray, why: str) -> _Rule:
        wrong = (values < 0) | (values > most)
        say: _Say = lambda i: f"has {name} {values[i]} at position {position[i]}, expected 0 to {most[i]} ({why})"  # noqa: E731
        return _Rule(name, wrong, say)

    most = np.minimum(np.minimum(known, depth), ahead)
    why = f"max_draft_tokens {depth}, num_draft_tokens there, and tokens left before the last"
    yield count_rule("num_accepted", accepted, np.maximum(most, 0), why)
    if drafted is not None:
        yield count_rule("num_draft_tokens", drafted, np.full(trace.num_positions, depth), "max_draft_tokens")
    # NaN may stand where no draft token is: at the placeholder entry 0 and past num_draft_tokens
    needed = np.where(position == 0, 0, known)
    for name, top in (("confidence", 1.0), ("entropy", np.inf)):
        values = getattr(trace, name)
        if values is not None:
            yield _signal_rule(name, values, top, needed, position)


def _signal_rule(name: str, values: npt.NDArray[Any], top: float, needed: IntArray, position: IntArray) -> _Rule:
    missing = np.isnan(values)
    wrong = ~((values >= 0.0) & (values <= top) & (values < np.inf)) & ~missing
    depth = values.shape[1]
    wrong |= missing & (np.arange(depth) < needed[:, None])
    expected = "0 to 1" if top == 1.0 else "a finite number of at least 0"

    def say(index: int) -> str:
        row, column = divmod(index, depth)
        return f"has {name}[{column}] {values[row, column]} at position {position[row]}, expected {expected}"

    return _Rule(name, wrong, say)
