"""Outcomes of vLLM's steps: our `Step` with its seconds told apart, sums, and observers that are told of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lightspec_bench.core import Confidence, IntArray, Plan, Step
from lightspec_bench.runners.vllm_plans import of_rows
from lightspec_bench.runners.vllm_report import StepReport, report_of
from lightspec_bench.runners.vllm_requests import FIRST_TOKEN_S, FinishedRequest, RequestTable
from lightspec_bench.runners.vllm_steps import InFlight, Seconds, StepClock, TimedStep, now_s


class Observer:
    """Told of what happens. Arrays are (M,), in no order that lasts from one step to the next, and may be reused.

    `emitted`: tokens came out of the requests in `slots` in one step, their first ones not counted; confidences
    (M, D) are of the drafts that were verified, None unless somebody wants them. `finished` frees a slot. Each does
    nothing unless it is overridden.
    """

    wants_confidences = False

    def emitted(
        self,
        slots: IntArray,
        num_verify_tokens: IntArray,
        num_emitted: IntArray,
        confidence: Confidence | None,
        entropy: Confidence | None,
    ) -> None:
        pass

    def stepped(self, timed: TimedStep) -> None:
        pass

    def finished(self, slot: int, request: FinishedRequest) -> None:
        pass


@dataclass(slots=True)
class Sums:
    """Since the engine started, for its metrics; `depth` is the last step's."""

    steps: int = 0
    verify_rows: int = 0
    trimmed_tokens: int = 0
    planner_us: int = 0
    depth: int = 0


class Outcomes:
    """What came out of each step, told in order: tokens, the step, requests that left."""

    def __init__(self, table: RequestTable, overlapped: bool) -> None:
        self._table, self._overlapped = table, overlapped
        self.clock, self.began_s = StepClock(overlapped), now_s()
        self.observers: list[Observer] = []
        self.leaving: list[Any] = []
        self.sums = Sums()
        self._index = 0

    def restart(self) -> None:
        """Steps and seconds count from here."""
        self.clock, self.began_s, self._index = StepClock(self._overlapped), now_s(), 0

    def tell(
        self, flight: InFlight, model_output: Any, device_end_s: float, shows: bool, planner_reads: bool
    ) -> Step | None:
        """The step's record, None where only prompts were read; observers are told, the table is brought up to date.

        `shows` says whether confidences are asked for at all, `planner_reads` whether they belong in the record.
        """
        emitted, number = flight.emitted(), len(flight.requests)
        # Where the GPU spreads the budget over the requests, one may have verified more than was foreseen.
        flight.verified = np.maximum(flight.verified, emitted[:number] - 1)
        self._told_prompts(flight, emitted[number:])
        out = np.flatnonzero(emitted[:number] > 0)
        slots = flight.slots[out]
        confidence, entropy = (self._table.confidence[slots], self._table.entropy[slots]) if shows else (None, None)
        if len(out):
            self._emitted(slots, flight.verified[out], emitted[out], confidence, entropy)
        report, step = report_of(model_output), None
        if len(out):
            kept = (confidence, entropy) if planner_reads else (None, None)
            step = self._step(flight, out, emitted[out] - 1, report, device_end_s, kept)
        elif flight.output.total_num_scheduled_tokens:
            self.clock.prompts_only(flight, now_s())
        if report is not None:
            self._table.report(report)
        return step

    def let_go(self) -> None:
        """Requests that finished leave their slots."""
        for request in self.leaving:
            slot = self._table.remove(request.request_id)
            if slot is not None:
                counts = request.num_prompt_tokens, request.num_output_tokens
                gone = self._table.finished(request.request_id, slot, now_s() - self.began_s, *counts, self.began_s)
                for observer in self.observers:
                    observer.finished(slot, gone)
        self.leaving.clear()

    # ------------------------------------------------------------------ parts

    def _told_prompts(self, flight: InFlight, emitted: IntArray) -> None:
        """First tokens, and those of a prompt that was read again after the request had lost its place."""
        before = flight.num_output_tokens[len(flight.requests) :]
        of = list(zip(flight.others, emitted.tolist(), before, strict=True))
        first = self._table.slots(r.request_id for r, number, had in of if number and not had)
        self.clock.prefilled(flight.num_prefill_tokens, len(first))
        self._table.times_s[FIRST_TOKEN_S, first] = now_s() - self.began_s
        again = [(request.request_id, number) for request, number, had in of if number and had]
        if again:
            slots = self._table.slots(name for name, _ in again)
            self._emitted(slots, np.zeros_like(slots), np.array([number for _, number in again]), None, None)

    def _emitted(self, *what: Any) -> None:
        for observer in self.observers:
            observer.emitted(*what)

    def _step(
        self,
        flight: InFlight,
        out: IntArray,
        accepted: IntArray,
        report: StepReport | None,
        device_end_s: float,
        confidences: tuple[Confidence | None, Confidence | None],
    ) -> Step:
        end_s = now_s()
        seconds, start_s = self.clock.divide(flight, report, device_end_s - flight.scheduled_s, end_s)
        num_prompt_tokens, num_first_tokens = self.clock.take_prefilled()
        step = self._record(flight, out, accepted, seconds, confidences, num_prompt_tokens)
        self._index += 1
        self._table.stepped(flight.slots[out], step.num_draft_tokens, step.num_verify_tokens, accepted)
        self._add(flight)
        timed = TimedStep(step, start_s - self.began_s, end_s - self.began_s, flight.depth, num_first_tokens)
        for observer in self.observers:
            observer.stepped(timed)
        return step

    def _record(
        self,
        flight: InFlight,
        out: IntArray,
        accepted: IntArray,
        seconds: Seconds,
        confidences: tuple[Confidence | None, Confidence | None],
        num_prefill_tokens: int,
    ) -> Step:
        plan = flight.plan if flight.plan is not None else Plan(flight.depth, num_verify_tokens=flight.verified)
        return Step(
            index=self._index,
            plan=of_rows(plan, out, len(flight.requests)),
            request_id=flight.request_id[out],
            num_draft_tokens=flight.pending[out],
            num_verify_tokens=flight.verified[out],
            num_accepted_tokens=accepted,
            confidence=confidences[0],
            entropy=confidences[1],
            num_context_tokens=flight.num_context_tokens,
            num_prefill_tokens=num_prefill_tokens,
            verify_s=seconds.verify_s,
            draft_s=seconds.draft_s,
            host_s=seconds.host_s,
            prefill_s=seconds.prefill_s,
            planner_s=flight.planner_s,
            exposed_planner_s=seconds.exposed_planner_s,
        )

    def _add(self, flight: InFlight) -> None:
        sums, verified = self.sums, int(flight.verified.sum())
        sums.steps += 1
        sums.verify_rows += len(flight.requests) + verified
        sums.trimmed_tokens += int(flight.pending.sum()) - verified
        sums.planner_us += round(1e6 * flight.planner_s)
        sums.depth = flight.depth
