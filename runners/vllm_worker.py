"""Watches a worker's model runner: how long forward, sampling and drafting take, and how sure the drafter was."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lightspec_bench.runners.vllm_adaptive import BUDGET
from lightspec_bench.runners.vllm_options import PluginOptions
from lightspec_bench.runners.vllm_report import ASKS, ATTRIBUTE, StepReport
from lightspec_bench.runners.vllm_signals import Signals, by_request


def watch(runner: Any, options: PluginOptions) -> None:
    """Put wrappers around an instance's methods: V1's runner, or V2's, whose drafter is called a speculator."""
    on_cuda = runner.device.type == "cuda"
    clock: Clock = EventClock() if on_cuda else Clock()
    drafter = getattr(runner, "drafter", None) or getattr(runner, "speculator", None)
    signals = Signals(drafter) if drafter is not None and options.confidences else None
    watcher = _Watcher(clock if options.timings else None, signals, runner)
    runner.execute_model = watcher.execute_model(runner.execute_model)
    runner.sample_tokens = watcher.sample_tokens(runner.sample_tokens)
    if hasattr(runner, "propose_draft_token_ids"):
        runner.propose_draft_token_ids = watcher.propose(runner.propose_draft_token_ids)
    elif drafter is not None:
        drafter.propose = watcher.propose(drafter.propose)


class Clock:
    """Marks on the host, for a device that works while the host waits."""

    def mark(self) -> Any:
        return time.perf_counter()

    def seconds(self, start: Any, end: Any) -> float:
        return float(end - start)


class EventClock(Clock):
    """Events in the stream; `seconds` waits until the device has passed the second."""

    def mark(self) -> Any:
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


class _Watcher:
    """The marks of the step under way. Forward is `execute_model`, sampling what `sample_tokens` does but draft."""

    def __init__(self, clock: Clock | None, signals: Signals | None, runner: Any) -> None:
        self._clock, self._signals, self._runner = clock, signals, runner
        self._marks: dict[str, Any] = {}

    def execute_model(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
            self._marks.clear()
            if self._signals is not None:
                self._signals.wanted = bool(getattr(scheduler_output, ASKS, False))
            manager = getattr(self._runner, "adaptive_verification", None)
            if manager is not None:
                manager.planned_budget = getattr(scheduler_output, BUDGET, None)
            self._mark("forward")
            output = original(scheduler_output, *args, **kwargs)
            self._mark("forward end")
            return output

        return wrapped

    def propose(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._mark("draft")
            if self._signals is not None:
                self._signals.begin()
            drafts = original(*args, **kwargs)
            self._mark("draft end")
            return drafts

        return wrapped

    def sample_tokens(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._mark("sample")
            output = original(*args, **kwargs)
            self._mark("sample end")
            return self._reported(output)

        return wrapped

    def _mark(self, name: str) -> None:
        if self._clock is not None:
            self._marks[name] = self._clock.mark()

    def _reported(self, output: Any) -> Any:
        """The output with its report: attached now, or when an asynchronous one is asked for."""
        marks, self._marks = self._marks, {}
        parts = self._signals.take() if self._signals is not None else []
        get_output = getattr(output, "get_output", None)
        if get_output is None:
            return self._attach(output, marks, parts)
        output.get_output = lambda: self._attach(get_output(), marks, parts)
        return output

    def _attach(self, output: Any, marks: dict[str, Any], parts: list[tuple[Tensor, Tensor]]) -> Any:
        names = tuple(getattr(output, "req_ids", ()))
        if not names:  # vLLM shares one empty output between all steps
            return output
        seen = by_request(parts, len(names))
        confidence, entropy = (None, None) if seen is None else (values.float().cpu().numpy() for values in seen)
        if self._clock is not None or confidence is not None:
            draft_s = self._between(marks, "draft")
            sample_s = max(self._between(marks, "sample") - draft_s, 0.0)
            report = StepReport(self._between(marks, "forward"), sample_s, draft_s, names, confidence, entropy)
            setattr(output, ATTRIBUTE, report)
        return output

    def _between(self, marks: dict[str, Any], name: str) -> float:
        if self._clock is None or name not in marks or f"{name} end" not in marks:
            return 0.0
        return self._clock.seconds(marks[name], marks[f"{name} end"])
