"""The entry point of the group `vllm.general_plugins`: mends and wrappers, in every process that vLLM starts.

It may be called any number of times and does nothing to an engine whose configuration has no lightspec options.
"""

from __future__ import annotations

import functools
from typing import Any

from lightspec_bench.runners.vllm_options import plugin_options

_registered = False


def is_registered() -> bool:
    """Whether vLLM loaded the plug-in in this process: `VLLM_PLUGINS` may leave it out."""
    return _registered


def register() -> None:
    """Every worker made from here on watches its runner, where lightspec is configured."""
    global _registered
    from vllm.v1.worker.worker_base import WorkerBase

    from lightspec_bench.runners.vllm_cpu import look_past_foreign_objects
    from lightspec_bench.runners.vllm_eagle_layout import register_head

    register_head()
    look_past_foreign_objects()
    if not _registered:
        WorkerBase.__init__ = _watching(WorkerBase.__init__)
    _registered = True


def _watching(init: Any) -> Any:
    @functools.wraps(init)
    def wrapped(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        init(self, vllm_config, *args, **kwargs)
        options = plugin_options(vllm_config.additional_config)
        if options is not None:
            prepare(vllm_config)
            self.load_model = _then_watch(self.load_model, self, options)

    return wrapped


def prepare(vllm_config: Any) -> None:
    """What must be in place before a worker loads its model."""
    from lightspec_bench.runners.vllm_adaptive import replace_manager
    from lightspec_bench.runners.vllm_cpu import mend

    mend()
    if getattr(vllm_config.speculative_config, "enable_adaptive_verification", False):
        replace_manager()


def _then_watch(load_model: Any, worker: Any, options: Any) -> Any:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from lightspec_bench.runners.vllm_worker import watch

        loaded = load_model(*args, **kwargs)
        watch(worker.model_runner, options)
        return loaded

    return wrapped
