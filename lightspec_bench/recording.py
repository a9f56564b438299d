"""Recording a trace: prompts through a real target, and a real drafter asked at every position of its outputs."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from lightspec_bench import __version__
from lightspec_bench.core import BenchError, TraceInfo
from lightspec_bench.measured import json_object
from lightspec_bench.progress import Report
from lightspec_bench.recording_prompts import PromptChoice, Prompts, read_prompts
from lightspec_bench.recording_work import Recording, Source, Store, record_requests
from lightspec_bench.runners.torch_targets import title
from lightspec_bench.traces.format import write_trace

if TYPE_CHECKING:
    from lightspec_bench.runners.torch_source import TorchSource
    from lightspec_bench.runners.vllm_source import VllmSource

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
    batch: int = 64
    outputs: Path | None = None
    resume: bool = False
    licence: str | None = None
    runner: str = "torch"
    engine: str | None = None
    graph_sizes: str | None = None
    confidences: bool = True

    def __post_init__(self) -> None:
        for name in ("max_tokens", "batch", "max_draft_tokens"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise BenchError(f"{name} is {value}, expected at least 1")


def record(job: RecordJob, report: Report) -> tuple[Recording, Prompts]:
    """Record the trace of a job and write it to `job.out`, validated. Raises `BenchError` for whatever is wrong."""
    source, prompts = (_vllm_source if job.runner == "vllm" else _torch_source)(job)
    store = Store(job.out, job.outputs, job.resume, {"target": job.target, "drafter": job.drafter})
    info = _info(job, source, prompts)
    with closing(source):
        found = record_requests(source, prompts.requests, job.max_tokens, job.batch, info, store, report)
        if not job.confidences:
            found = replace(found, trace=replace(found.trace, confidence=None, entropy=None))
    write_trace(found.trace, job.out)
    store.remove()
    return found, prompts


def _torch_source(job: RecordJob) -> tuple[TorchSource, Prompts]:
    from lightspec_bench.runners.torch_drafters import make_drafter
    from lightspec_bench.runners.torch_model import load_tokenizer, stop_tokens
    from lightspec_bench.runners.torch_source import TorchSource
    from lightspec_bench.runners.torch_targets import load_target, target_place

    target = load_target(job.target, job.dtype, job.device, job.graph_sizes)
    drafter = make_drafter(job.drafter, target, job.max_draft_tokens)
    prompts = read_prompts(job.prompts, load_tokenizer(target_place(job.target)), target.max_positions)
    return TorchSource(target, drafter, stop_tokens(target)), prompts


def _vllm_source(job: RecordJob) -> tuple[VllmSource, Prompts]:
    from lightspec_bench.runners.vllm_bench import VllmBench, VllmSettings, load_tokenizer
    from lightspec_bench.runners.vllm_source import VllmSource

    settings = VllmSettings(
        target=job.target,
        drafter=job.drafter,
        max_draft_tokens=job.max_draft_tokens,
        dtype=job.dtype,
        device=job.device,
        max_num_seqs=job.batch,
        max_tokens=job.max_tokens,
        engine=json_object(job.engine, "engine arguments") if job.engine else {},
    )
    prompts = read_prompts(job.prompts, load_tokenizer(settings), settings.max_positions)
    longest = max(len(request.token_ids) for request in prompts.requests)
    bench = VllmBench(settings, longest)
    bench.engine(drafts=True)  # its start is no part of the recording's seconds
    return VllmSource(bench), prompts


def _info(job: RecordJob, source: Source, prompts: Prompts) -> TraceInfo:
    counts = ", ".join(f"{name} {count}" for name, count in Counter(p.category for p in prompts.requests).items())
    template = "chat template" if job.prompts.chat_template else "no chat template"
    return TraceInfo(
        name=job.out.name.removesuffix(".parquet"),
        target=title(job.target),
        drafter=source.drafter_name,
        drafter_kind=source.drafter.kind,
        max_draft_tokens=source.drafter.max_draft_tokens,
        dataset=f"{counts}: up to {job.max_tokens} output tokens each",
        sampling=f"greedy, {template}",
        indexing="position",
        origin="recorded",
        made_by=f"lightspec-bench {__version__} record on {date.today()}, {source.device}, {job.dtype}, "
        f"{source.engine}: the target's own output, a draft made at every position of it",
        licence=job.licence or f"counts and probabilities only; prompts: {prompts.licences}",
    )
