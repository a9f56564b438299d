"""Counters of the planned scheduler on vLLM's way to its Prometheus endpoint, where they are `vllm:lightspec_*`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import prometheus_client
from vllm.v1.metrics.loggers import StatLoggerBase

from lightspec_bench.runners.vllm_options import plugin_options
from lightspec_bench.runners.vllm_outcomes import Sums

_PREFIX = "lightspec:"


def into_stats(stats: Any, sums: Sums) -> Any:
    """vLLM's `SchedulerStats` with our sums.

    They cross from the engine's process to the server's in the one map of names to whole numbers that nothing reads
    unless LoRA is on; with LoRA there are no counters.
    """
    if stats is not None and not stats.running_lora_adapters:
        stats.running_lora_adapters = {f"{_PREFIX}{key}": value for key, value in asdict(sums).items()}
    return stats


def from_stats(stats: Any) -> Sums | None:
    """The sums that `into_stats` put there."""
    found = {key.removeprefix(_PREFIX): n for key, n in stats.running_lora_adapters.items() if key.startswith(_PREFIX)}
    return Sums(**found) if found else None


@dataclass(frozen=True, slots=True)
class _Metrics:
    """One child of each metric, for one engine."""

    steps: Any
    verify_rows: Any
    trimmed_tokens: Any
    planner_seconds: Any
    depth: Any


class PlannedStatLogger(StatLoggerBase):  # type: ignore[misc]
    """The plug-in of the group `vllm.stat_logger_plugins`; exports nothing where lightspec is not configured."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        self._metrics: dict[int, _Metrics] = {}
        self._seen: dict[int, Sums] = {}
        self._model = str(vllm_config.model_config.served_model_name)
        self._configured = plugin_options(vllm_config.additional_config) is not None

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        sums = from_stats(scheduler_stats) if self._configured and scheduler_stats is not None else None
        if sums is None:
            return
        metrics = self._metrics.setdefault(engine_idx, _children(self._model, engine_idx))
        seen = self._seen.get(engine_idx, Sums())
        metrics.steps.inc(sums.steps - seen.steps)
        metrics.verify_rows.inc(sums.verify_rows - seen.verify_rows)
        metrics.trimmed_tokens.inc(sums.trimmed_tokens - seen.trimmed_tokens)
        metrics.planner_seconds.inc((sums.planner_us - seen.planner_us) / 1e6)
        metrics.depth.set(sums.depth)
        self._seen[engine_idx] = sums

    def log_engine_initialized(self) -> None:
        pass


_FAMILIES: dict[str, Any] = {}


def _children(model: str, engine: int) -> _Metrics:
    """The metrics' children; a family can be registered only once in a process."""
    if not _FAMILIES:
        counter, gauge, labels = prometheus_client.Counter, prometheus_client.Gauge, ("model_name", "engine")
        _FAMILIES["steps"] = counter("vllm:lightspec_steps", "Decode steps under a planner.", labels)
        _FAMILIES["verify_rows"] = counter(
            "vllm:lightspec_verify_rows", "Rows of the target in decode steps: requests and draft tokens.", labels
        )
        _FAMILIES["trimmed_tokens"] = counter(
            "vllm:lightspec_trimmed_tokens", "Draft tokens that the planner left unverified.", labels
        )
        _FAMILIES["planner_seconds"] = counter("vllm:lightspec_planner_seconds", "Seconds spent planning.", labels)
        _FAMILIES["depth"] = gauge(
            "vllm:lightspec_depth", "Draft tokens per request that the last step asked for.", labels,
            multiprocess_mode="mostrecent",
        )  # fmt: skip
    return _Metrics(**{name: family.labels(model, str(engine)) for name, family in _FAMILIES.items()})
