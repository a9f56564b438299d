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
    of the trace once; a closed loop runs at least four for each place, repeating the trace where it is too short.
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
    """Requests in the order of their arrival: rows of the trace, unique ids (row + R per repetition), arrivals."""

    row: IntArray
    request_id: IntArray
    arrival_s: FloatArray


def make_workload(trace: Trace, load: Load) -> Workload:
    """The load's requests, deterministic under its seed: the trace shuffled anew for every repetition."""
    rng = np.random.default_rng(load.seed)
    available = trace.num_requests
    if load.arrivals == "trace":
        return _recorded_workload(trace, load)
    least = 4 * load.concurrency if load.arrivals == "closed" else 0
    wanted = max(load.num_requests or available, least)
    repetitions = -(-wanted // available)
    ids = np.concatenate([rng.permutation(available) + available * k for k in range(repetitions)])[:wanted]
    return Workload(ids % available, ids, _arrivals(load, wanted, rng))


def _recorded_workload(trace: Trace, load: Load) -> Workload:
    wanted = load.num_requests or trace.num_requests
    if wanted > trace.num_requests:
        raise BenchError(
            f"num_requests is {wanted}, expected at most {trace.num_requests}, which trace {trace.info.name} has"
        )
    order = np.argsort(trace.arrival_s, kind="stable")[:wanted]
    return Workload(order, order, trace.arrival_s[order] - trace.arrival_s[order[0]])


def _arrivals(load: Load, count: int, rng: np.random.Generator) -> FloatArray:
    if load.arrivals == "closed":
        return np.zeros(count)
    cv = 1.0 if load.arrivals == "poisson" else load.cv
    assert load.rate is not None
    gaps = rng.gamma(1.0 / cv**2, cv**2 / load.rate, size=count)
    return np.cumsum(gaps)
