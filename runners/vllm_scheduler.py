"""The scheduler for `--scheduler-cls`: vLLM's own, synchronous or asynchronous, under a planner of ours."""

from __future__ import annotations

import functools
import logging
import time
from pathlib import Path
from typing import Any

import vllm
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler

from lightspec_bench.core import LatencyModel
from lightspec_bench.latency_file import load_latency
from lightspec_bench.registry import make_planner
from lightspec_bench.runners import vllm_plugin
from lightspec_bench.runners.vllm_control import Control
from lightspec_bench.runners.vllm_options import PluginOptions, plugin_options
from lightspec_bench.runners.vllm_prior import unmeasured
from lightspec_bench.runners.vllm_record import live_recorder
from lightspec_bench.runners.vllm_stats import into_stats
from lightspec_bench.runners.vllm_support import (
    SCHEDULER,
    SCHEDULER_OUTPUT,
    check_attributes,
    check_configuration,
    check_version,
)

logger = logging.getLogger("vllm.lightspec_bench")


class PlannedScheduler:
    """Gives an instance of the planned class that suits the engine: under async scheduling a subclass of vLLM's plain
    scheduler would never speculate, and say nothing.

    Options come from `--additional-config '{"lightspec": {...}}'`; `scheduler.lightspec` is its `Control`.
    """

    def __new__(cls, vllm_config: Any, *args: Any, **kwargs: Any) -> Any:
        overlapped = vllm_config.scheduler_config.async_scheduling
        return planned(AsyncScheduler if overlapped else Scheduler)(vllm_config, *args, **kwargs)


@functools.cache
def planned(base: type[Any]) -> type[Any]:
    """A scheduler class of vLLM's with a planner."""
    return type(f"Planned{base.__name__}", (_Planned, base), {})


class _Planned:
    """What a planner changes of vLLM's scheduler; everything else is vLLM's own."""

    lightspec: Control

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        options = plugin_options(vllm_config.additional_config) or PluginOptions()
        check_version(vllm.__version__)
        check_configuration(vllm_config, options)
        parent: Any = super()
        parent.__init__(vllm_config, *args, **kwargs)
        check_attributes("Scheduler", self, SCHEDULER, vllm.__version__)
        check_attributes("SchedulerOutput", SchedulerOutput.make_empty(), SCHEDULER_OUTPUT, vllm.__version__)
        self.lightspec = start_control(self, options)

    def add_request(self, request: Any) -> None:
        self.lightspec.added(request)
        parent: Any = super()
        parent.add_request(request)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        self.lightspec.before_schedule()
        parent: Any = super()
        output = parent.schedule(*args, **kwargs)
        self.lightspec.after_schedule(output)
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        device_end_s = time.perf_counter()
        flight = self.lightspec.before_update(scheduler_output)
        parent: Any = super()
        outputs = parent.update_from_output(scheduler_output, model_runner_output)
        if flight is not None:
            self.lightspec.after_update(flight, model_runner_output, device_end_s)
        return outputs

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.lightspec.freed(request)
        parent: Any = super()
        return parent._free_request(request, *args, **kwargs)

    def make_stats(self, *args: Any, **kwargs: Any) -> Any:
        parent: Any = super()
        stats = parent.make_stats(*args, **kwargs)
        control = getattr(self, "lightspec", None)
        return stats if control is None else into_stats(stats, control.outcomes.sums)

    def shutdown(self) -> None:
        for observer in self.lightspec.observers:
            close = getattr(observer, "close", None)
            if close is not None:
                close()
        parent: Any = super()
        parent.shutdown()


def start_control(scheduler: Any, options: PluginOptions) -> Control:
    """The control of a scheduler that has just been made, with the planner and the recorder that the options name."""
    control = Control(scheduler, options, _latency(scheduler.vllm_config, options), vllm_plugin.is_registered())
    planner = make_planner(options.spec, control.config)
    control.set_planner(planner, strict=False)
    if options.record is not None:
        control.observers.append(
            live_recorder(scheduler.vllm_config, control, Path(options.record), options.record_requests)
        )
    lag = "one step behind" if control.overlapped else "synchronous"
    logger.info("lightspec: planner %s, %s, up to %d draft tokens", options.spec, lag, control.config.max_draft_tokens)
    return control


def _latency(vllm_config: Any, options: PluginOptions) -> LatencyModel:
    if options.latency is not None:
        return load_latency(options.latency)
    return unmeasured(str(vllm_config.device_config.device_type))
