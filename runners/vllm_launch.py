"""Starting vLLM in this process, under the planned scheduler, and ending it so that another can start."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.runners import vllm_plugin
from lightspec_bench.runners.torch_targets import target_place
from lightspec_bench.runners.vllm_drafters import VllmDrafter
from lightspec_bench.runners.vllm_options import KEY

SCHEDULER = "lightspec_bench.runners.vllm_scheduler.PlannedScheduler"
CHUNK_TOKENS = 2048  # prompt tokens of a step at most, as in the simulator
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_QUIET = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the planner, its records and this program share a process
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",  # stdout is for results
}


@dataclass(frozen=True, slots=True)
class Launch:
    """How engines are started. `max_model_len`: tokens of the longest request. `engine`: further arguments of vLLM's
    engine, which win over those that are chosen here."""

    target: str
    dtype: str
    device: str
    max_num_seqs: int
    max_model_len: int
    lag_steps: int = 0
    engine: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.dtype not in _BYTES:
            raise BenchError(f"dtype is {self.dtype!r}, expected {', '.join(_BYTES)}")


def model_config(target: str) -> Any:
    """The target's settings, as transformers reads them. Raises `BenchError` where there are none."""
    from transformers import AutoConfig

    place = target_place(target)
    try:
        return AutoConfig.from_pretrained(place).get_text_config(decoder=True)
    except (OSError, ValueError) as error:
        where = "in this folder" if Path(place).exists() else "of a hub name"
        raise BenchError(f"model {target}: no config.json {where}: {' '.join(str(error).split())[:200]}") from None


def engine_arguments(launch: Launch, drafter: VllmDrafter | None, is_cpu: bool) -> dict[str, Any]:
    """Arguments of `vllm.LLM`: one that repeats itself, with room for `max_num_seqs` requests of the longest kind."""
    depth = drafter.shape.max_draft_tokens if drafter else 0
    chosen: dict[str, Any] = {
        "model": target_place(launch.target),
        "dtype": launch.dtype,
        "max_num_seqs": launch.max_num_seqs,
        "max_model_len": launch.max_model_len,
        "max_num_batched_tokens": CHUNK_TOKENS + launch.max_num_seqs * (depth + 1),
        "enable_prefix_caching": False,  # a prompt that is sent again is read again, as the simulator takes it
        "async_scheduling": bool(launch.lag_steps),
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "scheduler_cls": SCHEDULER,
        "additional_config": {KEY: {"planner": "static" if drafter else "none"}},
        "speculative_config": dict(drafter.config) if drafter else None,
        "logprobs_mode": "raw_logits",  # what ties are told by
    }
    if is_cpu:
        chosen |= {"enforce_eager": True, "kv_cache_memory_bytes": _cache_bytes(launch, depth)}
    return chosen | dict(launch.engine)


def _cache_bytes(launch: Launch, depth: int) -> int:
    """Keys and values of every place full, with half as much again for a drafter and for blocks that are part empty."""
    config = model_config(launch.target)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token: int = 2 * config.num_hidden_layers * heads * size * _BYTES[launch.dtype]
    tokens = (launch.max_num_seqs + 1) * (launch.max_model_len + depth + 128)
    return max(token * tokens * (2 if depth else 1) * 3 // 2, 1 << 28)


def start(launch: Launch, drafter: VllmDrafter | None) -> Any:
    """vLLM's `LLMEngine`. Raises `BenchError` where the environment forbids it or vLLM does not start."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] != "0":
        raise BenchError("VLLM_ENABLE_V1_MULTIPROCESSING is set, expected 0 or nothing: the runner shares a process")
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.")
    from vllm import LLM
    from vllm.platforms import current_platform

    device = current_platform.device_type
    if device != launch.device.partition(":")[0]:
        raise BenchError(f"device is {launch.device!r}, expected {device!r}, which this vLLM is built for")
    vllm_plugin.register()
    try:
        engine = LLM(**engine_arguments(launch, drafter, device == "cpu")).llm_engine
    except (ValueError, TypeError, RuntimeError, OSError, ImportError, AssertionError) as error:
        raise BenchError(f"vLLM did not start: {' '.join(str(error).split())[:400]}") from error
    overlapped = engine.engine_core.engine_core.scheduler.lightspec.overlapped
    if overlapped != bool(launch.lag_steps):
        end(engine)
        raise BenchError("--lag needs async scheduling, which this vLLM has not with this device and drafter")
    return engine


def end(engine: Any) -> None:
    """Shut an engine down and undo what it set up for the process."""
    from vllm.distributed import cleanup_dist_env_and_memory

    engine.engine_core.shutdown()
    del engine
    gc.unfreeze()  # vLLM freezes what an engine is made of; collected late it would take the next one down with it
    gc.collect()
    cleanup_dist_env_and_memory()
