"""Conditions: what all cells of a suite share, in the load and in the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from lightspec_bench.core import BenchError
from lightspec_bench.runners.fleet import Fleet
from lightspec_bench.runners.options import SimulatorOptions


@dataclass(frozen=True, slots=True)
class Conditions:
    """What every cell of a suite shares: the load's shape and the simulated engine's behaviour.

    See `runners.load.Load`, `runners.options.SimulatorOptions` and `runners.fleet.Fleet` for the fields; `lag_steps` 1
    is an engine that plans the next step while the device still runs this one. With `replicas` a concurrency is that
    of one replica and the rate that of the whole fleet.
    """

    arrivals: str = "closed"
    rate: float | None = None
    cv: float = 1.0
    num_requests: int | None = None
    lag_steps: int = 1
    prefill: str = "off"
    chunk_tokens: int = 2048
    catch_up: str = "each_step"
    planner_time: str = "measured"
    warmup_steps: int = 0
    replicas: int = 1
    router: str = "least-requests"
    align: str = "none"

    @property
    def is_fleet(self) -> bool:
        """Whether requests go through a router; one replica that is aligned with nobody is a plain engine."""
        return self.replicas > 1


# What real engines do. torch: prompts run alone, and a drafter catches up when it drafts again. vLLM: prompts share the
# steps of others, and its drafter reads every row at once; synchronous, as it is on a CPU.
REAL: dict[str, dict[str, Any]] = {
    "torch": {"prefill": "separate", "catch_up": "on_resume"},
    "vllm": {"prefill": "chunked", "lag_steps": 0},
}


def simulator_options(conditions: Conditions, keep_steps: bool = True) -> SimulatorOptions:
    """The conditions' part that is about the simulated engine."""
    return SimulatorOptions(
        prefill=cast("Any", conditions.prefill),
        chunk_tokens=conditions.chunk_tokens,
        catch_up=cast("Any", conditions.catch_up),
        planner_time=cast("Any", conditions.planner_time),
        warmup_steps=conditions.warmup_steps,
        keep_steps=keep_steps,
    )


def fleet_of(conditions: Conditions) -> Fleet:
    """The conditions' part that is about several engines. Raises `BenchError` for what is no fleet."""
    return Fleet(conditions.replicas, cast("Any", conditions.router), cast("Any", conditions.align))


def check_conditions(conditions: Conditions, source: str) -> None:
    """Raise `BenchError`, naming `source`, where conditions do not go together."""
    try:
        fleet_of(conditions)
    except BenchError as error:
        raise BenchError(f"{source}: {error}") from None
    if conditions.is_fleet and conditions.arrivals == "closed":
        raise BenchError(
            f"{source}: replicas is {conditions.replicas} and arrivals is closed, expected poisson, gamma or trace: a "
            "router needs requests that arrive"
        )
