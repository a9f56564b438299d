"""What the vLLM plug-in supports: methods, parallelism and versions, and the attributes of vLLM it stands on."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lightspec_bench.core import BenchError, Drafter, DrafterKind, Planner
from lightspec_bench.runners.vllm_options import PluginOptions

logger = logging.getLogger("vllm.lightspec_bench")

TESTED = ("0.32",)  # minor versions that the tests run on


@dataclass(frozen=True, slots=True)
class Method:
    """What drafting costs like, whether the drafter's confidences can be had, and whether it only drafts one depth."""

    kind: DrafterKind
    confidences: bool
    fixed_depth: bool


METHODS = {
    "ngram": Method("ngram", confidences=False, fixed_depth=False),
    "suffix": Method("ngram", confidences=False, fixed_depth=True),
    "draft_model": Method("autoregressive", confidences=True, fixed_depth=False),
    "eagle": Method("autoregressive", confidences=True, fixed_depth=False),
    "eagle3": Method("autoregressive", confidences=True, fixed_depth=False),
    "mtp": Method("autoregressive", confidences=True, fixed_depth=False),
    "dflash": Method("parallel", confidences=True, fixed_depth=False),
    "medusa": Method("parallel", confidences=False, fixed_depth=True),
    "custom_class": Method("ngram", confidences=False, fixed_depth=True),
}
# What `vllm.v1.core.sched.scheduler` has, before and after a request is scheduled.
SCHEDULER = (
    "running", "requests", "waiting", "num_spec_tokens", "dynamic_sd_lookup", "max_num_scheduled_tokens",
    "max_num_running_reqs", "schedule", "update_from_output", "add_request", "make_stats", "get_request_counts",
    "shutdown", "_free_request",
)  # fmt: skip
REQUEST = (
    "request_id", "spec_token_ids", "is_prefill_chunk", "num_computed_tokens", "num_prompt_tokens", "num_tokens",
    "num_output_tokens", "num_output_placeholders", "max_tokens",
)  # fmt: skip
SCHEDULER_OUTPUT = (
    "num_scheduled_tokens", "scheduled_spec_decode_tokens", "total_num_scheduled_tokens", "num_spec_tokens_to_schedule",
)  # fmt: skip


def check_configuration(vllm_config: Any, options: PluginOptions) -> None:
    """Raise `BenchError`, one sentence, for a configuration that a planner cannot run in."""
    parallel, speculative = vllm_config.parallel_config, vllm_config.speculative_config
    if parallel.pipeline_parallel_size > 1:
        raise BenchError(
            f"lightspec: pipeline_parallel_size is {parallel.pipeline_parallel_size}, expected 1, since several steps "
            "are then under way and a plan would know none of their outcomes"
        )
    if parallel.data_parallel_size > 1 and options.depth == "planned" and speculative is not None:
        raise BenchError(
            f"lightspec: data_parallel_size is {parallel.data_parallel_size} and ranks must agree on a depth, which "
            'vLLM lets no scheduler settle; expected {"depth": "fixed"} in the lightspec options, which drafts '
            "num_speculative_tokens on every rank and lets each plan what it verifies"
        )
    if getattr(vllm_config.model_config, "is_diffusion", False):
        raise BenchError("lightspec: the model is a diffusion model, expected one that decodes token by token")
    if speculative is not None:
        method_of(speculative)


def method_of(speculative_config: Any) -> Method:
    """What we know of the configured method. Raises `BenchError` for one we do not support."""
    name = speculative_config.method
    if name not in METHODS:
        raise BenchError(
            f"lightspec: speculative method {name!r} is not supported, expected one of {', '.join(METHODS)}"
        )
    return METHODS[name]


def drafter_of(vllm_config: Any, options: PluginOptions) -> Drafter:
    """The drafter as planners are told of it; without speculation one token that is never drafted."""
    speculative = vllm_config.speculative_config
    if speculative is None:
        return Drafter("ngram", 1)
    kind = method_of(speculative).kind
    if getattr(speculative, "parallel_drafting", False):
        kind = "parallel"
    return Drafter(options.drafter_kind or kind, vllm_config.num_speculative_tokens)


def check_planner_fits(planner: Planner, name: str, speculates: bool, shows: frozenset[str]) -> None:
    """Raise `BenchError` for a planner that needs a drafter, or a signal of it, which this engine does not have."""
    if planner.uses_drafter and not speculates:
        raise BenchError(f"planner {name} uses a drafter, expected a speculative_config")
    for needed in sorted(planner.requires - shows):
        raise BenchError(f"planner {name} needs {needed}, which this engine's drafter does not show")


def check_version(version: str) -> None:
    """Warn of a vLLM that the plug-in was not tested with."""
    found = re.match(r"\d+\.\d+", version)
    if found is None or found[0] not in TESTED:
        logger.warning("lightspec: vLLM is %s, tested with %s", version, ", ".join(TESTED))


def check_attributes(what: str, thing: object, names: Iterable[str], version: str) -> None:
    """Raise `BenchError` unless vLLM has what we stand on."""
    for name in names:
        if not hasattr(thing, name):
            raise BenchError(
                f"lightspec: vLLM {version} has no {what}.{name}, which the scheduler stands on, expected vLLM "
                f"{' or '.join(TESTED)}"
            )
