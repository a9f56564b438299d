"""Importer of llama.cpp logs: a line per request, running `statistics` lines, and the older blocks of several lines."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from lightspec_bench.acceptance import Counts, ratio
from lightspec_bench.acceptance_summary import AcceptanceSummary, Sample
from lightspec_bench.skipped import Malformed
from lightspec_bench.traces.log_lines import check_accepted, check_rate, scan, sniffs_log, summary_of, whole
from lightspec_bench.traces.printed import Printed, agrees, printed, with_spec_steps

NAME = "llamacpp-log"
_SLOT = re.compile(r"print_timing\w*: id\s+(\d+) \| task (-?\d+)")
_BLOCK = re.compile(r"^\s*(n_drafted|n_accept)\s*=")
_ALSO = re.compile(rf"{_SLOT.pattern}|{_BLOCK.pattern}")
_REQUEST = re.compile(r"draft acceptance(?: rate)?\s*=\s*(\d+\.\d+)\s*\(\s*(\d+) accepted\s*/\s*(\d+) generated\)")
_LENGTH = re.compile(r"mean (?:acceptance length|len)\s*=\s*(\d+\.\d+)")
_PER_POS = re.compile(r"acceptance rate per position\s*=\s*\(([^)]*)(\))?")
_STATISTICS = re.compile(r"statistics\s+(\S+?):")
_NUMBERS = ("gen drafts", "acc drafts", "gen tokens", "acc tokens")
_TESTED = "llama.cpp counts draft tokens it sent to the target; drafts shorter than n-min are dropped and not in it"
_SPEC_ONLY = "steps without a draft are not counted: their number, and target_efficiency over all steps, are unknown"


class LlamaCppLog:
    """One sample per request, or per drafting implementation where the log has only `statistics` lines.

    A request line of older builds has no number of drafts. The `statistics` lines behind it do; they run on over the
    server's life, or over the slot's in builds where each slot drafts for itself. Their increase is used where it is
    exactly this request's tokens, which another slot's at the same time would break.
    """

    def sniffs(self, path: Path) -> bool:
        return sniffs_log(path, NAME)

    def summarise(self, path: Path) -> AcceptanceSummary:
        lines = _Lines()
        tally = scan(path, NAME, lines.take, _ALSO)
        lines.close()
        if lines.samples:
            return summary_of(path, NAME, "request", lines.samples, lines.notes(), tally.skipped)
        return summary_of(path, NAME, "engine", lines.implementations(), [_TESTED, _SPEC_ONLY], tally.skipped)


class _Lines:
    """What was read so far: the request whose statistics follow, and every implementation's running totals."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._slot = ("", "")
        self._drafted: int | None = None  # of an older block
        self._request: Sample | None = None
        self._behind: dict[str, tuple[int, ...]] = {}  # statistics behind the request
        self._before: dict[tuple[str, str], tuple[int, ...]] = {}  # totals by slot ("" for the server) and name

    def take(self, number: int, line: str) -> None:
        slot = _SLOT.search(line)
        if slot:
            self.close()
            self._slot = (slot[1], f"slot {slot[1]} task {slot[2]}, ")
        block = _BLOCK.match(line)
        if block:
            self._take_block(number, line, block[1])
        elif "draft acceptance" in line:
            self.close()  # a bare line of a block has no slot of its own
            self._request = _request(f"{self._slot[1]}line {number}", line)
        elif name := _STATISTICS.search(line):
            self._behind[name[1]] = _statistics(line)

    def _take_block(self, number: int, line: str, name: str) -> None:
        self.close()
        value = whole(line, r"=\s*(\d+)\s*$", name)
        if name == "n_drafted":
            self._drafted = value
            return
        drafted, self._drafted = self._drafted, None
        if drafted is None:
            raise Malformed("is cut off or of an unknown version", "n_accept without n_drafted before it")
        check_accepted(value, drafted)
        self.samples.append(Sample(f"line {number}", Counts(num_draft_tokens=drafted, num_accepted_tokens=value)))

    def close(self) -> None:
        """Finish the request whose lines are complete."""
        if self._request is not None:
            steps = next(filter(None, (self._drafts(slot) for slot in ("", self._slot[0]))), None)
            self.samples.append(_with_steps(self._request, steps))
        for name, totals in self._behind.items():
            self._before["", name] = self._before[self._slot[0], name] = totals
        self._request, self._behind = None, {}

    def _drafts(self, slot: str) -> int | None:
        """Drafts by which the totals behind the request rose, where the tokens rose by exactly the request's."""
        assert self._request is not None
        zero = (0,) * len(_NUMBERS)
        rises = [
            [now - then for now, then in zip(totals, self._before.get((slot, name), zero), strict=True)]
            for name, totals in self._behind.items()
        ]
        counts = self._request.counts
        tokens = [sum(rise[at] for rise in rises) for at in (2, 3)]
        return sum(r[0] for r in rises) if tokens == [counts.num_draft_tokens, counts.num_accepted_tokens] else None

    def notes(self) -> list[str]:
        totals = [
            f"{s.label} {s.counts.num_accepted_tokens} of {s.counts.num_draft_tokens}" for s in self.implementations()
        ]
        running = [f"running totals of tokens accepted of drafted, by implementation: {', '.join(totals)}"]
        return [_TESTED, _SPEC_ONLY, *(running if totals else [])]

    def implementations(self) -> list[Sample]:
        """The last running totals of every implementation."""
        found = []
        for (slot, name), (drafts, _, drafted, accepted) in self._before.items():
            if not slot:
                counts = Counts(num_spec_steps=drafts, num_draft_tokens=drafted, num_accepted_tokens=accepted)
                found.append(Sample(name, counts, name))
        return found


