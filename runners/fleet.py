"""The fleet: replicas of the simulated engine behind a router, each under a planner of its own.

Replicas either run on their own clocks, or as data-parallel ranks that step together: then every step waits for the
slowest rank, and with `align` "max" all ranks draft as deep as the one that wants to go deepest, as LightLLM does
(its lightspec branch at 414c39b takes the maximum over ranks before drafting). Ranks of a mixture-of-experts model have
no other choice: their layers exchange tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from lightspec_bench.check import check_requires
from lightspec_bench.core import BenchError, Columns, EngineConfig, IntArray, Planner, Run, Totals, Trace
from lightspec_bench.registry import name_of
from lightspec_bench.runners.load import Load, make_workload
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.records import planned_depth
from lightspec_bench.runners.replay import Replay
from lightspec_bench.runners.routed_slots import RoutedSlots
from lightspec_bench.runners.simulated import SimulatedRunner

Router: TypeAlias = Literal["round-robin", "least-requests"]
Align: TypeAlias = Literal["none", "max"]
ROUTERS: tuple[Router, ...] = get_args(Router)
ALIGNS: tuple[Align, ...] = get_args(Align)


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many replicas, who gets a request, and whether the replicas are ranks that step together.

    `round-robin` sends request i to replica i modulo R; `least-requests` to the replica with the fewest requests that
    are not finished at the moment of arrival, the first of equals. `align` "none": every replica has a clock of its
    own; "max": data-parallel ranks that step together and draft to the same depth, the deepest planned.
    """

    num_replicas: int = 1
    router: Router = "least-requests"
    align: Align = "none"

    def __post_init__(self) -> None:
        if self.num_replicas < 1:
            raise BenchError(f"replicas is {self.num_replicas}, expected at least 1")
        for name, known in (("router", ROUTERS), ("align", ALIGNS)):
            if getattr(self, name) not in known:
                raise BenchError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class FleetRunner:
    """Replays `trace` over a fleet; `config.max_num_seqs` and `load.concurrency` are those of one replica.

    `load` arrives at the router, so it is an open loop. Raises `BenchError` for a closed one.
    """

    trace: Trace
    config: EngineConfig
    load: Load
    fleet: Fleet
    options: SimulatorOptions = field(default_factory=SimulatorOptions)

    def __post_init__(self) -> None:
        if self.load.arrivals == "closed":
            raise BenchError(
                "arrivals is closed, expected poisson, gamma or trace: a router needs requests that arrive"
            )

    def run(self, planners: Sequence[Planner]) -> Run:
        """Every request of the load to its end; one planner for each replica, which sees only that replica.

        Seconds and counts of the run's totals are summed over replicas, `elapsed_s` is the fleet's own clock; steps are
        those of all replicas in the order of their start.
        """
        if len(planners) != self.fleet.num_replicas:
            raise BenchError(
                f"{len(planners)} planners were given, expected one for each of {self.fleet.num_replicas} replicas"
            )
        replays = [self._replay(planner) for planner in planners]
        workload = make_workload(self.trace, self.load)
        assert workload.arrival_s is not None
        advance = _advance_together if self.fleet.align == "max" else _advance_apart
        sent_to = np.zeros(workload.num_requests, dtype=np.int64)
        for sequence, arrival_s in enumerate(workload.arrival_s.tolist()):
            advance(replays, arrival_s)
            sent_to[sequence] = self._route(replays, sequence, arrival_s)
            _slots(replays[sent_to[sequence]]).route(sequence)
        advance(replays, np.inf)
        return self._run(replays, sent_to)

    def _replay(self, planner: Planner) -> Replay:
        name = name_of(planner)
        check_requires(planner.requires, self.trace, f"planner {name}")
        return Replay(self.trace, self.config, RoutedSlots(self.trace, self.load), self.options, planner, name)

    def _route(self, replays: list[Replay], sequence: int, now_s: float) -> int:
        if self.fleet.router == "round-robin":
            return sequence % len(replays)
        return int(np.argmin([_slots(replay).num_outstanding(now_s) for replay in replays]))

    def _run(self, replays: list[Replay], sent_to: IntArray) -> Run:
        used = [replay for replay in replays if replay.index > self.options.warmup_steps]
        if not used:
            replays[0].recorder.totals()  # says what is wrong: the warm-up left nothing
        totals = _summed([replay.recorder.totals() for replay in used], _elapsed_s(used))
        requests = _by_replica([replay.slots.finished_requests() for replay in replays], sent_to)
        steps = _in_order([replay.recorder.steps() for replay in replays])
        origin = SimulatedRunner(self.trace, self.config, self.load, self.options).origin
        return Run({}, {}, origin, totals, requests, steps)


def _slots(replay: Replay) -> RoutedSlots:
    assert isinstance(replay.slots, RoutedSlots)
    return replay.slots


def _advance_apart(replays: list[Replay], until_s: float) -> None:
    """Every replica by itself through the steps that begin before `until_s`."""
    for replay in replays:
        while replay.slots.num_unfinished and _begins_s(replay) < until_s:
            begun = replay.begin()
            if begun is not None:
                replay.complete(begun)


def _advance_together(replays: list[Replay], until_s: float) -> None:
    """All ranks through the steps that begin before `until_s`: one clock, one depth, the slowest rank's time."""
    while True:
        busy = [replay for replay in replays if replay.slots.num_unfinished]
        if not busy:
            return
        now_s = max(min(map(_begins_s, busy)), max(replay.now_s for replay in replays))
        if now_s >= until_s:
            return
        for replay in replays:
            replay.now_s = now_s
        begun = [(replay, step) for replay in busy if (step := replay.begin()) is not None]
        depth = max((planned_depth(step.plan) for _, step in begun), default=0)
        for replay, step in begun:
            deepest = depth if replay.planner.uses_drafter else 0
            replay.complete(step._replace(plan=replace(step.plan, num_draft_tokens=deepest)))


def _begins_s(replay: Replay) -> float:
    """When the replica's next step begins: now, or at the arrival of the first request that waits for an idle one."""
    return replay.now_s if replay.slots.num_active else max(replay.now_s, replay.slots.next_arrival_s())


def _elapsed_s(replays: list[Replay]) -> float:
    """From the first measured step's start to the last one's end, over all replicas."""
    windows = [replay.recorder.window_s for replay in replays]
    return max(end for _, end in windows) - min(start for start, _ in windows)


def _summed(totals: list[Totals], elapsed_s: float) -> Totals:
    names = [name for name in Totals.__slots__ if name not in ("elapsed_s", "outcomes")]
    sums = {name: sum(getattr(each, name) for each in totals) for name in names}
    return Totals(elapsed_s=elapsed_s, outcomes=np.sum([each.outcomes for each in totals], axis=0), **sums)


def _by_replica(columns: list[Columns], sent_to: IntArray) -> Columns:
    """Each request's row from the replica it was sent to."""
    requests = np.arange(len(sent_to))
    return {name: np.stack([each[name] for each in columns])[sent_to, requests] for name in columns[0]}


def _in_order(steps: list[Columns | None]) -> Columns | None:
    """All replicas' steps by their start, numbered anew."""
    kept = [each for each in steps if each is not None and len(each["step"])]
    if not kept:
        return None
    merged = {name: np.concatenate([each[name] for each in kept]) for name in kept[0]}
    order = np.argsort(merged["start_s"], kind="stable")
    return {name: column[order] for name, column in merged.items()} | {"step": np.arange(len(order))}
