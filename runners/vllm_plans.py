"""Plans for vLLM's next step: the batch a planner sees, what it lets each request verify, how deep to draft."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lightspec_bench.core import Batch, Confidence, EarlyExit, FloatArray, IntArray, Plan
from lightspec_bench.early_exit import stopped_drafts
from lightspec_bench.fill import depth_survival, fill, prefix_survival
from lightspec_bench.runners.vllm_planner import GuardedPlanner
from lightspec_bench.runners.vllm_requests import RequestTable

logger = logging.getLogger("vllm.lightspec_bench")


@dataclass(frozen=True, slots=True)
class Pending:
    """The decoding requests of the next step, in vLLM's order, and their draft tokens. Arrays are (N,)."""

    requests: list[Any]
    slots: IntArray
    num_draft_tokens: IntArray


class Plans:
    """Asks the planner once a step. `overlapped` engines plan while the step before still runs."""

    def __init__(self, table: RequestTable, overlapped: bool, shows_confidence: bool) -> None:
        self._table, self._overlapped, self._shows_confidence = table, overlapped, shows_confidence
        self._rule: EarlyExit | None = None
        self._warned = False
        self.depth = 0  # of the last plan, the deepest that any request asked for
        self.steps = 0

    def restart(self) -> None:
        """A new planner begins."""
        self._rule, self.depth, self.steps = None, 0, 0

    def pending(self, scheduler: Any, planned: bool) -> Pending:
        """Who decodes next. Where a plan made their drafts, each is cut to what was asked of its request and to where
        an early exit stops it."""
        requests = [request for request in scheduler.running if _decodes(request)]
        slots = self._table.slots(request.request_id for request in requests)
        drafted = np.array([len(request.spec_token_ids) for request in requests], dtype=np.int64)
        kept = np.minimum(drafted, self._table.asked[slots]) if planned else drafted
        if planned and self._rule is not None and len(slots):
            kept = self._stopped(self._rule, slots, kept)
        return Pending(requests, slots, kept)

    def plan(
        self, planner: GuardedPlanner, pending: Pending, scheduler: Any, now_s: float
    ) -> tuple[Plan, float] | None:
        """The plan and the planner's seconds, None once it failed."""
        planned = planner.plan(self._batch(planner, pending, scheduler, now_s))
        if planned is not None:
            self._keep(planned[0], pending)
        return planned

    def verify(self, plan: Plan, pending: Pending) -> IntArray:
        """Draft tokens each request may verify, (N,): the plan's counts, or its budget through Fill."""
        drafted = pending.num_draft_tokens
        if plan.num_verify_tokens is not None:
            return np.minimum(plan.num_verify_tokens, drafted)
        assert plan.num_target_tokens is not None
        room = plan.num_target_tokens - len(drafted)
        if not 0 < room < int(drafted.sum()):
            return drafted if room else np.zeros_like(drafted)
        return fill(self._survival(pending), drafted, plan.num_target_tokens)

    # ------------------------------------------------------------------ parts

    def _batch(self, planner: GuardedPlanner, pending: Pending, scheduler: Any, now_s: float) -> Batch:
        requests, slots = pending.requests, pending.slots
        confidence = entropy = None
        if planner.reads_confidence and self._shows_confidence:
            confidence, entropy = (self._shown(c, pending) for c in (self._table.confidence, self._table.entropy))
        return Batch(
            step=self.steps,
            now_s=now_s,
            request_id=self._table.request_id[slots],
            num_draft_tokens=pending.num_draft_tokens,
            num_output_tokens=np.array([request.num_output_tokens for request in requests], dtype=np.int64),
            num_context_tokens=np.array([request.num_tokens for request in requests], dtype=np.int64),
            confidence=confidence,
            entropy=entropy,
            num_prefill_tokens=_prompt_tokens(scheduler, len(requests) + int(pending.num_draft_tokens.sum())),
            num_waiting=scheduler.get_request_counts()[1],
        )

    def _shown(self, kept: Confidence, pending: Pending) -> Confidence:
        """(N, D): of the pending proposals, NaN past them; where steps overlap, of those verified a step earlier."""
        shown = kept[pending.slots]
        if not self._overlapped:
            shown[np.arange(shown.shape[1]) >= pending.num_draft_tokens[:, None]] = np.nan
        return shown

    def _survival(self, pending: Pending) -> Confidence:
        """By confidences; a draft token without one counts as its neighbours at that depth do, or by depth alone."""
        shape = len(pending.slots), self._table.width
        known = self._table.confidence[pending.slots]
        missing = np.isnan(known)
        if missing.all():
            return depth_survival(*shape)
        number = np.maximum((~missing).sum(axis=0), 1)
        typical = np.where(missing.all(axis=0), 0.0, np.where(missing, 0.0, known).sum(axis=0) / number)
        return prefix_survival(np.where(missing, typical, known).astype(np.float32))

    def _keep(self, plan: Plan, pending: Pending) -> None:
        """Note what was asked of each request, for the proposals of this step."""
        self.steps += 1
        depth = plan.num_draft_tokens
        self.depth = int(depth.max(initial=0)) if isinstance(depth, np.ndarray) else int(depth)
        self._table.asked[pending.slots] = depth
        self._rule = plan.early_exit
        if self._rule is None:
            return
        if self._overlapped:
            self._rule = None
            if not self._warned:
                self._warned = True
                logger.warning("lightspec: early exits need --no-async-scheduling, drafts go on to the planned depth")
            return
        self._table.threshold[pending.slots] = self._rule.threshold

    def ask(self, slots: IntArray) -> None:
        """Requests that were not in the batch draft to the plan's depth too, and no early exit stops them."""
        self._table.asked[slots] = self.depth
        if self._rule is not None:
            self._table.threshold[slots] = np.inf if self._rule.signal == "entropy" else 0.0

    def _stopped(self, rule: EarlyExit, slots: IntArray, drafted: IntArray) -> IntArray:
        signal = self._table.entropy if rule.signal == "entropy" else self._table.confidence
        if np.ndim(rule.threshold):
            threshold: FloatArray = self._table.threshold[slots]
            rule = replace(rule, threshold=threshold)
        kept, _ = stopped_drafts(rule, signal[slots], drafted)
        return kept


