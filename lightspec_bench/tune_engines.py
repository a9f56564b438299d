"""What each engine can be set to: its default, its form of a schedule, and its own adaptive options, as planners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightspec_bench.core import BenchError, TraceInfo
from lightspec_bench.planners.llamacpp import DEFAULTS
from lightspec_bench.planners.sglang_ema import DEFAULT_TIERS
from lightspec_bench.reports import (
    export_lightllm,
    export_llamacpp,
    export_sglang,
    export_tensorrt_llm,
    export_vllm,
)
from lightspec_bench.reports.export_text import Deployment, spec_of, version_numbers

Ranges = Sequence[Sequence[int]]  # [lo, hi, K], from 1 up, one after another


@dataclass(frozen=True, slots=True)
class Default:
    """What an engine does where its number of draft tokens is left alone; `words` say where that is from."""

    planner: str
    words: str


@dataclass(frozen=True, slots=True)
class Drafting:
    """What the traces' drafter is, as far as an engine's options depend on it."""

    info: TraceInfo
    has_confidence: bool

    @property
    def kind(self) -> str:
        return self.info.drafter_kind

    @property
    def most(self) -> int:
        return self.info.max_draft_tokens


def check_drafter(engine: str, drafting: Drafting) -> None:
    """Raise `BenchError` where the engine has no such drafter, or none that its options here are for."""
    if drafting.kind == "ngram" and engine in ("lightllm", "llama.cpp"):
        reason = "has no n-gram drafter" if engine == "lightllm" else "has flags of its own for n-gram drafters"
        raise BenchError(f"{engine}: {reason}, expected a trace of a draft model or head, not {drafting.info.name}")


def default_of(engine: str, deployment: Deployment, drafting: Drafting) -> Default:
    """The engine's default. Most have none, and are held against three draft tokens, as in their examples."""
    three = spec_of("static", k=min(3, drafting.most))
    if engine == "sglang":
        return Default(three, "what SGLang chooses for most MTP models, 3 steps with topk 1")
    if engine == "hf":
        return _hf_default(deployment, drafting)
    if engine == "llama.cpp":
        year = export_llamacpp.year_of(deployment.version)
        default = next(each for version, each in DEFAULTS.items() if version == f"v{year}")
        if default.p_min and drafting.has_confidence:
            return Default(spec_of("llamacpp", version=f"v{year}"), f"llama.cpp's defaults of {year}")
        return Default(spec_of("static", k=min(default.n_max, drafting.most)), f"llama.cpp's n_max of {year}")
    return Default(three, f"{engine} has no default number of draft tokens; 3 is what its examples have")


def _hf_default(deployment: Deployment, drafting: Drafting) -> Default:
    if drafting.kind == "ngram":
        k = min(10, drafting.most)
        return Default(spec_of("static", k=k), f"prompt lookup has no default; {k} as in transformers' examples")
    version = deployment.version
    if version is not None and version_numbers("transformers", version) < (4, 45):
        return Default("hf-heuristic", "transformers before 4.45: 5 tokens, heuristic")
    if not drafting.has_confidence:
        words = "transformers' 20 tokens; its confidence threshold is left out, the trace has no confidences"
        return Default(spec_of("static", k=min(20, drafting.most)), words)
    return Default(spec_of("hf-confidence", threshold=0.4, k=20), "transformers: 20 tokens, confidence threshold 0.4")


def schedule_of(engine: str, ranges: Ranges, deployment: Deployment, drafting: Drafting) -> str | None:
    """K by batch size as the engine's planner has it, None where it has no such option or nothing would be drafted."""
    if len(ranges) < 2:
        return None
    if engine == "vllm" and _vllm_knows(deployment):
        return spec_of("schedule", ranges=[list(entry) for entry in ranges])
    if engine == "sglang" and drafting.kind == "autoregressive":
        return export_sglang.schedule_spec(ranges)
    if engine == "tensorrt-llm":
        return export_tensorrt_llm.schedule_spec(ranges, export_tensorrt_llm.meaning_of(deployment.version))
    return None


