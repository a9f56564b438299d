"""Importer of Prometheus dumps with vLLM's speculative counters, and of engines that use its names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lightspec_bench.acceptance import Counts
from lightspec_bench.acceptance_summary import AcceptanceSummary, Sample
from lightspec_bench.core import BenchError
from lightspec_bench.skipped import Malformed, Tally
from lightspec_bench.traces.log_lines import check_accepted, lines_of, summary_of

NAME = "vllm-prometheus"
_SERIES = re.compile(
    r"^\s*(?P<name>\w+:spec_decode_\w+?)(?P<kind>_total|_created)?(?P<labels>\{.*\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*$"
)
_OURS = re.compile(r"^\s*\w+:spec_decode_")
_COUNTER = re.compile(r"\w+:spec_decode_num_\w+[{ ]")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_COUNTERS = {
    "num_drafts": "drafts", "num_draft_tokens": "drafted", "num_accepted_tokens": "accepted",
    "num_accepted_tokens_per_pos": "per_pos", "num_emitted_tokens": "emitted",
}  # fmt: skip
_SINCE_START = "counters since each engine's start: take two dumps to see a stretch of time apart"
_SPEC_ONLY = "steps without a draft are not counted: their number, and target_efficiency over all steps, are unknown"
_V0 = "V0 counters: accepted tokens include matches behind a rejection, the number of drafts is not exported"


@dataclass(slots=True)
class _Engine:
    """The counters of one engine, as last read; `first` is the line of its first one."""

    first: int
    values: dict[str, int] = field(default_factory=dict)
    per_pos: dict[int, int] = field(default_factory=dict)


class VllmPrometheus:
    """One sample per engine: series that differ in any label but `position`.

    Counters are those with the suffix `_total` or none; `_created` series are times and are read over. Where a series
    stands in the file more than once, several dumps follow one another, and the last one counts.
    """

    def sniffs(self, path: Path) -> bool:
        try:
            return any(_COUNTER.match(line) for _, line in lines_of(path))
        except (BenchError, OSError):
            return False

    def summarise(self, path: Path) -> AcceptanceSummary:
        tally, engines = Tally(), dict[str, _Engine]()
        repeated = _read(path, engines, tally)
        samples = []
        for name, engine in engines.items():
            counts = tally.tried(f"{path} line {engine.first}", partial(_counts, engine))
            if counts is not None:
                samples.append(Sample(name or "engine", counts, name))
        notes = [_SINCE_START, _SPEC_ONLY]
        notes += [_V0] if any("emitted" in engine.values for engine in engines.values()) else []
        notes += ["several dumps follow one another: the last value of each series counts"] if repeated else []
        return summary_of(path, NAME, "engine", samples, notes, tally.skipped)


def _read(path: Path, engines: dict[str, _Engine], tally: Tally) -> bool:
    """Fill in the counters of every engine; whether any series occurs twice."""
    seen: set[tuple[str, str, str]] = set()
    repeated = False
    for number, line in lines_of(path):
        found = tally.tried(f"{path} line {number}", partial(_series, line)) if _OURS.match(line) else None
        if found is None:
            continue
        name, counter, position, value = found
        engine = engines.setdefault(name, _Engine(number))
        if counter == "per_pos":
            engine.per_pos[int(position)] = value
        else:
            engine.values[counter] = value
        repeated |= (name, counter, position) in seen
        seen.add((name, counter, position))
    return repeated


def _series(line: str) -> tuple[str, str, str, int] | None:
    """(engine, counter, position, value) of a sample; None for a time or a series of another matter."""
    found = _SERIES.match(line)
    if found is None:
        raise Malformed("is cut off or no Prometheus sample", line.strip()[:80])
    counter = _COUNTERS.get(found["name"].partition(":spec_decode_")[2])
    if found["kind"] == "_created" or counter is None:
        return None
    labels = dict(_LABEL.findall(found["labels"] or ""))
    position = labels.pop("position", "")
    if counter == "per_pos" and not position.isdigit():
        raise Malformed("has no position", f"label position is {position!r}")
    return ", ".join(f"{key} {value}" for key, value in labels.items()), counter, position, _whole(found["value"])


def _whole(text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        raise Malformed("is cut off or no Prometheus sample", f"its value is {text!r}") from None
    if not (value >= 0 and value < 2**63 and value == int(value)):
        raise Malformed("is no count", f"its value is {text}, expected a whole number of at least 0")
    return int(value)


def _counts(engine: _Engine) -> Counts:
    values, per_pos = engine.values, tuple(engine.per_pos[k] for k in sorted(engine.per_pos))
    if not {"accepted", "drafted"} & set(values):
        raise Malformed("is an engine without draft or accepted tokens", f"it has {', '.join(values) or 'positions'}")
    accepted, drafted, drafts = (values.get(key) for key in ("accepted", "drafted", "drafts"))
    if accepted is not None and drafted is not None:
        check_accepted(accepted, drafted)
    if "emitted" in values:
        return Counts(
            num_draft_tokens=drafted, num_verify_tokens=drafted, num_matched_tokens=accepted,
            num_spec_tokens=values["emitted"],
        )  # fmt: skip
    if drafts is not None and drafted is not None and drafts > drafted:
        raise Malformed("contradicts itself", f"{drafts} drafts have {drafted} draft tokens")
    complete = bool(per_pos) and drafts is not None and sum(per_pos) == accepted
    if drafts is not None and any(count > drafts for count in per_pos):
        raise Malformed("has a rate above 1", f"{max(per_pos)} of {drafts} drafts accepted at one position")
    return Counts(
        num_spec_steps=drafts, num_draft_tokens=drafted, num_verify_tokens=drafted, num_accepted_tokens=accepted,
        num_survived_per_pos=per_pos if complete else None,
    )  # fmt: skip
