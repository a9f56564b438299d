"""Export: what is written for each engine, read back as the planner it came from, which then plans the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.core import BenchError, EngineConfig
from lightspec_bench.planners.schedule import Schedule
from lightspec_bench.registry import make_planner
from lightspec_bench.reports import export_sglang, export_tensorrt_llm
from lightspec_bench.reports.export import ENGINES, export, read_export
from lightspec_bench.reports.export_text import Deployment, spec_of
from tests.planners.support import batch, engine

RANGES = [[1, 15, 3], [16, 63, 1], [64, 256, 0]]
OLD, NEW = Deployment(version="1.2.0"), Deployment(version="1.3.0")
VLLM = Deployment()
ADAPTIVE = "depth-limit:k=3,planner=(vllm-adaptive-verification:scores=estimator)"
TIERS = "sglang-ema:tiers={1:{candidate_steps:[3]},16:{candidate_steps:[1]},64:{candidate_steps:[0]}},num_steps=3"


@pytest.mark.parametrize(
    ("name", "spec", "deployment", "text"),
    [
        ("vllm", "none", VLLM, ""),
        ("vllm", "static:k=3", VLLM, '{"num_speculative_tokens": 3}'),
        (
            "vllm",
            "schedule:ranges=[[1,15,3],[16,63,1],[64,256,0]]",
            Deployment(method="eagle3", model="head"),
            '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3, '
            '"num_speculative_tokens_per_batch_size": [[1, 15, 3], [16, 63, 1], [64, 256, 0]]}',
        ),
        ("vllm", ADAPTIVE, VLLM, '{"num_speculative_tokens": 3, "enable_adaptive_verification": true}'),
        (
            "sglang",
            "static:k=3",
            VLLM,
            "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
        ),
        (
            "sglang",
            TIERS,
            VLLM,
            '{\n "1": {\n  "candidate_steps": [\n   3\n  ]\n },\n "16": {\n  "candidate_steps": [\n   1\n  ]\n },\n'
            ' "64": {\n  "candidate_steps": [\n   0\n  ]\n }\n}',
        ),
        ("tensorrt-llm", "static:k=2", OLD, "speculative_config:\n  max_draft_len: 2"),
        (
            "tensorrt-llm",
            "trtllm-schedule:meaning=lower,draft_len_schedule={1:3,16:1,64:0}",
            Deployment(version="1.2", method="Eagle"),
            "speculative_config:\n  decoding_type: Eagle\n  max_draft_len: 3\n  draft_len_schedule:\n"
            "    1: 3\n    16: 1\n    64: 0",
        ),
        (
            "tensorrt-llm",
            "trtllm-schedule:meaning=upper,draft_len_schedule={15:3,63:1}",
            NEW,
            "speculative_config:\n  max_draft_len: 3\n  draft_len_schedule:\n    15: 3\n    63: 1",
        ),
        (
            "tensorrt-llm",
            "trtllm-gate:form=new,window=100,threshold=0.2,k=3",
            NEW,
            "speculative_config:\n  max_draft_len: 3\n  acceptance_rate_window_size: 100\n"
            "  acceptance_rate_threshold: 0.2",
        ),
        ("lightllm", "static:k=3", VLLM, "--mtp_step 3"),
        (
            "lightllm",
            "depth-limit:k=5,planner=(lightspec-reference)",
            Deployment(method="eagle3", model="head"),
            "--mtp_mode eagle3 --mtp_step 5 --mtp_draft_model_dir head --mtp_dynamic_verify",
        ),
        ("lightllm", "depth-limit:k=7,planner=(dspark)", VLLM, "--mtp_mode dspark --mtp_step 7 --mtp_dynamic_verify"),
        (
            "hf",
            "static:k=4",
            VLLM,
            "assistant.generation_config.num_assistant_tokens = 4\n"
            "assistant.generation_config.num_assistant_tokens_schedule = 'constant'\n"
            "assistant.generation_config.assistant_confidence_threshold = 0.0",
        ),
        ("hf", "static:k=4", Deployment("ngram"), "prompt_lookup_num_tokens = 4"),
        (
            "hf",
            "hf-heuristic:num_assistant_tokens=5,schedule=heuristic_transient",
            VLLM,
            "assistant.generation_config.num_assistant_tokens = 5\n"
            "assistant.generation_config.num_assistant_tokens_schedule = 'heuristic_transient'\n"
            "assistant.generation_config.assistant_confidence_threshold = 0.0",
        ),
        (
            "hf",
            "hf-confidence:threshold=0.4,k=20",
            VLLM,
            "assistant.generation_config.num_assistant_tokens = 20\n"
            "assistant.generation_config.num_assistant_tokens_schedule = 'constant'\n"
            "assistant.generation_config.assistant_confidence_threshold = 0.4",
        ),
        (
            "llama.cpp",
            "static:k=4",
            VLLM,
            "--spec-draft-n-max 4 --spec-draft-n-min 0 --spec-draft-p-min 0.0",
        ),
        (
            "llama.cpp",
            "llamacpp:version=v2025,n_max=8,n_min=0,p_min=0.75",
            Deployment(version="2025"),
            "--draft-max 8 --draft-min 0 --draft-p-min 0.75",
        ),
    ],
)
def test_what_is_written_and_read_back(name: str, spec: str, deployment: Deployment, text: str) -> None:
    assert export(name, spec, deployment).text == text
    assert read_export(name, text, deployment) == spec


def depths(spec: str, most: int = 256) -> list[int]:
    """What a planner drafts for 1 to `most` requests, its first steps."""
    config = plain(8)
    return [int(np.max(make_planner(spec, config).plan(batch([0] * n)).num_draft_tokens)) for n in range(1, most + 1)]


def plain(depth: int) -> EngineConfig:
    """An engine that captures every batch size."""
    return engine(depth, latency=None)


schedules = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 8)), min_size=1, max_size=5).map(
    lambda steps: [
        [1 + sum(size for size, _ in steps[:i]), sum(size for size, _ in steps[: i + 1]), k]
        for i, (_, k) in enumerate(steps)
    ]
)


@given(schedules)
@settings(max_examples=40, deadline=None)
def test_a_schedule_survives_every_engine_that_has_one(ranges: list[list[int]]) -> None:
    most = ranges[-1][1]
    found = Schedule(plain(8), ranges=ranges).table[1 : most + 1].tolist()
    if max(found) > 0:
        vllm = read_export("vllm", export("vllm", spec_of("schedule", ranges=ranges), VLLM).text, VLLM)
        assert depths(vllm, most) == found
        sglang = read_export("sglang", export("sglang", export_sglang.schedule_spec(ranges), VLLM).text, VLLM)
        assert depths(sglang + ",cuda_graph_bs=[]", most) == found
    for deployment, meaning in ((OLD, "lower"), (NEW, "upper")):
        spec = export_tensorrt_llm.schedule_spec(ranges, meaning)
        if spec is None:
            assert found[0] == 0
            continue
        read = read_export("tensorrt-llm", export("tensorrt-llm", spec, deployment).text, deployment)
        assert depths(read, most) == [min(k, found[0]) for k in found]


def test_the_two_meanings_are_two_texts() -> None:
    assert export_tensorrt_llm.schedule_spec(RANGES, "lower") != export_tensorrt_llm.schedule_spec(RANGES, "upper")
    lower = export_tensorrt_llm.schedule_spec(RANGES, "lower")
    assert lower is not None
    with pytest.raises(BenchError, match="has no configuration there"):
        export("tensorrt-llm", lower, NEW)


def test_the_flags_of_a_schedule_start_where_sglang_allows_it() -> None:
    made = export("sglang", TIERS, Deployment(method="EAGLE3", model="head"))
    assert made.usage.endswith(
        "--speculative-algorithm EAGLE3 --speculative-draft-model-path head --speculative-adaptive "
        "--speculative-adaptive-config FILE --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4"
    )
    assert read_export("sglang", '{"1": [1, 3, 5], "8": [0]}', VLLM) == export_sglang.tiers_spec(
        {1: {"candidate_steps": [1, 3, 5]}, 8: {"candidate_steps": [0]}}
    )


@pytest.mark.parametrize("name", ENGINES)
def test_no_speculation_is_nothing_to_set(name: str) -> None:
    made = export(name, "none", OLD if name == "tensorrt-llm" else VLLM)
    assert made.text == ""
    assert "without" in made.usage
    assert read_export(name, "", OLD if name == "tensorrt-llm" else VLLM) == "none"


@pytest.mark.parametrize(
    ("name", "spec", "deployment", "message"),
    [
        ("vlm", "none", VLLM, "unknown engine 'vlm', did you mean 'vllm'?"),
        ("vllm", "static:k=0", VLLM, "vllm: planner static:k=0 has no configuration there"),
        ("vllm", "lightspec", VLLM, "vllm: planner lightspec has no configuration there"),
        ("hf", "hf-confidence:threshold=0.4,k=20", Deployment("ngram"), "hf: planner hf-confidence.* has no config"),
        ("tensorrt-llm", "static:k=3", VLLM, "--engine-version is missing, expected one such as 1.2.0 or 1.3.0"),
        ("tensorrt-llm", "static:k=3", Deployment(version="1.3.0rc5"), "candidates of 1.3 read .* in either way"),
        ("tensorrt-llm", "static:k=3", Deployment(version="new"), "--engine-version is 'new', expected a version"),
        ("llama.cpp", "static:k=3", Deployment(version="b7000"), "expected the year of llama.cpp: 2024, 2025, 2026"),
        ("llama.cpp", "static:k=3", Deployment("ngram"), "n-gram drafters have flags of their own"),
    ],
)
def test_what_cannot_be_written(name: str, spec: str, deployment: Deployment, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        export(name, spec, deployment)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("vllm", "{", "vllm: is not JSON"),
        ("vllm", "[3]", r"vllm: is \[3\], expected keys and values"),
        ("vllm", '{"method": "mtp"}', "vllm: num_speculative_tokens is None, expected a whole number"),
        ("sglang", "-k 3", "sglang: '-k' belongs to no flag, expected --name value"),
        ("sglang", '{"ema_alpha": 0.2}', "sglang: is no adaptive configuration keyed by batch size"),
        ("tensorrt-llm", "max_draft_len: 3", "expected a key speculative_config with keys of its own"),
        ("tensorrt-llm", "a: [", "tensorrt-llm: is not YAML"),
        (
            "tensorrt-llm",
            "speculative_config: {draft_len_schedule: 3}",
            "draft_len_schedule is 3, expected batch sizes",
        ),
        (
            "vllm",
            '{"num_speculative_tokens": 3, "num_speculative_tokens_per_batch_size": [[1, 3]]}',
            r"is \[\[1, 3\]\], expected \[lo, hi, K\] entries",
        ),
        ("lightllm", "--mtp_step", "lightllm: --mtp_step is '', expected a whole number"),
        ("hf", "print(3)", r"hf: 'print\(3\)' assigns nothing, expected lines NAME = VALUE"),
        ("hf", "a.num_assistant_tokens = f()", "hf: cannot be read"),
    ],
)
def test_what_cannot_be_read(name: str, text: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        read_export(name, text, OLD)


def test_options_left_out_have_the_engine_s_defaults() -> None:
    read: Any = read_export("llama.cpp", "--spec-draft-n-max 6", VLLM)
    assert read == "llamacpp:version=v2026,n_max=6"
    assert read_export(
        "vllm", '{"num_speculative_tokens": 2, "num_speculative_tokens_per_batch_size": [[1, 9, 5]]}', VLLM
    ) == ("schedule:ranges=[[1,9,2]]")
