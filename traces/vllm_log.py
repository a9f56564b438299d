"""Importer of vLLM log lines with speculative metrics: V1 in every field order, the first V1 lines, V0."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from lightspec_bench.acceptance import Counts, ratio
from lightspec_bench.acceptance_summary import AcceptanceSummary, Sample
from lightspec_bench.skipped import Malformed
from lightspec_bench.traces.log_lines import check_accepted, check_rate, scan, sniffs_log, summary_of, whole
from lightspec_bench.traces.printed import Printed, agrees, printed, with_spec_steps

NAME = "vllm-log"
_PROCESS = re.compile(r"\((\w+ pid=\d+)\)|\b(Engine \d+)\b")
_RATE = re.compile(r"[Dd]raft acceptance rate: (nan|\d+\.\d+)(%?)")
_LENGTH = re.compile(r"Mean acceptance length: (nan|\d+\.\d+)")
_PER_POS = re.compile(r"Per-position acceptance \w+: ((?:\d+\.\d+(?:, )?)+)")
_EFFICIENCY = re.compile(r"System efficiency: (nan|\d+\.\d+)")
_VERIFIED = "vLLM counts a draft token when it is sent to the target: drafted and verified are one number here"
_SPEC_ONLY = "steps without a draft are not counted: their number, and target_efficiency over all steps, are unknown"
_V0 = (
    "V0 counts a draft token that matches behind a rejection as accepted: its rate is matched_token_rate, and the "
    "tokens accepted as a prefix are unknown; its system efficiency is target_efficiency_of_spec_steps"
)


class VllmLog:
    """Windows of about ten seconds (V1); V0 lines are running totals, of which the differences are taken.

    V1 lines print no number of drafts. It is worked out where the printed figures allow one number only. Where they
    allow several, and in all windows of that engine every draft may have been as long as the list of positions, it is
    taken for that, and a note says how often.
    """

    def sniffs(self, path: Path) -> bool:
        return sniffs_log(path, NAME)

    def summarise(self, path: Path) -> AcceptanceSummary:
        lines = _Lines()
        tally = scan(path, NAME, lines.take)
        lines.take_full_drafts()
        return summary_of(path, NAME, "window", lines.samples, lines.notes(), tally.skipped)


class _Lines:
    """What was read so far; V0's running totals per engine."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._in_full: dict[str, list[tuple[int, Counts | None]]] = {}  # by engine: sample, counts if drafts were full
        self.num_idle = self.num_assumed = 0
        self._totals: dict[str, tuple[int, ...]] = {}
        self._kinds: set[str] = set()

    def take(self, number: int, line: str) -> None:
        if "DiffusionDecoding" in line:
            raise Malformed("is about diffusion decoding, which drafts nothing")
        process = _PROCESS.search(line)
        engine = (process[1] or process[2]) if process else ""
        kind, read = ("V0", self._v0) if _EFFICIENCY.search(line) else ("V1", self._v1)
        sample = read(f"line {number}", line, engine)
        self._kinds.add(kind)
        if sample is None:
            self.num_idle += 1
        else:
            self.samples.append(sample)

    def take_full_drafts(self) -> None:
        """Settle windows that fit several numbers of drafts, for engines all of whose windows fit full drafts."""
        for windows in self._in_full.values():
            if any(in_full is None for _, in_full in windows):
                continue
            for at, in_full in windows:
                sample = self.samples[at]
                if in_full is not None and sample.counts.num_spec_steps is None:
                    self.samples[at] = replace(sample, counts=in_full, printed={})
                    self.num_assumed += 1

    def notes(self) -> list[str]:
        notes = [_VERIFIED, _SPEC_ONLY] if "V1" in self._kinds else []
        notes += [_V0] if "V0" in self._kinds else []
        if self.num_assumed:
            notes.append(
                f"in {self.num_assumed} of {len(self.samples)} windows several numbers of drafts fit what was printed: "
                "taken as drafted / positions, which holds if every draft was of full length"
            )
        if self.num_idle:
            notes.append(f"lines without a draft, which say nothing about acceptance: {self.num_idle} left out")
        return notes

    def _v1(self, label: str, line: str, engine: str) -> Sample | None:
        accepted = _either(line, r"Accepted: (\d+) tokens", r"Number of accepted tokens: (\d+),", "accepted tokens")
        drafted = _either(line, r"Drafted: (\d+) tokens", r"Number of draft tokens: (\d+)(?=,|\.|$)", "draft tokens")
        check_accepted(accepted, drafted)
        length, per_pos = _length(line), _per_pos(line)
        _check_printed_rate(line, accepted, drafted)
        if drafted == 0:
            return None
        counts, in_full = with_spec_steps(accepted, drafted, length, per_pos, len(per_pos) or None)
        self._in_full.setdefault(engine, []).append((len(self.samples), in_full))
        keep = length is not None and counts.num_spec_steps is None
        return Sample(label, counts, engine, {"mean_acceptance_length": length.value} if length and keep else {})

    def _v0(self, label: str, line: str, engine: str) -> Sample | None:
        depth, matched, drafted, emitted = (
            whole(line, rf"Number of {what} tokens: (\d+)(?=,|\.|\s|$)", f"{what} tokens")
            for what in ("speculative", "accepted", "draft", "emitted")
        )
        _check_v0(line, depth, matched, drafted, emitted)
        before = self._totals.get(engine, (depth, 0, 0, 0))
        self._totals[engine] = (depth, matched, drafted, emitted)
        if drafted < before[2] or depth != before[0]:  # the engine was started anew
            before = (depth, 0, 0, 0)
        _, matched, drafted, emitted = (now - then for now, then in zip(self._totals[engine], before, strict=True))
        if drafted == 0:
            return None
        counts = Counts(
            num_spec_steps=drafted // depth,
            num_draft_tokens=drafted,
            num_verify_tokens=drafted,
            num_matched_tokens=matched,
            num_spec_tokens=emitted,
        )
        return Sample(label, counts, engine)


