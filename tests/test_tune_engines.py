"""What each engine can be set to; every option is one that the engine's exporter writes and reads, and that runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lightspec_bench.core import BenchError, DrafterKind
from lightspec_bench.registry import make_planner
from lightspec_bench.reports.export import ENGINES, export, read_export
from lightspec_bench.reports.export_text import Deployment
from lightspec_bench.tune_engines import Default, Drafting, adaptive_of, check_drafter, default_of, schedule_of
from tests.support import config_for, random_trace

RANGES = [[1, 15, 3], [16, 63, 1], [64, 256, 0]]
VERSIONS: dict[str, list[str | None]] = {
    "vllm": [None, "0.32.0"], "sglang": [None], "tensorrt-llm": ["1.2.0", "1.3.0"], "lightllm": [None],
    "hf": [None], "llama.cpp": ["2024", "2025", None],
}  # fmt: skip
KINDS: tuple[DrafterKind, ...] = ("autoregressive", "parallel", "ngram")


def drafting(kind: DrafterKind = "autoregressive", confidences: bool = True, depth: int = 8) -> Drafting:
    return Drafting(random_trace(1, kind=kind, max_draft_tokens=depth).info, confidences)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "version"), [(name, v) for name in ENGINES for v in VERSIONS[name]])
def test_every_option_is_written_read_and_built(name: str, version: str | None, kind: DrafterKind) -> None:
    drafter = drafting(kind)
    deployment = Deployment(kind, version)
    try:
        check_drafter(name, drafter)
    except BenchError:
        assert kind == "ngram"
        return
    trace = random_trace(1, kind=kind, max_draft_tokens=8)
    schedule = schedule_of(name, RANGES, deployment, drafter)
    options = adaptive_of(name, RANGES, deployment, drafter)
    for spec in [*([schedule] if schedule else []), *options]:
        made = export(name, spec, deployment)
        assert read_export(name, made.text, deployment) == spec
        make_planner(spec, config_for(trace, 256))
    make_planner(default_of(name, deployment, drafter).planner, config_for(trace, 256))
    assert len(set(options)) == len(options)


@pytest.mark.parametrize(
    ("name", "deployment", "schedule"),
    [
        ("vllm", Deployment(), "schedule:ranges=[[1,15,3],[16,63,1],[64,256,0]]"),
        ("vllm", Deployment(version="0.11.0"), None),
        (
            "sglang",
            Deployment(),
            "sglang-ema:tiers={1:{candidate_steps:[3]},16:{candidate_steps:[1]},64:{candidate_steps:[0]}},num_steps=3",
        ),
        (
            "tensorrt-llm",
            Deployment(version="1.2.0"),
            "trtllm-schedule:meaning=lower,draft_len_schedule={1:3,16:1,64:0}",
        ),
        ("tensorrt-llm", Deployment(version="1.3.0"), "trtllm-schedule:meaning=upper,draft_len_schedule={15:3,63:1}"),
        ("lightllm", Deployment(), None),
        ("hf", Deployment(), None),
        ("llama.cpp", Deployment(), None),
    ],
)
def test_the_schedule_in_each_engine_s_planner(name: str, deployment: Deployment, schedule: str | None) -> None:
    assert schedule_of(name, RANGES, deployment, drafting()) == schedule
    assert schedule_of(name, RANGES[:1], deployment, drafting()) is None  # one K is no schedule


@pytest.mark.parametrize(
    ("name", "deployment", "drafter", "planner"),
    [
        ("vllm", Deployment(), drafting(), "static:k=3"),
        ("vllm", Deployment(), drafting(depth=2), "static:k=2"),
        ("hf", Deployment(), drafting(), "hf-confidence:threshold=0.4,k=20"),
        ("hf", Deployment(), drafting(confidences=False), "static:k=8"),
        ("hf", Deployment(version="4.40"), drafting(), "hf-heuristic"),
        ("hf", Deployment(), drafting("ngram"), "static:k=8"),
        ("llama.cpp", Deployment(), drafting(), "static:k=3"),
        ("llama.cpp", Deployment(version="2025"), drafting(), "llamacpp:version=v2025"),
        ("llama.cpp", Deployment(version="2025"), drafting(confidences=False), "static:k=8"),
    ],
)
def test_defaults(name: str, deployment: Deployment, drafter: Drafting, planner: str) -> None:
    default = default_of(name, deployment, drafter)
    assert isinstance(default, Default)
    assert default.planner == planner


def test_options_stay_around_what_was_found_and_within_the_drafter() -> None:
    assert adaptive_of("vllm", RANGES, Deployment(), drafting(depth=4)) == [
        f"depth-limit:k={k},planner=(vllm-adaptive-verification:scores=estimator)" for k in (1, 3, 4)
    ]
    assert adaptive_of("vllm", RANGES, Deployment("parallel"), drafting("parallel")) == [
        "depth-limit:k=8,planner=(vllm-adaptive-verification:scores=confidence)"
    ]
    assert adaptive_of("vllm", RANGES, Deployment(), drafting(confidences=False)) == []
    assert adaptive_of("lightllm", RANGES, Deployment(method="dspark"), drafting(confidences=False)) == []
    first, *around = adaptive_of("sglang", RANGES, Deployment(), drafting(depth=3))
    assert first.startswith("sglang-ema:tiers={1:{candidate_steps:[1,3],up_hysteresis:0.0,down_hysteresis:-0.25,")
    assert around[0].startswith("sglang-ema:tiers={1:{candidate_steps:[2,3],up_hysteresis:0.0,")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lightllm", "lightllm: has no n-gram drafter, expected a trace of a draft model or head, not hand"),
        ("llama.cpp", "llama.cpp: has flags of its own for n-gram drafters"),
    ],
)
def test_drafters_that_an_engine_is_not_tuned_for(name: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        check_drafter(name, replace(drafting("ngram")))
