"""From what vLLM scheduled and what came out to our `Step`, with its seconds told apart."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lightspec_bench.core import IntArray, Plan, Step
from lightspec_bench.runners.vllm_report import StepReport


@dataclass(slots=True)
class InFlight:
    """A step that was scheduled and whose outcome is awaited. Arrays are (N,), its decoding requests."""

    output: Any  # vLLM's SchedulerOutput
    plan: Plan | None
    planner_s: float
    requests: list[Any]
    slots: IntArray
    request_id: IntArray
    pending: IntArray  # draft tokens before the plan cut them
    verified: IntArray
    others: list[Any]  # requests whose prompts are being read
    depth: int  # draft tokens that it proposes for each request
    num_context_tokens: int
    num_prefill_tokens: int
    start_s: float
    scheduled_s: float
    num_output_tokens: list[int] = field(default_factory=list)  # of requests and others, before the outcome

    def count_outputs(self) -> None:
        self.num_output_tokens = [request.num_output_tokens for request in (*self.requests, *self.others)]

    def emitted(self) -> IntArray:
        """Tokens that came out of each request, the decoding ones first; call `count_outputs` before."""
        now = [request.num_output_tokens for request in (*self.requests, *self.others)]
        return np.array(now, dtype=np.int64) - np.array(self.num_output_tokens, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A step, when it began and ended in seconds since the run began, the depth it drafted to, and the first tokens
    that came out of prompts with it or since the step before."""

    step: Step
    start_s: float
    end_s: float
    depth: int
    num_first_tokens: int


@dataclass(frozen=True, slots=True)
class Seconds:
    """How a step's seconds divide; they add up to its span."""

    verify_s: float
    draft_s: float
    host_s: float
    prefill_s: float
    exposed_planner_s: float


class StepClock:
    """Divides the time from one step's end to the next one's; time without requests belongs to no step.

    A forward that reads prompts as well is split: what it takes beyond the last one without prompts is prefill, and
    before there was one it is split by rows.
    """

    def __init__(self, overlapped: bool) -> None:
        self._overlapped = overlapped
        self._plain_s: float | None = None
        self._end_s: float | None = None
        self._waited_s = 0.0  # of steps that only read prompts
        self._first_tokens = self._prefill_tokens = 0

    def idle(self) -> None:
        """Nothing runs: the next step begins when it is scheduled."""
        self._end_s = None

    def prefilled(self, num_tokens: int, num_first_tokens: int) -> None:
        self._prefill_tokens += num_tokens
        self._first_tokens += num_first_tokens

    def take_prefilled(self) -> tuple[int, int]:
        """Prompt tokens read and first tokens that came out since the last decode step."""
        taken = self._prefill_tokens, self._first_tokens
        self._prefill_tokens = self._first_tokens = 0
        return taken

    def prompts_only(self, flight: InFlight, end_s: float) -> None:
        """A step without a decoding request: its time is prefill of the step that follows."""
        self._waited_s += end_s - self._start(flight)
        self._end_s = end_s

    def divide(
        self, flight: InFlight, report: StepReport | None, device_s: float, end_s: float
    ) -> tuple[Seconds, float]:
        """The step's seconds, and when it began. `device_s` stands for the worker's report where there is none."""
        start_s = self._start(flight)
        waited_s, self._waited_s = self._waited_s, 0.0
        span_s, self._end_s = end_s - start_s, end_s
        forward_s, sample_s, draft_s = (
            (report.forward_s, report.sample_s, report.draft_s) if report is not None else (device_s, 0.0, 0.0)
        )
        prefill_s = self._prefill_s(flight, forward_s)
        verify_s = forward_s - prefill_s + sample_s
        exposed_s = flight.planner_s
        if self._overlapped:
            exposed_s = min(exposed_s, max(span_s - forward_s - sample_s - draft_s, 0.0))
        host_s = max(span_s - forward_s - sample_s - draft_s - exposed_s, 0.0)
        return Seconds(verify_s, draft_s, host_s, prefill_s + waited_s, exposed_s), start_s - waited_s

    def _start(self, flight: InFlight) -> float:
        return flight.start_s if self._end_s is None else self._end_s

    def _prefill_s(self, flight: InFlight, forward_s: float) -> float:
        if not flight.num_prefill_tokens:
            self._plain_s = forward_s
            return 0.0
        if self._plain_s is not None:
            return max(forward_s - self._plain_s, 0.0)
        rows = len(flight.requests) + int(flight.verified.sum())
        return forward_s * flight.num_prefill_tokens / (flight.num_prefill_tokens + rows)


def now_s() -> float:
    return time.perf_counter()
