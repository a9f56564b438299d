"""Recording a trace: prompts through a real target, and a real drafter asked at every position of its outputs."""

from __future__ import annotations

import base64
import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench import __version__
from lightspec_bench.core import BenchError, Trace, TraceInfo
from lightspec_bench.progress import Report
from lightspec_bench.recording_prompts import PromptChoice, Prompts, read_prompts
from lightspec_bench.runners.torch_device import device_name, engine_name
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_drafters import make_drafter
from lightspec_bench.runners.torch_model import TorchModel, load_tokenizer, stop_tokens
from lightspec_bench.runners.torch_record import decode_and_draft, greedy_outputs
from lightspec_bench.runners.torch_record_drafts import Answer, Drafts
from lightspec_bench.runners.torch_record_walk import draft_everywhere
from lightspec_bench.runners.torch_requests import Request
from lightspec_bench.runners.torch_targets import load_target, target_place, title
from lightspec_bench.side_file import SideFile
from lightspec_bench.traces.format import write_trace
from lightspec_bench.traces.importer import Recorded, build_trace
from lightspec_bench.traces.loops import repeats_from
from lightspec_bench.traces.prompts_requests import PromptRequest
from lightspec_bench.traces.validate import check_trace

__all__ = ["PromptChoice", "RecordJob", "Recording", "Store", "record", "record_requests"]


@dataclass(frozen=True, slots=True)
class RecordJob:
    """What to record. `max_draft_tokens` None: the drafter's own; `outputs`: a file that keeps the target's outputs,
    for the next drafter's trace; None: a file beside `out` that goes when the trace is written."""

    target: str
    drafter: str
    prompts: PromptChoice
    out: Path
    max_tokens: int = 192
    max_draft_tokens: int | None = None
    dtype: str = "float32"
    device: str = "cpu"
    batch: int = 32
    outputs: Path | None = None
    resume: bool = False
    licence: str | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "batch", "max_draft_tokens"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise BenchError(f"{name} is {value}, expected at least 1")


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


def record(job: RecordJob, report: Report) -> tuple[Recording, Prompts]:
    """Record the trace of a job and write it to `job.out`, validated. Raises `BenchError` for whatever is wrong."""
    target = load_target(job.target, job.dtype, job.device)
    drafter = make_drafter(job.drafter, target, job.max_draft_tokens)
    prompts = read_prompts(job.prompts, load_tokenizer(target_place(job.target)), target.max_positions)
    store = Store(job.out, job.outputs, job.resume, {"target": job.target, "drafter": job.drafter})
    info = _info(job, target, drafter, prompts)
    stops = stop_tokens(target)
    found = record_requests(target, drafter, prompts.requests, job.max_tokens, job.batch, stops, info, store, report)
    write_trace(found.trace, job.out)
    store.remove()
    return found, prompts


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
    target: TorchModel,
    drafter: TorchDrafter,
    prompts: Sequence[PromptRequest],
    max_tokens: int,
    batch: int,
    stops: Sequence[int],
    info: TraceInfo,
    store: Store,
    report: Report,
) -> Recording:
    """The trace of `drafter` on the target's own greedy outputs for `prompts`, `batch` of them at a time.

    Outputs that are not known yet come with their drafts out of one pass; for known ones the drafter walks along the
    text. Whatever is finished is in the store's files at once. A drafter that looks drafts up learns from one output
    for the next, and its drafts cost little: they are always made anew, by a walk.
    """
    settings = _settings(target, prompts, max_tokens, stops, store)
    more = {"drafter": store.names["drafter"], "max_draft_tokens": drafter.shape.max_draft_tokens}
    learns = drafter.shape.kind == "ngram"
    if learns:
        store.drafts_path.unlink(missing_ok=True)
    start = time.perf_counter()
    with (
        SideFile(store.outputs_path, settings, store.resume or store.outputs is not None) as outputs,
        SideFile(store.drafts_path, settings | more, store.resume and not learns) as drafts,
    ):
        work = _Work(target, drafter, prompts, max_tokens, batch, stops, outputs, drafts, report)
        work.decode(with_drafts=not learns)
        middle = time.perf_counter()
        work.walk()
    end = time.perf_counter()
    trace = _trace(info, prompts, work.answers, [work.drafts[row] for row in range(len(prompts))], store)
    return Recording(trace, middle - start, end - middle, work.num_new_tokens, work.num_new_positions)


