"""One run of the real engine under a planner: the loop of decode steps, and what is recorded of them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lightspec_bench.core import Batch, BoolArray, Confidence, EngineConfig, IntArray, Plan, Planner, Step
from lightspec_bench.runners.records import Recorder
from lightspec_bench.runners.requests import Book
from lightspec_bench.runners.torch_clock import Clock
from lightspec_bench.runners.torch_engine import Engine, Verified
from lightspec_bench.runners.torch_planning import Planned, Planning


class Session:
    """State between decode steps. A step verifies, admits into the freed slots, then drafts for the survivors.

    Under lag the planner works on the next step's plan while the drafter drafts: it knows the requests of that step,
    but of their drafts only how deep they were planned, and the confidences of the proposals just verified.
    """

    def __init__(
        self, engine: Engine, book: Book, config: EngineConfig, planner: Planner, planning: Planning, recorder: Recorder
    ) -> None:
        self.engine, self.book, self.planning, self.recorder = engine, book, planning, recorder
        self.clock = Clock(engine.target.device)
        self.reads_confidence = planner.confidence != "none"
        self.plans_ahead = config.lag_steps == 1 and planner.confidence != "current"
        self.index, self.width = 0, config.max_draft_tokens
        self.slots: IntArray = np.zeros(0, dtype=np.int64)
        num_slots = len(engine.slots.lengths)
        self.planned = np.zeros(num_slots, dtype=np.int64)
        self.confidence: Confidence = np.full((num_slots, self.width), np.nan, dtype=np.float32)
        self.entropy: Confidence = np.full((num_slots, self.width), np.nan, dtype=np.float32)
        self.num_first_tokens = self.num_prompt_tokens = self.step_prefill_tokens = 0
        self.prefill_s, self.end_s, self.start_s = 0.0, 0.0, time.perf_counter()

    @property
    def now_s(self) -> float:
        return time.perf_counter() - self.start_s

    def run(self) -> None:
        """Every counted request to its end."""
        self._admit()
        while self.book.num_unfinished and len(self.slots):
            self._step()

    # ------------------------------------------------------------------ admission

    def _admit(self) -> None:
        """Fill the free slots and prefill; again where a request was done with its first token."""
        start = self.clock.mark()
        while True:
            slots, prompts, limits = self.book.admit(self.now_s)
            if not len(slots):
                break
            self.planned[slots], self.confidence[slots], self.entropy[slots] = 0, np.nan, np.nan
            done = self.engine.prefill(slots, prompts, limits)
            self.book.first_tokens(slots, self.now_s)
            self._prefilled(sum(map(len, prompts)), len(slots))
            self._finish(slots[done])
        self.slots = self.book.running
        self.prefill_s += self.clock.seconds(start, self.clock.mark())

    def _prefilled(self, num_tokens: int, num_requests: int) -> None:
        self.recorder.prefilled(num_tokens, num_requests)
        self.step_prefill_tokens += num_tokens
        self.num_prompt_tokens += num_tokens
        self.num_first_tokens += num_requests

    def _finish(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            self.book.finish(slot, self.now_s, self.engine.release(slot))

    # ------------------------------------------------------------------ one decode step

    def _step(self) -> None:
        slots, request_id = self.slots, self.book.request_id(self.slots)
        context = int(self.engine.slots.lengths[slots].sum())
        if not self.plans_ahead:
            self.planned[slots] = self.engine.num_pending(slots)
            self._read_confidences(slots, self.planned[slots])
        planned = self.planning.finish(lambda: self._batch(self.index))
        marks = [self.clock.mark()]
        verified = self.engine.verify(slots, planned.plan)
        marks.append(self.clock.mark())
        if self.plans_ahead:
            self._read_confidences(slots, verified.num_drafts)
        step = self._begun(planned.plan, slots, request_id, verified, context)
        self.book.stepped(slots, verified.num_drafts, verified.num_verify, verified.num_accepted)
        self._finish(slots[verified.finished])
        self._admit()
        survivors = self._plan_depths(planned.plan, slots, ~verified.finished)
        if self.plans_ahead and len(self.slots):
            self.planning.start(lambda: self._batch(self.index + 1))
        marks.append(self.clock.mark())
        rule = planned.plan.early_exit
        rule = rule.of(~verified.finished) if rule is not None else None
        self.engine.draft(survivors, self.planned[survivors], rule)
        marks.append(self.clock.mark())
        self._close(step, planned, marks, survivors)

    def _batch(self, index: int) -> Batch:
        """What the planner may see before step `index`."""
        slots, state = self.slots, self.engine.slots
        return Batch(
            step=index,
            now_s=self.now_s,
            request_id=self.book.request_id(slots),
            num_draft_tokens=self.planned[slots],
            num_output_tokens=state.lengths[slots] - state.prompt_lengths[slots],
            num_context_tokens=state.lengths[slots],
            confidence=self.confidence[slots] if self.reads_confidence else None,
            entropy=self.entropy[slots] if self.reads_confidence else None,
        )

    def _read_confidences(self, slots: IntArray, number: IntArray) -> None:
        """Copy the confidences of the proposals, `number` tokens each, to the host."""
        if not self.reads_confidence:
            return
        confidence, entropy = self.engine.confidences(slots)
        past = np.arange(self.width) >= number[:, None]
        self.confidence[slots] = np.where(past, np.float32(np.nan), confidence)
        self.entropy[slots] = np.where(past, np.float32(np.nan), entropy)

    def _plan_depths(self, plan: Plan, slots: IntArray, alive: BoolArray) -> IntArray:
        """Note how deep each survivor drafts; returns the survivors."""
        survivors = slots[alive]
        depth = plan.num_draft_tokens
        self.planned[survivors] = depth[alive] if isinstance(depth, np.ndarray) else depth
        return survivors

    # ------------------------------------------------------------------ records

    def _begun(
        self, plan: Plan, slots: IntArray, request_id: IntArray, verified: Verified, context: int
    ) -> dict[str, Any]:
        """The fields of the `Step` that are known once it has verified."""
        return {
            "index": self.index,
            "plan": plan,
            "request_id": request_id,
            "num_draft_tokens": verified.num_drafts,
            "num_verify_tokens": verified.num_verify,
            "num_accepted_tokens": verified.num_accepted,
            "confidence": self.confidence[slots] if self.reads_confidence else None,
            "entropy": self.entropy[slots] if self.reads_confidence else None,
            "num_context_tokens": context,
        }

    def _close(self, fields: dict[str, Any], planned: Planned, marks: list[Any], survivors: IntArray) -> None:
        """Record the step; what no other part accounts for is host time."""
        verify_s, draft_s = (self.clock.seconds(marks[0], marks[1]), self.clock.seconds(marks[2], marks[3]))
        depth = int(self.engine.num_pending(survivors).max(initial=0))
        end_s = self.now_s
        parts_s = verify_s + draft_s + self.prefill_s + planned.exposed_s
        step = Step(
            **fields,
            num_prefill_tokens=self.step_prefill_tokens,
            verify_s=verify_s,
            draft_s=draft_s,
            host_s=max(end_s - self.end_s - parts_s, 0.0),
            prefill_s=self.prefill_s,
            planner_s=planned.planner_s,
            exposed_planner_s=planned.exposed_s,
        )
        self.recorder.record(step, self.end_s, end_s, depth, planned.planner_s, planned.exposed_s)
        self.planning.observe(step)
        self.end_s, self.prefill_s, self.step_prefill_tokens = end_s, 0.0, 0
        self.index += 1