def adaptive_of(engine: str, ranges: Ranges, deployment: Deployment, drafting: Drafting) -> list[str]:
    """The engine's own adaptive options worth trying around the schedule that was found."""
    best = sorted({k for _, _, k in ranges if k > 0}) or [1]
    around = sorted({min(k, drafting.most) for k in (*best, best[-1] + 1, best[-1] + 2)})
    if engine == "vllm" and drafting.has_confidence and _vllm_knows(deployment):
        scores = export_vllm.scores_of(deployment)
        depths = [drafting.most] if drafting.kind == "parallel" else around
        return [export_vllm.adaptive_spec(k, scores) for k in depths]
    if engine == "sglang" and drafting.kind == "autoregressive":
        return _sglang_tiers(ranges, drafting.most)
    if engine == "tensorrt-llm":
        return _gates(best[-1], deployment)
    if engine == "lightllm":
        dspark = deployment.method == "dspark"
        if dspark and not drafting.has_confidence:
            return []
        depths = [drafting.most] if drafting.kind == "parallel" else around
        planner = "dspark" if dspark else "lightspec-reference"
        return [export_lightllm.dynamic_spec(k, planner) for k in depths]
    if engine == "hf" and drafting.kind != "ngram":
        return _hf_options(best, drafting)
    if engine == "llama.cpp" and drafting.has_confidence:
        version = f"v{export_llamacpp.year_of(deployment.version)}"
        depths = sorted({*around, drafting.most})
        return [
            spec_of("llamacpp", version=version, n_max=k, n_min=0, p_min=p)
            for k in depths
            for p in (0.3, 0.5, 0.6, 0.75, 0.9)
        ]
    return []


def _vllm_knows(deployment: Deployment) -> bool:
    """Whether the version is one whose schedules and adaptive verification were read; the newest is meant by none."""
    version = deployment.version
    return version is None or version_numbers("vllm", version) >= export_vllm.SINCE


def _sglang_tiers(ranges: Ranges, most: int) -> list[str]:
    """SGLang's default tiers, and tiers of the K found with its neighbours, with and without SGLang's hysteresis."""
    near = {lo: sorted({max(k - 1, 0), k, min(k + 1, most)}) for lo, _, k in ranges}
    cut = {size: tier | {"candidate_steps": sorted({min(k, most) for k in tier["candidate_steps"]})}
           for size, tier in DEFAULT_TIERS.items()}  # fmt: skip
    return [
        export_sglang.tiers_spec({int(size): tier for size, tier in cut.items()}),
        *(
            export_sglang.tiers_spec(
                {size: {"candidate_steps": steps, "up_hysteresis": up, "down_hysteresis": down}
                 for size, steps in near.items()}
            )
            for up, down in ((0.0, -0.25), (0.25, -0.25))
        ),
    ]  # fmt: skip


def _gates(k: int, deployment: Deployment) -> list[str]:
    """TensorRT-LLM's gate at two thresholds: tokens accepted per iteration in the old form, a rate in the new."""
    old = export_tensorrt_llm.meaning_of(deployment.version) == "lower"
    form, thresholds = ("old", (0.3, 0.6)) if old else ("new", (0.2, 0.4))
    return [spec_of("trtllm-gate", form=form, window=100, threshold=value, k=k) for value in thresholds]


def _hf_options(best: Sequence[int], drafting: Drafting) -> list[str]:
    kinds = ("heuristic", "heuristic_transient")
    numbers = sorted({best[-1], min(5, drafting.most)})
    found = [spec_of("hf-heuristic", num_assistant_tokens=n, schedule=kind) for kind in kinds for n in numbers]
    if drafting.has_confidence:
        depths = sorted({best[-1], min(best[-1] + 2, drafting.most), drafting.most})
        found += [spec_of("hf-confidence", threshold=value, k=k) for k in depths for value in (0.2, 0.4, 0.6)]
    return found
