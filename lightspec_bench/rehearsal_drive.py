"""Drive: one planner's way through a rehearsal script, and the first thing it does wrong there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lightspec_bench.check import check_plan
from lightspec_bench.core import Batch, Confidence, EarlyExit, IntArray, Plan, Planner, Step
from lightspec_bench.early_exit import stopped_drafts
from lightspec_bench.errors import BenchError, PlanError
from lightspec_bench.fill import fill, prefix_survival
from lightspec_bench.registry import shown
from lightspec_bench.rehearsal import Moment, Scene

_NAN = np.float32(np.nan)
_FIELDS = {kind: [(f"{kind.__name__.lower()}.{f.name}", f.name) for f in fields(kind)] for kind in (Batch, Step, Plan)}


@dataclass(slots=True)
class Drive:
    """Plans in comparable form, the planner, and why it ended early: a finding, or a refusal by the constructor."""

    plans: list[tuple[Any, ...]] = field(default_factory=list)
    planner: Planner | None = None
    finding: str | None = None
    refusal: BenchError | None = None


class _Fault(Exception):
    """What a planner did wrong, in words."""


def drive(
    name: str, build: Callable[[], Planner], scene: Scene, script: list[Moment], reuses_arrays: bool = False
) -> Drive:
    """Build a planner and take it through the script, up to its first fault.

    An engine that `reuses_arrays` writes over those of a batch and a step once the planner has had them.
    """
    driven = Drive()
    try:
        driven.planner = planner = build()
    except BenchError as error:
        driven.refusal = error
        return driven
    except Exception as error:
        driven.finding = f"constructor raises {shown(error)}"
        return driven
    declared = _declared(planner)
    try:
        _rehearse(name, planner, _Engine(scene, planner), script, driven.plans, reuses_arrays)
    except _Fault as fault:
        driven.finding = str(fault)
        return driven
    for attribute, value in _declared(planner).items():
        if value != declared[attribute]:
            was = declared[attribute]
            driven.finding = f"{attribute} is {was!r} when built and {value!r} later, expected it to stay"
    return driven


def _declared(planner: Planner) -> dict[str, Any]:
    return {name: getattr(planner, name) for name in ("confidence", "requires", "uses_drafter")}


def _rehearse(
    name: str,
    planner: Planner,
    engine: _Engine,
    script: list[Moment],
    plans: list[tuple[Any, ...]],
    reuses_arrays: bool,
) -> None:
    unseen: deque[Step] = deque()
    last: Plan | None = None
    for index, moment in enumerate(script):
        batch = engine.batch(index, moment)
        plan = _call("plan", planner.plan, batch, batch)
        _leaves_alone("plan", last, plans)
        _accept(name, planner, plan, batch, engine.scene)
        plans.append(_comparable(plan))
        last = plan
        unseen.append(engine.step(_copied(plan) if reuses_arrays else plan, batch, moment))
        while len(unseen) > engine.scene.lag_steps:
            step = unseen.popleft()
            _call("observe", planner.observe, step, batch)
            _leaves_alone("observe", last, plans)
            if reuses_arrays:
                _write_over(step)
        if reuses_arrays:
            _write_over(batch)


def _leaves_alone(verb: str, plan: Plan | None, plans: list[tuple[Any, ...]]) -> None:
    if plan is not None and _comparable(plan) != plans[-1]:
        raise _Fault(f"{verb}() changes the plan that was returned before, expected it to leave a plan alone")


def _copied(plan: Plan) -> Plan:
    arrays: dict[str, Any] = {name.partition(".")[2]: array.copy() for name, array in _arrays(plan)}
    return replace(plan, **arrays)


def _write_over(record: Batch | Step) -> None:
    for _, array in _arrays(record):
        array.fill(np.nan if np.issubdtype(array.dtype, np.floating) else -1)


def _call(verb: str, method: Callable[[Any], Any], record: Batch | Step, batch: Batch) -> Any:
    """Call one of a planner's two verbs; neither its argument nor the step's batch may change."""
    records = (batch,) if record is batch else (record, batch)
    before = [(name, array, array.tobytes()) for given in records for name, array in _arrays(given)]
    try:
        result = method(record)
    except Exception as error:
        raise _Fault(f"{verb}() raises {shown(error)}") from error
    for name, array, content in before:
        if array.tobytes() != content:
            raise _Fault(f"{verb}() changes {name}, expected it to leave what it is given alone")
    return result


def _arrays(record: Batch | Step | Plan) -> list[tuple[str, npt.NDArray[Any]]]:
    values = [(words, getattr(record, name)) for words, name in _FIELDS[type(record)]]
    return [(words, value) for words, value in values if isinstance(value, np.ndarray)]


def _accept(name: str, planner: Planner, plan: object, batch: Batch, scene: Scene) -> None:
    if not isinstance(plan, Plan):
        raise _Fault(f"plan() returns {plan!r}, expected a Plan")
    try:
        check_plan(plan, batch, scene.max_draft_tokens, name)
    except PlanError as error:
        raise _Fault(str(error)) from error
    if not planner.uses_drafter and np.any(plan.num_draft_tokens):
        raise _Fault(f"num_draft_tokens is {plan.num_draft_tokens}, expected 0 as uses_drafter is False")
    if plan.early_exit is not None:
        signal = plan.early_exit.signal
        needed = "entropy" if signal == "entropy" else "confidence"
        if not (scene.shows_entropy if needed == "entropy" else scene.shows_confidence):
            raise _Fault(f"early_exit looks at {signal}, expected requires to name {needed!r}")


def _comparable(plan: Plan) -> tuple[Any, ...]:
    numbers = (plan.num_draft_tokens, plan.num_target_tokens, plan.num_verify_tokens)
    rule = plan.early_exit
    plain_rule = None if rule is None else replace(rule, threshold=0.0)
    threshold = None if rule is None else np.asarray(rule.threshold).tolist()
    return (*(None if n is None else np.asarray(n).tolist() for n in numbers), plain_rule, threshold)


class _Engine:
    """Keeps what a batch needs of the step before: depths planned, tokens out, confidences of the proposals."""

    def __init__(self, scene: Scene, planner: Planner) -> None:
        self.scene = scene
        reads = planner.confidence != "none"
        self.shows = (reads and scene.shows_confidence, reads and scene.shows_entropy)
        self.sees_pending = scene.lag_steps == 0 or planner.confidence == "current"
        none = np.zeros(0, dtype=np.int64)
        nothing = np.zeros((0, scene.max_draft_tokens), dtype=np.float32)
        self.depth, self.out, self.pending = none, none, none
        self.rule: EarlyExit | None = None
        self.signals: tuple[Confidence, Confidence] = (nothing, nothing)

    def batch(self, index: int, moment: Moment) -> Batch:
        planned = _carried(self.depth, moment.came, 0)
        self.pending = self._proposed(planned, moment)
        self.out = _carried(self.out, moment.came, 1)
        past = np.arange(self.scene.max_draft_tokens) >= self.pending[:, None]
        before = [_carried(signal, moment.came, _NAN) for signal in self.signals]
        self.signals = (np.where(past, _NAN, moment.confidence), np.where(past, _NAN, moment.entropy))
        seen = self.signals if self.sees_pending else before
        confidence, entropy = (s.copy() if shows else None for s, shows in zip(seen, self.shows, strict=True))
        return Batch(
            step=index,
            now_s=0.02 * index,
            request_id=moment.request_id.copy(),
            num_draft_tokens=self.pending.copy() if self.sees_pending else planned,
            num_output_tokens=self.out.copy(),
            num_context_tokens=self.out + 100,
            confidence=confidence,
            entropy=entropy,
            num_prefill_tokens=self._prefill_tokens(index),
            num_waiting=index % 5 if self.scene.crowded else 0,
        )

    def _prefill_tokens(self, index: int) -> int:
        return 512 if self.scene.crowded and index % 3 == 0 else 0

    def _proposed(self, planned: IntArray, moment: Moment) -> IntArray:
        """How long the drafts are that the last plan led to: as deep as planned, as far as the drafter gets and the
        plan's exit rule lets it."""
        pending = np.minimum(planned, moment.limit)
        stayed = moment.came >= 0
        if self.rule is not None and stayed.any():
            signal = moment.entropy if self.rule.signal == "entropy" else moment.confidence
            rule = self.rule.of(moment.came[stayed])
            pending[stayed] = stopped_drafts(rule, signal[stayed], pending[stayed])[0]
        return pending

    def step(self, plan: Plan, batch: Batch, moment: Moment) -> Step:
        verify = self._verify(plan)
        accepted = np.minimum(verify, moment.acceptable)
        self.out = self.out + accepted + 1
        self.rule = plan.early_exit
        self.depth = np.broadcast_to(plan.num_draft_tokens, accepted.shape).astype(np.int64)
        confidence, entropy = (s.copy() if shows else None for s, shows in zip(self.signals, self.shows, strict=True))
        return Step(
            index=batch.step,
            plan=plan,
            request_id=moment.request_id.copy(),
            num_draft_tokens=self.pending.copy(),
            num_verify_tokens=verify.copy(),
            num_accepted_tokens=accepted,
            confidence=confidence,
            entropy=entropy,
            num_context_tokens=int(batch.num_context_tokens.sum()),
            num_prefill_tokens=self._prefill_tokens(batch.step),
            verify_s=0.01,
            draft_s=0.004,
            host_s=0.001,
            prefill_s=0.0,
            planner_s=0.0,
            exposed_planner_s=0.0,
        )

    def _verify(self, plan: Plan) -> IntArray:
        if plan.num_verify_tokens is not None:
            return np.asarray(np.minimum(plan.num_verify_tokens, self.pending))
        assert plan.num_target_tokens is not None
        return fill(prefix_survival(self.signals[0]), self.pending, int(plan.num_target_tokens))


def _carried(old: npt.NDArray[Any], came: IntArray, newcomer: Any) -> npt.NDArray[Any]:
    """Values of the step before in the order of this one, `newcomer` for requests that were not in it."""
    carried = np.full((len(came), *old.shape[1:]), newcomer, dtype=old.dtype)
    stayed = came >= 0
    carried[stayed] = old[came[stayed]]
    return carried
