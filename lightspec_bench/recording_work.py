"""The work of a recording: outputs and drafts, each finished one kept at once, until they make a trace."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from lightspec_bench.core import Drafter, Trace, TraceInfo
from lightspec_bench.progress import Report
from lightspec_bench.runners.drafts import Answer, Drafts
from lightspec_bench.runners.requests import Request
from lightspec_bench.side_file import SideFile
from lightspec_bench.traces.importer import Recorded, build_trace
from lightspec_bench.traces.loops import repeats_from
from lightspec_bench.traces.prompts_requests import PromptRequest
from lightspec_bench.traces.validate import check_trace

CONFIDENCE_DECIMALS, ENTROPY_DECIMALS = 3, 2  # so rounded, a trace's file is about a third as large


class Source(Protocol):
    """A target and a drafter that a trace is recorded from.

    `settings` are what two recordings must have alike to share outputs. `learns`: drafts depend on outputs that are
    done, and cost little. `device` and `engine` say what it ran on.
    """

    @property
    def drafter(self) -> Drafter: ...
    @property
    def drafter_name(self) -> str: ...
    @property
    def learns(self) -> bool: ...
    @property
    def settings(self) -> dict[str, Any]: ...
    @property
    def device(self) -> str: ...
    @property
    def engine(self) -> str: ...

    def decode(self, requests: Sequence[Request], batch: int) -> Iterator[tuple[int, list[int], Drafts | None]]:
        """(row, the target's greedy output) of every request as it finishes, and the drafts at every position of it
        where they came out of the same pass."""

    def draft_along(self, answers: Sequence[Answer], batch: int) -> Iterator[tuple[int, Drafts]]:
        """(row, drafts at every position) of outputs that are known."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded trace; seconds and positions are those of this run, without what it took over from an earlier one."""

    trace: Trace
    decode_s: float  # outputs, with drafts in the same pass unless they are looked up
    walk_s: float  # drafts along known outputs
    num_output_tokens: int
    num_positions: int

    @property
    def positions_per_s(self) -> float | None:
        """Positions over all seconds, None where everything was there already."""
        seconds = self.decode_s + self.walk_s
        return self.num_positions / seconds if self.num_positions and seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Store:
    """Where finished outputs and drafts are kept until the trace is written, and what they are of."""

    out: Path
    outputs: Path | None
    resume: bool
    names: dict[str, str]

    @property
    def outputs_path(self) -> Path:
        return self.outputs or self.out.with_name(f"{self.out.name}.outputs")

    @property
    def drafts_path(self) -> Path:
        return self.out.with_name(f"{self.out.name}.drafts")

    def remove(self) -> None:
        """Both files, but for outputs that were asked for."""
        self.drafts_path.unlink(missing_ok=True)
        if self.outputs is None:
            self.outputs_path.unlink(missing_ok=True)


def record_requests(
    source: Source,
    prompts: Sequence[PromptRequest],
    max_tokens: int,
    batch: int,
    info: TraceInfo,
    store: Store,
    report: Report,
) -> Recording:
    """The trace of a drafter on the target's own greedy outputs for `prompts`, `batch` of them at a time.

    Outputs that are not known yet come with their drafts out of one pass; for known ones the drafter walks along the
    text. Whatever is finished is in the store's files at once. A drafter that looks drafts up learns from one output
    for the next, and its drafts cost little: they are always made anew, by a walk.
    """
    settings = _settings(source, prompts, max_tokens, store)
    more = {"drafter": store.names["drafter"], "max_draft_tokens": source.drafter.max_draft_tokens}
    learns = source.learns
    if learns:
        store.drafts_path.unlink(missing_ok=True)
    start = time.perf_counter()
    with (
        SideFile(store.outputs_path, settings, store.resume or store.outputs is not None) as outputs,
        SideFile(store.drafts_path, settings | more, store.resume and not learns) as drafts,
    ):
        work = _Work(source, prompts, max_tokens, batch, outputs, drafts, report)
        work.decode()
        middle = time.perf_counter()
        work.walk()
    end = time.perf_counter()
    trace = _trace(info, prompts, work.answers, [work.drafts[row] for row in range(len(prompts))], store)
    return Recording(trace, middle - start, end - middle, work.num_new_tokens, work.num_new_positions)


class _Work:
    """What is known of every row, and the two ways to learn the rest; each finished row is kept at once."""

    def __init__(
        self,
        source: Source,
        prompts: Sequence[PromptRequest],
        max_tokens: int,
        batch: int,
        outputs_file: SideFile,
        drafts_file: SideFile,
        report: Report,
    ) -> None:
        self.source, self.prompts, self.batch = source, prompts, batch
        self.max_tokens, self.report = max_tokens, report
        self.outputs_file, self.drafts_file = outputs_file, drafts_file
        depth = source.drafter.max_draft_tokens
        self.outputs = {int(entry["row"]): np.array(entry["output"], np.int64) for entry in outputs_file.entries}
        self.drafts = {int(entry["row"]): _unpacked(entry, depth) for entry in drafts_file.entries}
        self.num_new_tokens = self.num_new_positions = 0

    @property
    def answers(self) -> list[Answer]:
        return [Answer(prompt.token_ids, self.outputs[row]) for row, prompt in enumerate(self.prompts)]

    def decode(self) -> None:
        """The target's outputs that are missing, with drafts at every position where the drafter can make them all
        from the same pass."""
        rows = [row for row in range(len(self.prompts)) if row not in self.outputs]
        sent = [Request(self.prompts[row].token_ids.tolist(), self.max_tokens) for row in rows]
        for place, output, drafts in self.source.decode(sent, self.batch):
            self._keep_output(rows[place], output)
            if drafts is not None:
                self._keep_drafts(rows[place], drafts)

    def walk(self) -> None:
        """Drafts for outputs that are known and have none."""
        rows = [row for row in range(len(self.prompts)) if row not in self.drafts]
        answers = self.answers if rows else []
        for place, drafts in self.source.draft_along([answers[row] for row in rows], self.batch):
            self._keep_drafts(rows[place], drafts)

    def _keep_output(self, row: int, output: Sequence[int]) -> None:
        self.outputs_file.append({"row": row, "output": list(output)})
        self.outputs[row] = np.array(output, dtype=np.int64)
        self.num_new_tokens += len(output)
        self.report("outputs of the target", len(self.outputs), len(self.prompts), "")

    def _keep_drafts(self, row: int, drafts: Drafts) -> None:
        self.drafts_file.append({"row": row, **_packed(drafts)})
        self.drafts[row] = drafts
        self.num_new_positions += len(drafts.num_accepted)
        self.report("drafts at every position", len(self.drafts), len(self.prompts), "")


def _settings(source: Source, prompts: Sequence[PromptRequest], max_tokens: int, store: Store) -> dict[str, Any]:
    """What an interrupted run must have had alike for its outputs to count."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(f"{prompt.id} {prompt.token_ids.tolist()}\n".encode())
    return {
        "target": store.names["target"],
        **source.settings,
        "max_tokens": max_tokens,
        "prompts": digest.hexdigest(),
    }


def _packed(drafts: Drafts) -> dict[str, Any]:
    signals = {name: getattr(drafts, name).astype("<f4").tobytes() for name in ("confidence", "entropy")}
    return {
        "num_accepted": drafts.num_accepted.tolist(),
        "num_draft_tokens": drafts.num_draft_tokens.tolist(),
        **{name: base64.b64encode(value).decode() for name, value in signals.items()},
    }


def _unpacked(entry: dict[str, Any], depth: int) -> Drafts:
    confidence, entropy = (
        np.frombuffer(base64.b64decode(entry[name]), "<f4").astype(np.float32).reshape(-1, depth)
        for name in ("confidence", "entropy")
    )
    accepted, number = (np.array(entry[name], np.int64) for name in ("num_accepted", "num_draft_tokens"))
    return Drafts(accepted, number, confidence, entropy)


def _trace(
    info: TraceInfo,
    prompts: Sequence[PromptRequest],
    answers: Sequence[Answer],
    drafts: Sequence[Drafts],
    store: Store,
) -> Trace:
    """The checked trace; it says how many tokens are proposed where that is not always D, and confidences where the
    drafter has any."""
    depth = info.max_draft_tokens
    sure = any(np.isfinite(part.confidence).any() for part in drafts)
    always = all((part.num_draft_tokens[1:] == depth).all() for part in drafts)
    rows = [
        Recorded(
            request_id=prompt.id,
            category=prompt.category,
            num_prompt_tokens=len(answer.prompt),
            num_accepted=part.num_accepted,
            repeats_from=repeats_from(answer.output),
            num_draft_tokens=None if always else part.num_draft_tokens,
            confidence=part.confidence.round(CONFIDENCE_DECIMALS) if sure else None,
            entropy=part.entropy.round(ENTROPY_DECIMALS) if sure else None,
        )
        for prompt, answer, part in zip(prompts, answers, drafts, strict=True)
    ]
    trace = build_trace(info, rows, store.out)
    check_trace(trace, str(store.out))
    return trace
