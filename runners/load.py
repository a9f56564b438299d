"""Load: which requests of a trace arrive when, in a closed loop or an open one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from lightspec_bench.core import BenchError, FloatArray, IntArray, Trace

Arrivals: TypeAlias = Literal["closed", "poisson", "gamma", "trace"]
ARRIVALS: tuple[Arrivals, ...] = ("closed", "poisson", "gamma", "trace")


@dataclass(frozen=True, slots=True)
class Load:
    """How requests reach the engine.

    `closed` keeps `concurrency` requests running; `poisson` and `gamma` send `rate` requests per second with a
    coefficient of variation of 1 or `cv`; `trace` replays the recorded arrivals. In an open loop at most
    `concurrency` requests run at once and the others wait. `num_requests` is how many to run, None for every request
    of the trace once. A closed loop runs at least four for each place, repeating the trace where it is too short, and
    stays full with more, which are not counted as requests, until the last of them is done: there is no tail.
    """

    concurrency: int
    arrivals: Arrivals = "closed"
    rate: float | None = None
    cv: float = 1.0
    num_requests: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.arrivals not in ARRIVALS:
            raise BenchError(f"arrivals is {self.arrivals!r}, expected one of {', '.join(ARRIVALS)}")
        if self.concurrency < 1:
            raise BenchError(f"concurrency is {self.concurrency}, expected at least 1")
        if self.arrivals in ("poisson", "gamma") and not (self.rate and 0.0 < self.rate < np.inf):
            raise BenchError(f"rate is {self.rate}, expected requests per second above 0 for {self.arrivals} arrivals")
        if not 0.0 < self.cv < np.inf:
            raise BenchError(f"cv is {self.cv}, expected above 0")
        if self.num_requests is not None and self.num_requests < 1:
            raise BenchError(f"num_requests is {self.num_requests}, expected at least 1")


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in the order they are sent: unique ids (row in the trace, plus R per repetition) and arrivals.

    The first `num_requests` count. `arrival_s` is None in a closed loop, where a request arrives when a place is
    free; more may follow there, to the end of the last repetition.
    """

    request_id: IntArray
    num_requests: int
    arrival_s: FloatArray | None


def make_workload(trace: Trace, load: Load) -> Workload:
    """The load's requests, deterministic under its seed: the trace shuffled anew for every repetition."""
    if load.arrivals == "trace":
        return _recorded_workload(trace, load)
    least = 4 * load.concurrency if load.arrivals == "closed" else 0
    wanted = max(load.num_requests or trace.num_requests, least)
    repetitions = -(-wanted // trace.num_requests)
    ids = np.concatenate([repetition(trace, load.seed, number) for number in range(repetitions)])
    if load.arrivals == "closed":
        return Workload(ids, wanted, None)
    return Workload(ids[:wanted], wanted, _arrivals(load, wanted))


def repetition(trace: Trace, seed: int, number: int) -> IntArray:
    """The ids of the trace's requests in the order of their repetition `number`, (R,)."""
    order = np.random.default_rng([seed, number]).permutation(trace.num_requests)
    return np.asarray(order + trace.num_requests * number)


def _recorded_workload(trace: Trace, load: Load) -> Workload:
    wanted = load.num_requests or trace.num_requests
    if wanted > trace.num_requests:
        raise BenchError(
            f"num_requests is {wanted}, expected at most {trace.num_requests}, which trace {trace.info.name} has"
        )
    order = np.argsort(trace.arrival_s, kind="stable")[:wanted]
    return Workload(order, wanted, trace.arrival_s[order] - trace.arrival_s[order[0]])


def _arrivals(load: Load, count: int) -> FloatArray:
    cv = 1.0 if load.arrivals == "poisson" else load.cv
    assert load.rate is not None
    gaps = np.random.default_rng(load.seed).gamma(1.0 / cv**2, cv**2 / load.rate, size=count)
    return np.cumsum(gaps)
