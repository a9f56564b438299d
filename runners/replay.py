"""Replay: one planner's run over a trace, step by step, as `lightspec_bench.runners.simulated` starts it."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

import numpy as np

from lightspec_bench.check import check_plan
from lightspec_bench.core import (
    Batch,
    Columns,
    Confidence,
    EngineConfig,
    IntArray,
    Plan,
    PlanError,
    Planner,
    Step,
    Totals,
    Trace,
)
from lightspec_bench.drafting import draft_s, ragged_draft_s
from lightspec_bench.fill import depth_survival, fill, prefix_survival
from lightspec_bench.runners.confidences import NO_CONFIDENCES, Confidences, masked
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.proposals import propose, propose_first, rows_per_pass
from lightspec_bench.runners.records import Recorder, planned_depth
from lightspec_bench.runners.slots import Outcome, Slots, View, frozen

_NOBODY = np.zeros(0, dtype=np.int64)


class Begun(NamedTuple):
    """A step that is planned and has not run yet."""

    chunk: int  # prompt rows that share it
    prefilled: IntArray  # the requests whose prompts they complete
    seen: View
    current: Confidences
    plan: Plan
    plan_s: float


class Replay:
    """One planner's run: the state between decode steps and the steps' order."""

    def __init__(
        self,
        trace: Trace,
        config: EngineConfig,
        slots: Slots,
        options: SimulatorOptions,
        planner: Planner,
        name: str,
    ) -> None:
        self.trace, self.config, self.options, self.planner, self.name = trace, config, options, planner, name
        self.reads_confidence = planner.confidence != "none"
        self.synchronous = config.lag_steps == 0
        self.sees_pending = self.synchronous or planner.confidence == "current"
        # Every request then drafts as deep as it is asked to, in every step.
        self.uniform = trace.num_draft_tokens is None and options.catch_up == "each_step"
        self.slots = slots
        self.recorder = Recorder(trace.max_draft_tokens, options.keep_steps, options.warmup_steps)
        self.now_s, self.index, self.last_draft_s, self.waited_prefill_s = 0.0, 0, 0.0, 0.0
        self.unseen: deque[Step] = deque()
        self.depth = options.first_depth  # the deepest of the last plan
        self.one_depth = _NOBODY  # what every request drafted in the last step of one depth
        self.last_confidences = NO_CONFIDENCES

    def run(self) -> tuple[Totals, Columns, Columns | None]:
        """Every counted request to its end; sums, request columns and step columns."""
        while self.slots.num_unfinished:
            begun = self.begin()
            if begun is not None:
                self.complete(begun)
        return self.recorder.totals(), self.slots.finished_requests(), self.recorder.steps()

    # ------------------------------------------------------------------ admission and prefill

    def _admit(self) -> None:
        """Admit what has arrived, or wait for it where nothing runs; price its prefill."""
        slots, options = self.slots, self.options
        if slots.is_full:
            return
        if slots.num_active == 0:
            self.now_s = max(self.now_s, slots.next_arrival_s())
        admitted = slots.admit(self.now_s)
        if options.prefill == "chunked":
            self._admit_chunked(admitted)
        elif len(admitted):
            if options.prefill == "separate":
                tokens = int(slots.num_prompt_tokens(admitted).sum())
                prefill_s = self._prefill_s(tokens, len(admitted), tokens // 2)
                self.now_s += prefill_s
                self.waited_prefill_s += prefill_s
                self.recorder.prefilled(tokens, len(admitted))
            slots.start(admitted, self.now_s)

    def _admit_chunked(self, admitted: IntArray) -> None:
        """Queue prompts; where nothing decodes they run alone, else `begin` lets a chunk share its step."""
        slots = self.slots
        slots.queue_prefill(admitted)
        while slots.num_running == 0 and slots.num_prefilling:
            tokens, done = slots.take_prefill(self.options.chunk_tokens)
            prefill_s = self._prefill_s(tokens, 1, tokens // 2)
            self.now_s += prefill_s
            self.waited_prefill_s += prefill_s
            self.recorder.prefilled(tokens, len(done))
            self._start(done)

    def _prefill_s(self, tokens: int, num_requests: int, num_context_tokens: int) -> float:
        """Target and drafter over the prompts' rows, in seconds."""
        latency = self.config.latency
        seconds = float(latency.verify_s(tokens, num_requests, num_context_tokens))
        if self.planner.uses_drafter and self.config.drafter.kind in ("autoregressive", "parallel"):
            seconds += float(latency.draft_pass_s(tokens, num_context_tokens))
        return seconds

    # ------------------------------------------------------------------ one decode step

    def begin(self) -> Begun | None:
        """Admit who has arrived and plan the next step; None where nothing decodes yet."""
        self._admit()
        if not self.slots.num_running:
            return None
        chunk, prefilled = self._take_chunk()
        seen = self.slots.look()
        current = self._confidences(seen.position, self.slots.pending)
        plan, plan_s = self._plan(self._batch(seen, current, chunk))
        return Begun(chunk, prefilled, seen, current, plan, plan_s)

    def complete(self, begun: Begun) -> None:
        """Run the step: verify, accept, draft, let the planner know, and advance the clock."""
        slots, config = self.slots, self.config
        chunk, prefilled, seen, current, plan, plan_s = begun
        pending, self.depth = slots.pending, planned_depth(plan)
        verify = self._verify_tokens(plan, seen, pending, current.confidence)
        outcome = slots.advance(verify, self.recorder.outcomes(self.index))
        context, rows = seen.sum_context_tokens, len(verify) + outcome.sum_verified
        verify_s, chunk_s = self._verify_s(rows, len(verify), context, chunk)
        draft_s, depth = self._draft(plan, verify, outcome, rows, context)
        step = Step(
            index=self.index,
            plan=plan,
            request_id=seen.request_id,
            num_draft_tokens=pending,
            num_verify_tokens=verify,
            num_accepted_tokens=outcome.num_accepted_tokens,
            confidence=current.confidence,
            entropy=current.entropy,
            num_context_tokens=context,
            num_prefill_tokens=chunk,
            verify_s=verify_s,
            draft_s=draft_s,
            host_s=float(config.latency.host_s(len(verify), self.planner.uses_drafter)),
            prefill_s=chunk_s + self.waited_prefill_s,
            planner_s=plan_s,
            exposed_planner_s=self._exposed_s(plan_s),
        )
        if self.reads_confidence:
            self.last_confidences = current.of(outcome.alive)
        sums = (seen.sum_pending, outcome.sum_verified, outcome.sum_accepted)
        self._close(step, sums, depth, prefilled, self._observe(step))

    def _take_chunk(self) -> tuple[int, IntArray]:
        """Prompt rows that share this step, and the requests whose prompts they complete."""
        if not self.slots.num_prefilling:
            return 0, _NOBODY
        room = max(self.options.chunk_tokens - self.slots.num_running - int(self.slots.pending.sum()), 1)
        chunk, prefilled = self.slots.take_prefill(room)
        self.recorder.prefilled(chunk, len(prefilled))
        return chunk, prefilled

    def _confidences(self, position: IntArray, pending: IntArray) -> Confidences:
        """Of the pending proposals, where the planner reads any."""
        if not self.reads_confidence:
            return NO_CONFIDENCES
        past = np.arange(self.trace.max_draft_tokens) >= pending[:, None]
        return Confidences(masked(self.trace.confidence, position, past), masked(self.trace.entropy, position, past))

    def _batch(self, seen: View, current: Confidences, chunk: int) -> Batch:
        slots, pending = self.slots, self.slots.pending
        if self.reads_confidence and not self.sees_pending:
            current = self.last_confidences.padded(len(pending), current)
        return Batch(
            step=self.index,
            now_s=self.now_s,
            request_id=seen.request_id,
            num_draft_tokens=frozen(pending if self.sees_pending else slots.planned),
            num_output_tokens=seen.num_output_tokens,
            num_context_tokens=seen.num_context_tokens,
            confidence=current.confidence,
            entropy=current.entropy,
            num_prefill_tokens=chunk,
            num_waiting=slots.num_waiting(self.now_s),
        )

    def _plan(self, batch: Batch) -> tuple[Plan, float]:
        start = time.perf_counter()
        plan = self.planner.plan(batch)
        plan_s = time.perf_counter() - start
        check_plan(plan, batch, self.config.max_draft_tokens, self.name)
        if not self.planner.uses_drafter and np.any(plan.num_draft_tokens):
            raise PlanError(
                f"planner {self.name}: num_draft_tokens is {plan.num_draft_tokens}, expected 0 (no drafter)"
            )
        return plan, plan_s

    def _verify_tokens(self, plan: Plan, seen: View, pending: IntArray, confidence: Confidence | None) -> IntArray:
        """Verify tokens per request: the plan's counts as far as they were drafted, or its budget through Fill."""
        if plan.num_verify_tokens is not None:
            return np.minimum(plan.num_verify_tokens, pending)
        assert plan.num_target_tokens is not None
        room = plan.num_target_tokens - len(pending)
        if not 0 < room < seen.sum_pending:
            return pending if room else np.zeros_like(pending)
        if self.trace.confidence is None:
            survival = depth_survival(len(pending), self.trace.max_draft_tokens)
        else:
            survival = prefix_survival(self.trace.confidence[seen.position] if confidence is None else confidence)
        return fill(survival, pending, plan.num_target_tokens)

    def _verify_s(self, rows: int, num_requests: int, context: int, chunk: int) -> tuple[float, float]:
        """Seconds of the target forward, and what a chunk of prefill adds to it."""
        latency = self.config.latency
        verify_s = float(latency.verify_s(rows, num_requests, context))
        if not chunk:
            return verify_s, 0.0
        with_chunk = float(latency.verify_s(rows + chunk, num_requests + 1, context + chunk // 2))
        return verify_s, max(with_chunk - verify_s, 0.0)

    def _draft(self, plan: Plan, verify: IntArray, outcome: Outcome, extend: int, context: int) -> tuple[float, int]:
        """Draft for the survivors; returns seconds and the deepest proposal. `extend` rows were verified."""
        slots, latency, drafter = self.slots, self.config.latency, self.config.drafter
        depth, number, alive = plan.num_draft_tokens, outcome.num_alive, outcome.alive
        asked = depth[alive] if isinstance(depth, np.ndarray) else self._one_depth(number, depth)
        if not self.planner.uses_drafter:
            slots.propose(asked, asked)
            return 0.0, 0
        if self.uniform and number and plan.early_exit is None and not isinstance(depth, np.ndarray):
            slots.propose(asked, asked)
            return float(draft_s(latency, drafter, extend, number, int(depth), context)), int(depth)
        rule = plan.early_exit.of(alive) if plan.early_exit is not None else None
        proposals = propose(self.trace, slots.position, asked, rule)
        slots.propose(proposals.num_draft_tokens, asked)
        if self.options.catch_up == "on_resume":
            drafting = proposals.num_passes > 0
            behind = slots.catch_up(drafting, (outcome.num_accepted_tokens + 1)[alive])
            extend = behind + int((verify + 1)[alive][drafting].sum())
        passes = rows_per_pass(proposals.num_passes)
        return ragged_draft_s(latency, drafter, extend, passes, context), len(passes)

    def _one_depth(self, number: int, depth: int) -> IntArray:
        """The same depth for all survivors, (number,); mostly that of the step before."""
        if len(self.one_depth) != number or (number and self.one_depth[0] != depth):
            self.one_depth = np.full(number, depth, dtype=np.int64)
        return self.one_depth

    def _observe(self, step: Step) -> float:
        """Hand over what the pipeline lets the planner know by now: this step, or under lag the one before."""
        self.unseen.append(step)
        start = time.perf_counter()
        while len(self.unseen) > self.config.lag_steps:
            self.planner.observe(self.unseen.popleft())
        return time.perf_counter() - start

    def _close(self, step: Step, sums: tuple[int, int, int], depth: int, prefilled: IntArray, observe_s: float) -> None:
        """Advance the clock. What a synchronous engine spends in `observe` lengthens the step as well."""
        counted = self.options.planner_time == "measured"
        exposed_s = step.exposed_planner_s + (observe_s if counted and self.synchronous else 0.0)
        start_s = self.now_s - self.waited_prefill_s
        self.now_s = start_s + step.duration_s - step.exposed_planner_s + exposed_s
        self.last_draft_s, self.waited_prefill_s = step.draft_s, 0.0
        self.slots.finish(self.now_s)
        self.recorder.add(step, sums, start_s, self.now_s, depth, step.planner_s + observe_s, exposed_s)
        self._start(prefilled)
        self.index += 1

    def _start(self, sequence: IntArray) -> None:
        before = self.slots.num_running
        self.slots.start(sequence, self.now_s)
        if self.options.first_draft == "prompt":
            propose_first(self.trace, self.slots, before, self.depth)

    def _exposed_s(self, plan_s: float) -> float:
        """Planning time that lengthens the step: all of it when synchronous or when the planner waits for the
        pending confidences, and that wait; otherwise what does not fit behind the drafting of the step before."""
        waits = not self.synchronous and self.planner.confidence == "current"
        wait_s = self.options.sync_s if waits else 0.0
        if self.options.planner_time == "off":
            return wait_s
        if self.synchronous or waits:
            return plan_s + wait_s
        return max(0.0, plan_s - self.last_draft_s)
