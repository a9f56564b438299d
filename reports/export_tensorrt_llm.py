"""Export to TensorRT-LLM: `speculative_config` YAML, its draft_len_schedule in the meaning of a version.

Source: TensorRT-LLM `llmapi/llm_args.py`, #8194 (keys are the smallest batch sizes; up to 1.2), #10860 (keys are the
largest ones, nothing is drafted above the last; merged in March 2026, so in 1.3), #12905 (the gate's new form).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.registry import parse_spec
from lightspec_bench.reports.export_text import Deployment, Export, number_of, spec_of, unknown, version_numbers

ENGINE = "tensorrt-llm"
NEW = (1, 3)
GATES = {
    "old": ("acceptance_window", "acceptance_length_threshold"),
    "new": ("acceptance_rate_window_size", "acceptance_rate_threshold"),
}
_NOTES = {
    "lower": "Keys are the smallest batch sizes of each length (TensorRT-LLM up to 1.2): do not use it with 1.3.",
    "upper": "Keys are the largest batch sizes of each length (TensorRT-LLM 1.3): above the last, nothing is drafted.",
}
_STALE = "At length 0 a one-model drafter's KV cache goes stale, and acceptance falls after drafting resumes (#16888)."


def meaning_of(version: str | None) -> str:
    """How a version reads the keys of draft_len_schedule, "lower" or "upper". Raises `BenchError` without a version."""
    if version is None:
        raise BenchError(
            "tensorrt-llm: --engine-version is missing, expected one such as 1.2.0 or 1.3.0: versions up to 1.2 read "
            "the keys of draft_len_schedule as the smallest batch sizes, 1.3 as the largest"
        )
    numbers = version_numbers(ENGINE, version)
    if numbers[:2] == NEW and "rc" in version:
        raise BenchError(
            f"--engine-version is {version!r}, and candidates of 1.3 read draft_len_schedule in either way, expected "
            "1.2 (keys are the smallest batch sizes) or 1.3 (the largest), as its llm_args.py says"
        )
    return "upper" if numbers[:2] >= NEW else "lower"


def schedule_spec(ranges: Sequence[Sequence[int]], meaning: str) -> str | None:
    """A schedule of [lo, hi, K] in a version's meaning, no K above the first one, which is max_draft_len; None where
    that leaves nothing to draft."""
    most = ranges[0][2]
    lengths: dict[int, int] = {}
    for lo, hi, k in ranges:
        k = min(k, most)
        if meaning == "lower":
            if not lengths or list(lengths.values())[-1] != k:
                lengths[lo] = k
            continue
        if lengths and list(lengths.values())[-1] == k:
            lengths.pop(list(lengths)[-1])
        lengths[hi] = k
    if meaning == "upper" and len(lengths) > 1 and list(lengths.values())[-1] == 0:
        lengths.pop(list(lengths)[-1])  # what is above the last key is off anyhow
    return spec_of("trtllm-schedule", meaning=meaning, draft_len_schedule=lengths) if most else None


def write(spec: str, deployment: Deployment) -> Export:
    """The YAML of a static K, a schedule or a gate. Raises `BenchError` without a version, or for another planner."""
    meaning = meaning_of(deployment.version)
    name, options = parse_spec(spec)
    if name == "none":
        return Export("", "Start TensorRT-LLM without speculative_config.")
    lines, notes = [], ["Merge it with the keys of your drafter: decoding_type and its model."]
    if deployment.method is not None:
        lines, notes = [f"decoding_type: {deployment.method}"], []
    if name == "static" and options.get("k", 0) > 0:
        lines.append(f"max_draft_len: {options['k']}")
    elif name == "trtllm-schedule" and options["meaning"] == meaning:
        lengths = options["draft_len_schedule"]
        lines += [f"max_draft_len: {max(lengths.values())}", "draft_len_schedule:"]
        lines += [f"  {size}: {length}" for size, length in lengths.items()]
        notes += [_NOTES[meaning], *([_STALE] if meaning == "upper" or 0 in lengths.values() else [])]
    elif name == "trtllm-gate" and options["form"] == _form(meaning):
        window, threshold = GATES[options["form"]]
        lines += [f"max_draft_len: {options['k']}", f"{window}: {options['window']}"]
        lines.append(f"{threshold}: {options['threshold']}")
        notes.append("The gate closes for good: speculation stays off until the engine is started again.")
    else:
        raise unknown(ENGINE, spec)
    text = "\n".join(["speculative_config:", *(f"  {line}" for line in lines)])
    return Export(text, "trtllm-serve MODEL --extra_llm_api_options FILE", tuple(notes))


def _form(meaning: str) -> str:
    return "old" if meaning == "lower" else "new"


def read(text: str, deployment: Deployment) -> str:
    """The planner that a `speculative_config` stands for under that version."""
    import yaml

    meaning = meaning_of(deployment.version)
    if not text.strip():
        return "none"
    try:
        found: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BenchError(f"{ENGINE}: is not YAML: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("speculative_config"), dict):
        raise BenchError(f"{ENGINE}: is {text!r}, expected a key speculative_config with keys of its own")
    found = found["speculative_config"]
    if "draft_len_schedule" in found:
        given = found["draft_len_schedule"]
        if not isinstance(given, dict):
            raise BenchError(f"{ENGINE}: draft_len_schedule is {given!r}, expected batch sizes and lengths")
        lengths = dict(sorted(given.items()))
        return spec_of("trtllm-schedule", meaning=meaning, draft_len_schedule=lengths)
    k, form = number_of(ENGINE, found, "max_draft_len"), _form(meaning)
    window, threshold = GATES[form]
    if window in found:
        return spec_of("trtllm-gate", form=form, window=found[window], threshold=found[threshold], k=k)
    return spec_of("static", k=k)
