"""Stands where vLLM and its scheduler do, as far as the plug-in reads them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lightspec_bench.runners.vllm_control import Control
from lightspec_bench.runners.vllm_options import PluginOptions
from lightspec_bench.runners.vllm_prior import unmeasured
from lightspec_bench.runners.vllm_report import ATTRIBUTE, StepReport


def configuration(method: str | None = "draft_model", overlapped: bool = False, **changes: Any) -> Any:
    """As much of a vLLM configuration as the plug-in reads."""
    parallel = {"pipeline_parallel_size": 1, "data_parallel_size": 1, **changes}
    speculative = None
    if method is not None:
        speculative = SimpleNamespace(method=method, parallel_drafting=False, enable_adaptive_verification=False)
    return SimpleNamespace(
        additional_config={},
        parallel_config=SimpleNamespace(**parallel),
        speculative_config=speculative,
        model_config=SimpleNamespace(is_diffusion=False),
        scheduler_config=SimpleNamespace(async_scheduling=overlapped, max_num_seqs=4),
        num_speculative_tokens=3 if method is not None else 0,
    )


def request(name: str, drafts: int, outputs: int = 1, prompt: int = 10, **changes: Any) -> Any:
    fields = {
        "request_id": name, "spec_token_ids": [7] * drafts, "is_prefill_chunk": False, "num_computed_tokens": prompt,
        "num_prompt_tokens": prompt, "num_tokens": prompt + outputs, "num_output_tokens": outputs,
        "num_output_placeholders": 0, "max_tokens": 100,
    }  # fmt: skip
    return SimpleNamespace(**{**fields, **changes})


class Vllm:
    """Stands where vLLM's scheduler does: running requests, and steps that accept what they are told to."""

    def __init__(self, vllm_config: Any, *running: Any, depths: Any = None) -> None:
        self.vllm_config, self.running, self.waiting = vllm_config, list(running), []
        self.dynamic_sd_lookup, self.num_spec_tokens = depths, vllm_config.num_speculative_tokens
        self.max_num_scheduled_tokens, self.max_num_running_reqs = 64, 4
        self.control: Any = None

    @property
    def requests(self) -> dict[str, Any]:
        return {each.request_id: each for each in self.running}

    def get_request_counts(self) -> tuple[int, int]:
        return len(self.running), len(self.waiting)

    def step(self, accepted: dict[str, int], next_drafts: int, report: StepReport | None = None) -> Any:
        """Schedule what the control left, then come back with so many accepted tokens of each request."""
        self.control.before_schedule()
        drafts = {each.request_id: each.spec_token_ids for each in self.running if each.spec_token_ids}
        scheduled = {each.request_id: 1 + len(drafts.get(each.request_id, ())) for each in self.running}
        depth = self.num_spec_tokens if self.dynamic_sd_lookup is None else self.dynamic_sd_lookup[len(scheduled)]
        output = SimpleNamespace(
            num_scheduled_tokens=scheduled, scheduled_spec_decode_tokens=drafts,
            total_num_scheduled_tokens=sum(scheduled.values()), num_spec_tokens_to_schedule=depth,
        )  # fmt: skip
        self.control.after_schedule(output)
        flight = self.control.before_update(output)
        for each in self.running:
            out = accepted[each.request_id] + 1
            each.num_output_tokens, each.num_tokens = each.num_output_tokens + out, each.num_tokens + out
            each.spec_token_ids = [7] * min(next_drafts, depth)
        self.control.after_update(flight, SimpleNamespace(**{ATTRIBUTE: report}), flight.scheduled_s)
        return output


def controlled(scheduler: Vllm, **options: Any) -> Control:
    scheduler.control = Control(scheduler, PluginOptions(**options), unmeasured("cpu"), shows=True)
    for each in scheduler.running:
        scheduler.control.added(each)
    return scheduler.control  # type: ignore[no-any-return]