def _either(line: str, pattern: str, first: str, what: str) -> int:
    """A count by its name in V1, or in the first lines of V1."""
    return whole(line, first if line.find("Speculative metrics:") >= 0 else pattern, what)


def _length(line: str) -> Printed | None:
    found = _LENGTH.search(line)
    if found is None or found[1] == "nan":
        return None
    return printed(found[1])


def _per_pos(line: str) -> list[Printed]:
    found = _PER_POS.search(line)
    if found is None:
        if "Mean acceptance length" in line and "nan" not in line:
            raise Malformed("is cut off or of an unknown version", "it has no rates per position")
        return []
    texts = found[1].rstrip(", ").split(", ")
    if len({len(text) for text in texts}) > 1:
        raise Malformed("is cut off or of an unknown version", f"its rates per position end in {texts[-1]}")
    rates = [printed(text) for text in texts]
    for rate in rates:
        check_rate(rate.value, "per-position acceptance rate")
    return rates


def _check_printed_rate(line: str, accepted: int, drafted: int) -> None:
    """The line's own rate says the same as its counts; a line that has the throughputs ends with it."""
    found = _RATE.search(line)
    if found is None or ("SpecDecoding" in line and not found[2]):
        raise Malformed("is cut off or of an unknown version", "it has no draft acceptance rate")
    if found[1] == "nan" or drafted == 0:
        return
    rate = printed(found[1])
    share = Printed(rate.value / 100.0, rate.half / 100.0) if found[2] else rate
    check_rate(share.value, "draft acceptance rate")
    if not agrees(share, ratio(accepted, drafted)):
        raise Malformed("contradicts itself", f"rate {found[1]}{found[2]} for {accepted} accepted of {drafted} drafted")


def _check_v0(line: str, depth: int, matched: int, drafted: int, emitted: int) -> None:
    check_accepted(matched, drafted)
    if depth < 1 or drafted % depth:
        raise Malformed("contradicts itself", f"{drafted} draft tokens are no whole number of drafts of {depth}")
    rows = drafted // depth * (depth + 1)
    if emitted > rows:
        raise Malformed("emits more than was verified", f"{emitted} tokens of {rows} target rows")
    efficiency = _EFFICIENCY.search(line)
    if efficiency and efficiency[1] != "nan" and rows and not agrees(printed(efficiency[1]), ratio(emitted, rows)):
        raise Malformed("contradicts itself", f"system efficiency {efficiency[1]} for {emitted} tokens of {rows} rows")
    _check_printed_rate(line, matched, drafted)