def of_rows(plan: Plan, rows: IntArray, number: int) -> Plan:
    """The plan of some of its `number` requests; a budget stays the whole batch's."""
    if len(rows) == number:
        return plan
    depth, verify, rule = plan.num_draft_tokens, plan.num_verify_tokens, plan.early_exit
    return replace(
        plan,
        num_draft_tokens=depth[rows] if isinstance(depth, np.ndarray) else depth,
        num_verify_tokens=None if verify is None else verify[rows],
        early_exit=None if rule is None else rule.of(rows),
    )


def _decodes(request: Any) -> bool:
    """Whether vLLM's next step verifies this running request, as far as can be told before it schedules.

    With steps in flight a request whose limit is surely reached is not scheduled again; vLLM's own condition.
    """
    if request.is_prefill_chunk:
        return False
    unseen = request.num_output_placeholders
    if not unseen:
        return True
    return bool(request.num_computed_tokens + 2 - unseen < request.num_prompt_tokens + request.max_tokens)


def _prompt_tokens(scheduler: Any, rows: int) -> int:
    """Prompt tokens that the next step will read beside these rows, as far as can be told before it schedules."""
    room = scheduler.max_num_scheduled_tokens - rows
    left = sum(r.num_tokens - r.num_computed_tokens for r in scheduler.running if r.is_prefill_chunk)
    places = scheduler.max_num_running_reqs - len(scheduler.running)
    for request in scheduler.waiting if places > 0 else ():
        left += request.num_tokens - request.num_computed_tokens
        places -= 1
        if places <= 0 or left >= room:
            break
    return max(int(min(left, room)), 0)
