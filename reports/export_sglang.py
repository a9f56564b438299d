"""Export to SGLang: flags for a fixed number of draft steps, or the JSON of adaptive speculation keyed by batch size.

Source: SGLang `speculative/adaptive_spec_params.py` at 015c8726 and its documentation. A schedule is tiers of a single
candidate each: a tier holds from its key up, and `--speculative-num-steps` has to be among the candidates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.registry import parse_spec
from lightspec_bench.reports.export_text import Deployment, Export, flags_of, number_of, spec_of, unknown

ENGINE = "sglang"
STEPS, TOPK, ROWS = "--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens"
_NOTES = (
    "SGLang has adaptive speculation for EAGLE and EAGLE3 with topk 1 only, and otherwise falls back to fixed steps.",
    "Builds before 015c8726 know one list of candidates for all batch sizes, and no 0.",
)


def schedule_spec(ranges: Sequence[Sequence[int]]) -> str:
    """A schedule of [lo, hi, K] as tiers of one candidate each."""
    return tiers_spec({lo: {"candidate_steps": [k]} for lo, _, k in ranges})


def tiers_spec(tiers: Mapping[Any, Mapping[str, Any]]) -> str:
    """Adaptive speculation with these tiers, starting where `first_steps` says."""
    return spec_of("sglang-ema", tiers=tiers, num_steps=first_steps(tiers))


def first_steps(tiers: Mapping[Any, Mapping[str, Any]]) -> int:
    """The middle candidate of the first tier that drafts: one that SGLang accepts as its number of steps."""
    middles = [tier["candidate_steps"][len(tier["candidate_steps"]) // 2] for tier in tiers.values()]
    return int(next((steps for steps in middles if steps > 0), 0))


def write(spec: str, deployment: Deployment) -> Export:
    """Flags of a static K, or the JSON of tiers. Raises `BenchError` for any other planner."""
    name, options = parse_spec(spec)
    if name == "none":
        return Export("", "Start SGLang without --speculative-algorithm.")
    who = [("--speculative-algorithm", deployment.method), ("--speculative-draft-model-path", deployment.model)]
    own = "".join(f"{flag} {value} " for flag, value in who if value is not None)
    if name == "static" and options.get("k", 0) > 0:
        text = f"{own}{STEPS} {options['k']} {TOPK} 1 {ROWS} {options['k'] + 1}"
        return Export(text, f"python -m sglang.launch_server --model-path MODEL {text}")
    if name != "sglang-ema" or first_steps(options["tiers"]) == 0:
        raise unknown(ENGINE, spec)
    steps = options["num_steps"]
    flags = (
        f"{own}--speculative-adaptive --speculative-adaptive-config FILE {STEPS} {steps} {TOPK} 1 {ROWS} {steps + 1}"
    )
    text = json.dumps({str(size): tier for size, tier in options["tiers"].items()}, indent=1)
    return Export(text, f"python -m sglang.launch_server --model-path MODEL {flags}", _NOTES)


def read(text: str, deployment: Deployment) -> str:
    """The planner that flags, or the JSON of an adaptive configuration, stand for."""
    if not text.strip():
        return "none"
    if not text.lstrip().startswith("{"):
        return spec_of("static", k=number_of(ENGINE, flags_of(ENGINE, text), STEPS))
    try:
        tiers = {int(size): tier for size, tier in json.loads(text).items()}
        shown = {size: tier if isinstance(tier, dict) else {"candidate_steps": tier} for size, tier in tiers.items()}
        return tiers_spec(dict(sorted(shown.items())))
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{ENGINE}: is no adaptive configuration keyed by batch size: {error!r}") from error