class _Work:
    """What is known of every row, and the two ways to learn the rest; each finished row is kept at once."""

    def __init__(
        self,
        target: TorchModel,
        drafter: TorchDrafter,
        prompts: Sequence[PromptRequest],
        max_tokens: int,
        batch: int,
        stops: Sequence[int],
        outputs_file: SideFile,
        drafts_file: SideFile,
        report: Report,
    ) -> None:
        self.target, self.drafter, self.prompts, self.batch, self.stops = target, drafter, prompts, batch, stops
        self.max_tokens, self.report = max_tokens, report
        self.outputs_file, self.drafts_file = outputs_file, drafts_file
        depth = drafter.shape.max_draft_tokens
        self.outputs = {int(entry["row"]): np.array(entry["output"], np.int64) for entry in outputs_file.entries}
        self.drafts = {int(entry["row"]): _unpacked(entry, depth) for entry in drafts_file.entries}
        self.num_new_tokens = self.num_new_positions = 0

    @property
    def answers(self) -> list[Answer]:
        return [Answer(prompt.token_ids, self.outputs[row]) for row, prompt in enumerate(self.prompts)]

    def decode(self, with_drafts: bool) -> None:
        """The target's outputs that are missing, with drafts at every position in the same pass, or without."""
        rows = [row for row in range(len(self.prompts)) if row not in self.outputs]
        sent = [Request(self.prompts[row].token_ids.tolist(), self.max_tokens) for row in rows]
        if with_drafts:
            for place, output, drafts in decode_and_draft(self.target, self.drafter, sent, self.batch, self.stops):
                self._keep_output(rows[place], output)
                self._keep_drafts(rows[place], drafts)
        else:
            for place, output in greedy_outputs(self.target, sent, self.batch, self.stops):
                self._keep_output(rows[place], output)

    def walk(self) -> None:
        """Drafts for outputs that are known and have none."""
        rows = [row for row in range(len(self.prompts)) if row not in self.drafts]
        answers = self.answers
        for place, drafts in draft_everywhere(self.target, self.drafter, [answers[row] for row in rows], self.batch):
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


def _settings(
    target: TorchModel, prompts: Sequence[PromptRequest], max_tokens: int, stops: Sequence[int], store: Store
) -> dict[str, Any]:
    """What an interrupted run must have had alike for its outputs to count."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(f"{prompt.id} {prompt.token_ids.tolist()}\n".encode())
    return {
        "target": store.names["target"],
        "dtype": str(target.dtype),
        "device": target.device.type,
        "max_tokens": max_tokens,
        "stop_tokens": sorted(stops),
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
    """The checked trace; it says how many tokens are proposed where that is not always D."""
    depth = info.max_draft_tokens
    always = all((part.num_draft_tokens[1:] == depth).all() for part in drafts)
    rows = [
        Recorded(
            request_id=prompt.id,
            category=prompt.category,
            num_prompt_tokens=len(answer.prompt),
            num_accepted=part.num_accepted,
            repeats_from=repeats_from(answer.output),
            num_draft_tokens=None if always else part.num_draft_tokens,
            confidence=part.confidence,
            entropy=part.entropy,
        )
        for prompt, answer, part in zip(prompts, answers, drafts, strict=True)
    ]
    trace = build_trace(info, rows, store.out)
    check_trace(trace, str(store.out))
    return trace


def _info(job: RecordJob, target: TorchModel, drafter: TorchDrafter, prompts: Prompts) -> TraceInfo:
    counts = ", ".join(f"{name} {count}" for name, count in Counter(p.category for p in prompts.requests).items())
    template = "chat template" if job.prompts.chat_template else "no chat template"
    return TraceInfo(
        name=job.out.name.removesuffix(".parquet"),
        target=title(job.target),
        drafter=drafter.name,
        drafter_kind=drafter.shape.kind,
        max_draft_tokens=drafter.shape.max_draft_tokens,
        dataset=f"{counts}: up to {job.max_tokens} output tokens each",
        sampling=f"greedy, {template}",
        indexing="position",
        origin="recorded",
        made_by=f"lightspec-bench {__version__} record on {date.today()}, {device_name(target.device)}, {job.dtype}, "
        f"{engine_name()}: the target's own output, a draft made at every position of it",
        licence=job.licence or f"counts and probabilities only; prompts: {prompts.licences}",
    )
