"""What the planned scheduler does around vLLM's own: plan, cut drafts, set the depth, tell what happened.

One object per scheduler, `scheduler.lightspec`, and the way in for whoever drives an engine in the same process.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightspec_bench.core import EngineConfig, IntArray, LatencyModel, Plan, Planner
from lightspec_bench.runners.vllm_adaptive import BUDGET
from lightspec_bench.runners.vllm_options import PluginOptions
from lightspec_bench.runners.vllm_outcomes import Observer, Outcomes
from lightspec_bench.runners.vllm_planner import GuardedPlanner
from lightspec_bench.runners.vllm_plans import Pending, Plans, of_rows
from lightspec_bench.runners.vllm_report import ASKS
from lightspec_bench.runners.vllm_requests import START_S, RequestTable
from lightspec_bench.runners.vllm_steps import InFlight, now_s
from lightspec_bench.runners.vllm_support import Method, check_planner_fits, drafter_of, method_of


@dataclass(frozen=True, slots=True)
class _Planned:
    """The next step: its requests, what each may verify (N,), and the plan behind it, if any."""

    pending: Pending
    verify: IntArray
    plan: Plan | None
    planner_s: float
    start_s: float


class Control:
    """State between vLLM's calls. `config` is what a planner for this engine is built with.

    `observers` are told of every step and request for as long as they are in the list.
    """

    def __init__(self, scheduler: Any, options: PluginOptions, latency: LatencyModel, shows: bool) -> None:
        vllm_config = scheduler.vllm_config
        self._scheduler = scheduler
        speculative = vllm_config.speculative_config
        self.speculates = speculative is not None
        method = method_of(speculative) if speculative is not None else Method("ngram", False, True)
        self.overlapped = bool(vllm_config.scheduler_config.async_scheduling)
        self.shows_confidence = shows and options.confidences and method.confidences
        self.config = EngineConfig(
            drafter=drafter_of(vllm_config, options),
            latency=latency,
            max_num_seqs=vllm_config.scheduler_config.max_num_seqs,
            lag_steps=int(self.overlapped),
            seed=options.seed,
        )
        self.own_depths, self._most = scheduler.dynamic_sd_lookup, int(scheduler.num_spec_tokens)
        self._on_device = bool(getattr(speculative, "enable_adaptive_verification", False))
        self._fixed_depth = method.fixed_depth or options.depth == "fixed"
        self.table = RequestTable(self.config.max_draft_tokens)
        self.outcomes = Outcomes(self.table, self.overlapped)
        self.plans = Plans(self.table, self.overlapped, self.shows_confidence)
        self.planner: GuardedPlanner | None = None
        self._flights: deque[InFlight] = deque()
        self._next: _Planned | None = None
        if self.speculates:
            scheduler.dynamic_sd_lookup = _Depths(self)

    # ------------------------------------------------------------------ control

    @property
    def observers(self) -> list[Observer]:
        return self.outcomes.observers

    def set_planner(self, planner: Planner | None, *, strict: bool = True) -> None:
        """Plan with this one from the next step on; None leaves everything to vLLM.

        Ids and the clock start anew, so do it while no request is in the engine. `strict` lets a failure of the
        planner through instead of switching it off. Raises `BenchError` for a planner this engine cannot feed.
        """
        guarded = None
        if planner is not None:
            guarded = GuardedPlanner(planner, self.config, strict)
            shows = frozenset(("confidence", "entropy")) if self.shows_confidence else frozenset()
            check_planner_fits(planner, guarded.name, self.speculates, shows)
        self._leave()
        self.planner = guarded
        self.plans.restart()
        self.outcomes.restart()
        self._flights.clear()
        if not len(self.table):
            self.table.next_id = 0

    @property
    def active(self) -> bool:
        """Whether a planner decides, or decided until it failed."""
        return self.planner is not None and self.planner.active

    def depth(self, num_requests: int) -> int:
        """Draft tokens that this step proposes; vLLM asks once it knows who is scheduled."""
        if not self.active:
            return self._most if self.own_depths is None else int(self.own_depths[num_requests])
        return self._most if self._fixed_depth else self.plans.depth

    # ------------------------------------------------------------------ around vLLM's calls

    def before_schedule(self) -> None:
        """Plan the next step and cut the drafts of its requests."""
        scheduler, start_s = self._scheduler, now_s()
        if not scheduler.running:
            self._leave()
            self.outcomes.clock.idle()
        pending = self.plans.pending(scheduler, self.active)
        self._next = _Planned(pending, pending.num_draft_tokens, None, 0.0, start_s)
        if self.planner is None or not self.active or not pending.requests:
            return
        planned = self.plans.plan(self.planner, pending, scheduler, start_s - self.outcomes.began_s)
        if planned is not None:
            verify = self.plans.verify(planned[0], pending)
            self._next = _Planned(pending, verify, *planned, start_s)
            _cut(pending.requests, pending.num_draft_tokens if self._on_device else verify)

    def after_schedule(self, output: Any) -> None:
        """Note what vLLM made of it."""
        assert self._next is not None
        planned, self._next = self._next, None
        pending = planned.pending
        scheduled, drafts = output.num_scheduled_tokens, output.scheduled_spec_decode_tokens
        names = [request.request_id for request in pending.requests]
        rows = np.array([row for row, name in enumerate(names) if name in scheduled], dtype=np.int64)
        requests = [pending.requests[row] for row in rows.tolist()]
        verified = np.array([len(drafts.get(request.request_id, ())) for request in requests], dtype=np.int64)
        decoding = {request.request_id for request in requests}
        others = [self._scheduler.requests[name] for name in scheduled if name not in decoding]
        if self._on_device and planned.plan is not None:
            verified = np.minimum(verified, planned.verify[rows])
            setattr(output, BUDGET, int(verified.sum()))
        self._join(self.table.slots(request.request_id for request in others), planned.start_s)
        slots = pending.slots[rows]
        flight = InFlight(
            output=output,
            plan=None if planned.plan is None else of_rows(planned.plan, rows, len(names)),
            planner_s=planned.planner_s,
            requests=requests,
            slots=slots,
            request_id=self.table.request_id[slots],
            pending=pending.num_draft_tokens[rows],
            verified=verified,
            others=others,
            depth=int(output.num_spec_tokens_to_schedule) if self.speculates else 0,
            num_context_tokens=sum(request.num_tokens for request in requests),
            num_prefill_tokens=sum(scheduled[request.request_id] for request in others),
            start_s=planned.start_s,
            scheduled_s=now_s(),
        )
        self._flights.append(flight)
        if self._wants_confidences():
            setattr(output, ASKS, True)

    def before_update(self, output: Any) -> InFlight | None:
        """The step that this outcome belongs to; None for one that was not seen scheduled."""
        if not any(flight.output is output for flight in self._flights):
            return None  # one that was under way when the planner changed
        while (flight := self._flights.popleft()).output is not output:
            pass
        flight.count_outputs()
        return flight

    def after_update(self, flight: InFlight, model_output: Any, device_end_s: float) -> None:
        """Tell planner and observers what came out."""
        reads = self.planner is not None and self.planner.reads_confidence
        step = self.outcomes.tell(flight, model_output, device_end_s, self._wants_confidences(), reads)
        if step is not None and self.planner is not None:
            self.planner.observe(step)
        self._leave()

    # ------------------------------------------------------------------ requests

    def added(self, request: Any) -> None:
        self.table.add(request.request_id, now_s() - self.outcomes.began_s)

    def freed(self, request: Any) -> None:
        """A request finished or was aborted; it leaves at the end of the step, when its counts are whole."""
        self.outcomes.leaving.append(request)

    def _leave(self) -> None:
        self.outcomes.let_go()

    def _join(self, slots: IntArray, start_s: float) -> None:
        """Requests whose prompts are read in this step: they draft to the plan's depth with it."""
        if self.active:
            self.plans.ask(slots)
        starting = slots[np.isnan(self.table.times_s[START_S, slots])]
        self.table.times_s[START_S, starting] = start_s - self.outcomes.began_s

    def _wants_confidences(self) -> bool:
        reads = self.planner is not None and self.active and self.planner.reads_confidence
        return self.shows_confidence and (reads or any(observer.wants_confidences for observer in self.observers))


class _Depths:
    """Stands where vLLM's table of depths by batch size does, and answers with the plan's depth.

    That there is such a table also keeps vLLM from filling new requests' drafts up with blanks.
    """

    def __init__(self, control: Control) -> None:
        self._control = control

    def __getitem__(self, num_requests: int) -> int:
        return self._control.depth(num_requests)


def _cut(requests: list[Any], verify: IntArray) -> None:
    """Leave each request its first draft tokens. Lists are replaced: under async scheduling all share one."""
    for request, number in zip(requests, verify.tolist(), strict=True):
        if len(request.spec_token_ids) > number:
            request.spec_token_ids = request.spec_token_ids[:number]
