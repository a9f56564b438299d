"""Export: a configuration in an engine's own syntax, and back: planner spec -> text -> planner spec, pure functions."""

from __future__ import annotations

from collections.abc import Callable

from lightspec_bench.core import BenchError
from lightspec_bench.registry import did_you_mean
from lightspec_bench.reports import (
    export_hf,
    export_lightllm,
    export_llamacpp,
    export_sglang,
    export_tensorrt_llm,
    export_vllm,
)
from lightspec_bench.reports.export_text import Deployment, Export

_MODULES = (export_vllm, export_sglang, export_tensorrt_llm, export_lightllm, export_hf, export_llamacpp)
_WRITE: dict[str, Callable[[str, Deployment], Export]] = {module.ENGINE: module.write for module in _MODULES}
_READ: dict[str, Callable[[str, Deployment], str]] = {module.ENGINE: module.read for module in _MODULES}
ENGINES = tuple(_WRITE)


def check_engine(engine: str) -> None:
    """Raise `BenchError` for an engine that is not known."""
    if engine not in ENGINES:
        raise BenchError(f"unknown engine {engine!r}{did_you_mean(engine, ENGINES)}")


def export(engine: str, spec: str, deployment: Deployment) -> Export:
    """The configuration that makes an engine do what the planner `spec` does.

    Raises `BenchError` for an unknown engine, a planner it cannot be configured to, or a version that is missing.
    """
    check_engine(engine)
    return _WRITE[engine](spec, deployment)


def read_export(engine: str, text: str, deployment: Deployment) -> str:
    """The planner spec that an engine's configuration stands for; the inverse of `export`."""
    check_engine(engine)
    return _READ[engine](text, deployment)
