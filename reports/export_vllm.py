"""Export to vLLM: `--speculative-config` JSON, with a batch-size schedule or adaptive verification.

Source: vLLM 0.32, `config/speculative.py` and `v1/spec_decode/dynamic/utils.py`: ranges are inclusive, sorted, must not
overlap and start at 1; `num_speculative_tokens` has to be above 0 and caps every entry.
"""

from __future__ import annotations

import json
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.registry import parse_spec
from lightspec_bench.reports.export_text import Deployment, Export, number_of, spec_of, unknown

ENGINE = "vllm"
RANGES, ADAPTIVE = "num_speculative_tokens_per_batch_size", "enable_adaptive_verification"
SINCE = (0, 32)  # the version in which both were read; what older ones have was not checked
_SCHEDULE_NOTES = (
    "vLLM ignores the schedule with data parallelism, and on the V1 runner it lowers full CUDA graphs to piecewise.",
    "vLLM counts requests that are being prefilled as part of the batch size.",
    "Suffix decoding and medusa do not take a K that changes.",
)
_ADAPTIVE_NOTES = (
    "Adaptive verification needs vLLM's V2 GPU runner and full CUDA graphs; no LoRA, no pipeline parallelism.",
    "vLLM documents it for dspark only; in 0.32 other drafters take its online acceptance estimator.",
)


def adaptive_spec(k: int, scores: str) -> str:
    """Adaptive verification of `k` draft tokens; `scores` as the planner `vllm-adaptive-verification` has them."""
    return spec_of("depth-limit", k=k, planner=spec_of("vllm-adaptive-verification", scores=scores))


def write(spec: str, deployment: Deployment) -> Export:
    """The JSON for a static K, a schedule or adaptive verification. Raises `BenchError` for any other planner."""
    name, options = parse_spec(spec)
    if name == "none":
        return Export("", "Start vLLM without --speculative-config.")
    notes: tuple[str, ...] = ()
    found: dict[str, Any]
    if name == "static" and options.get("k", 0) > 0:
        found = {"num_speculative_tokens": options["k"]}
    elif name == "schedule" and max(entry[2] for entry in options["ranges"]) > 0:
        found = {"num_speculative_tokens": max(entry[2] for entry in options["ranges"]), RANGES: options["ranges"]}
        notes = _SCHEDULE_NOTES
    elif name == "depth-limit" and parse_spec(options["planner"])[0] == "vllm-adaptive-verification":
        found, notes = {"num_speculative_tokens": options["k"], ADAPTIVE: True}, _ADAPTIVE_NOTES
    else:
        raise unknown(ENGINE, spec)
    own = {"method": deployment.method, "model": deployment.model}
    text = json.dumps({key: value for key, value in own.items() if value is not None} | found)
    if deployment.method is None and deployment.model is None:
        notes = ("Add these keys to those of your drafter: method and model.", *notes)
    return Export(text, f"vllm serve MODEL --speculative-config '{text}'", notes)


def read(text: str, deployment: Deployment) -> str:
    """The planner that a `--speculative-config` configures. Raises `BenchError` for what is no such JSON."""
    if not text.strip():
        return "none"
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise BenchError(f"{ENGINE}: is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BenchError(f"{ENGINE}: is {found!r}, expected keys and values")
    k = number_of(ENGINE, found, "num_speculative_tokens")
    if found.get(ADAPTIVE):
        return adaptive_spec(k, scores_of(deployment))
    if found.get(RANGES) is None:
        return spec_of("static", k=k)
    try:
        return spec_of("schedule", ranges=[[lo, hi, min(k, depth)] for lo, hi, depth in found[RANGES]])
    except (TypeError, ValueError) as error:
        raise BenchError(f"{ENGINE}: {RANGES} is {found[RANGES]!r}, expected [lo, hi, K] entries") from error


def scores_of(deployment: Deployment) -> str:
    """Where adaptive verification takes its survivals from: dspark's confidence head, else the online estimator."""
    return "confidence" if deployment.drafter_kind == "parallel" else "estimator"
