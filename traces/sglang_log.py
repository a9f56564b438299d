"""Importer of SGLang's `Decode batch` log lines: means over a window, of which the accept rate has two definitions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lightspec_bench.acceptance import Counts
from lightspec_bench.acceptance_summary import AcceptanceSummary, Sample
from lightspec_bench.core import BenchError
from lightspec_bench.skipped import Malformed
from lightspec_bench.traces.log_lines import scan, sniffs_log, summary_of
from lightspec_bench.traces.printed import Printed, printed

NAME = "sglang-log"
_LENGTH = re.compile(r"accept len: (\d+\.\d+)(?=,)")
_RATE = re.compile(r"accept rate: (\d+\.\d+)(?=,)")
_RANK = re.compile(r"\b(DP\d+)\b")
_MEANS = "SGLang prints means of a window and no counts: nothing can be pooled, windows weigh the same in the means"
Definition = Literal["drafts only", "with bonus", "unknown"]


@dataclass(frozen=True, slots=True)
class _Window:
    number: int
    engine: str
    length: Printed
    rate: Printed | None  # None: not printed, or above 1


class SGLangLog:
    """Acceptance length per window, and a draft acceptance rate where the depth is known.

    SGLang's accept rate was tokens kept (the bonus one too) / draft tokens of the tree (its root too) until 2026-04
    (pull request 23530): the target efficiency. Since then it is accepted / drafted. A file's lines tell which, since
    only one of the two makes a whole number of draft tokens of length and rate in all of them; and then they tell
    that number. `num_draft_tokens`, as given to SGLang (drafts and root), states it.
    """

    def __init__(self, num_draft_tokens: int | None = None) -> None:
        if num_draft_tokens is not None and num_draft_tokens < 2:
            raise BenchError(f"sglang-log: num_draft_tokens is {num_draft_tokens}, expected at least 2")
        self.num_draft_tokens = num_draft_tokens

    def sniffs(self, path: Path) -> bool:
        return sniffs_log(path, NAME)

    def summarise(self, path: Path) -> AcceptanceSummary:
        windows: list[_Window] = []
        above_one: list[int] = []
        idle: list[int] = []

        def take(number: int, line: str) -> None:
            window = _window(number, line)
            if window.length.value == 0:
                idle.append(number)
                return
            if window.rate is None and _RATE.search(line):
                above_one.append(number)
            windows.append(window)

        tally = scan(path, NAME, take)
        definition, depth = _definition([w for w in windows if w.rate is not None])
        if self.num_draft_tokens is not None:
            depth = self.num_draft_tokens - 1
        samples = [_sample(window, definition, depth) for window in windows]
        notes = [_MEANS, _about(definition, depth), *_about_lines(above_one, idle)]
        return summary_of(path, NAME, "window", samples, notes, tally.skipped)


def _window(number: int, line: str) -> _Window:
    found, rate, rank = _LENGTH.search(line), _RATE.search(line), _RANK.search(line)
    if found is None or ("accept rate:" in line and rate is None):
        raise Malformed("is cut off or of an unknown version", "accept len and accept rate are no numbers")
    length = printed(found[1])
    if 0 < length.value < 1:
        raise Malformed("has an acceptance length below 1", f"accept len {found[1]}: the bonus token is always kept")
    share = printed(rate[1]) if rate else None
    return _Window(number, rank[1] if rank else "", length, share if share and share.value <= 1.0 else None)


def _definition(windows: Sequence[_Window]) -> tuple[Definition, int | None]:
    """Which accept rate these are, and the draft tokens per step where one whole number fits every line."""
    drafts = _whole_numbers(windows, bonus=1.0, least=1)
    rows = _whole_numbers(windows, bonus=0.0, least=2)
    if not windows or bool(drafts) == bool(rows):
        return "unknown", None
    if drafts:
        return "drafts only", drafts[0] if len(drafts) == 1 else None
    return "with bonus", rows[0] - 1 if len(rows) == 1 else None


def _whole_numbers(windows: Sequence[_Window], bonus: float, least: int) -> list[int]:
    """Whole n with (length - bonus) / n = rate in every line, to the digits printed; two of them say "several"."""
    low, high = float(least), 1e6
    for window in windows:
        assert window.rate is not None
        above = window.length.value + window.length.half - bonus
        below = window.length.value - window.length.half - bonus
        low = max(low, below / (window.rate.value + window.rate.half))
        if window.rate.value > window.rate.half:
            high = min(high, above / (window.rate.value - window.rate.half))
        elif window.rate.value == 0 and below > 0 and window.rate.half * high < below:
            high = 0.0
    first = math.ceil(low - 1e-9)
    return list(range(first, min(math.floor(high + 1e-9), first + 1) + 1))


def _sample(window: _Window, definition: Definition, depth: int | None) -> Sample:
    shown = {"mean_acceptance_length": window.length.value}
    if window.rate is not None and definition == "drafts only":
        shown["draft_acceptance_rate"] = shown["verify_acceptance_rate"] = window.rate.value
    if window.rate is not None and definition == "with bonus":
        shown["target_efficiency_of_spec_steps"] = window.rate.value
    if window.length.value == 1.0:  # the bonus token alone, whatever the depth
        shown["draft_acceptance_rate"] = shown["verify_acceptance_rate"] = 0.0
    if depth is not None:
        per_draft = (window.length.value - 1.0) / depth
        shown.setdefault("draft_acceptance_rate", per_draft)
        shown.setdefault("verify_acceptance_rate", per_draft)
        shown.setdefault("target_efficiency_of_spec_steps", window.length.value / (depth + 1))
    return Sample(f"line {window.number}", Counts(), window.engine, shown)


def _about(definition: Definition, depth: int | None) -> str:
    tokens = "an unknown number of" if depth is None else str(depth)
    if definition == "drafts only":
        return f"accept rate is accepted / drafted here, with {tokens} draft tokens per step"
    if definition == "with bonus":
        return (
            f"accept rate counts the bonus token and the target's row here, with {tokens} draft tokens per step: it is "
            "target_efficiency, not a draft acceptance rate"
        )
    if depth is not None:
        return f"accept rate fits no single definition and is not used; {depth} draft tokens per step as stated"
    return (
        "which accept rate this is cannot be told from the file, so it is not used; state "
        "--format sglang-log:num_draft_tokens=N where the depth was fixed"
    )


def _about_lines(above_one: Sequence[int], idle: Sequence[int]) -> list[str]:
    notes = []
    if above_one:
        notes.append(
            f"accept rate above 1 in {len(above_one)} lines (first: line {above_one[0]}): an invalid definition of "
            "SGLang before pull request 11572, not used"
        )
    if idle:
        notes.append(f"lines without a draft, which say nothing about acceptance: {len(idle)} left out")
    return notes
