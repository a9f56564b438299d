"""Options of the vLLM plug-in, as `--additional-config '{"lightspec": {...}}'` carries them to every process."""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lightspec_bench.core import BenchError, DrafterKind
from lightspec_bench.option_types import typed
from lightspec_bench.settings import mapping

KEY = "lightspec"
_SOURCE = "additional_config"


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """`planner` is a name or `module:Class`, `options` are its constructor's; `latency` a table's name or file.

    `record` is the trace that live traffic is written to, its first `record_requests` requests. `drafter_kind` says
    what drafting costs like, where the method does not say it. `depth` "fixed" drafts `num_speculative_tokens` in
    every step and cuts each draft to what was planned. `confidences` False leaves out what the drafter knows of its
    tokens, `timings` False what the worker's clock says.
    """

    planner: str = "lightspec"
    options: Mapping[str, Any] = field(default_factory=dict)
    latency: str | None = None
    record: str | None = None
    record_requests: int = 10_000
    drafter_kind: DrafterKind | None = None
    depth: Literal["planned", "fixed"] = "planned"
    confidences: bool = True
    timings: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.record_requests < 1:
            raise BenchError(f"{_SOURCE}: {KEY}.record_requests is {self.record_requests}, expected at least 1")

    @property
    def spec(self) -> str:
        """The planner and its options as one spec of the registry."""
        options = ",".join(f"{key}={_text(value)}" for key, value in self.options.items())
        return f"{self.planner}:{options}" if options else self.planner


def _text(value: Any) -> str:
    return f"({value})" if isinstance(value, str) else json.dumps(value)


def plugin_options(additional_config: Any) -> PluginOptions | None:
    """The options in a vLLM configuration, None where it has none of ours. Raises `BenchError` for wrong ones."""
    if not isinstance(additional_config, Mapping) or KEY not in additional_config:
        return None
    hints = typing.get_type_hints(PluginOptions)
    given = mapping(additional_config[KEY], set(hints), _SOURCE, KEY)
    return PluginOptions(
        **{name: typed(f"{_SOURCE}: {KEY}.{name}", value, hints[name]) for name, value in given.items()}
    )