def _request(label: str, line: str) -> Sample:
    found = _REQUEST.search(line)
    if found is None:
        raise Malformed("is cut off or of an unknown version", "it has no accepted and generated tokens")
    rate, accepted, drafted = printed(found[1]), int(found[2]), int(found[3])
    check_accepted(accepted, drafted)
    check_rate(rate.value, "draft acceptance rate")
    if drafted and not agrees(rate, ratio(accepted, drafted)):
        raise Malformed("contradicts itself", f"rate {found[1]} for {accepted} accepted of {drafted} generated")
    length = _LENGTH.search(line)
    figure = printed(length[1]) if length else None
    counts = with_spec_steps(accepted, drafted, figure, _per_pos(line), None)[0]
    keep = figure is not None and counts.num_spec_steps is None
    return Sample(label, counts, printed={"mean_acceptance_length": figure.value} if figure and keep else {})


def _per_pos(line: str) -> list[Printed]:
    found = _PER_POS.search(line)
    if found is None:
        return []
    texts = [text.strip() for text in found[1].split(",") if text.strip()]
    if not found[2] or not all(re.fullmatch(r"\d+\.\d+", text) for text in texts):
        raise Malformed("is cut off or of an unknown version", "its rates per position have no end")
    rates = [printed(text) for text in texts]
    for rate in rates:
        check_rate(rate.value, "acceptance rate per position")
    return rates


def _statistics(line: str) -> tuple[int, ...]:
    numbers = tuple(whole(line, rf"#{name}\s*=\s*(\d+)(?=,|\s|$)", f"#{name}") for name in _NUMBERS)
    check_accepted(numbers[3], numbers[2])
    if numbers[1] > numbers[0]:
        raise Malformed("contradicts itself", f"{numbers[1]} drafts accepted of {numbers[0]}")
    return numbers


def _with_steps(sample: Sample, steps: int | None) -> Sample:
    if steps is None or sample.counts.num_spec_steps is not None:
        return sample
    return replace(sample, counts=replace(sample.counts, num_spec_steps=steps, spec_steps_bounds=None), printed={})
