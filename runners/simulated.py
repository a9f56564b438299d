"""The simulated runner: replays a trace under a planner in discrete decode steps on a modelled clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from lightspec_bench.check import check_requires
from lightspec_bench.core import BenchError, EngineConfig, Planner, Run, Trace
from lightspec_bench.registry import name_of
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.replay import Replay
from lightspec_bench.runners.scheduled import scheduled_replay
from lightspec_bench.runners.slots import Slots


@dataclass(frozen=True, slots=True)
class SimulatedRunner:
    """Replays `trace` under the load; an instance can run any number of planners, one after another."""

    trace: Trace
    config: EngineConfig
    load: Load
    options: SimulatorOptions = field(default_factory=SimulatorOptions)

    def run(self, planner: Planner) -> Run:
        """Every request of the load to its end.

        Raises `BenchError` where the trace lacks what the planner requires, `PlanError` for a plan out of bounds.
        """
        trace, name = self.trace, name_of(planner)
        check_requires(planner.requires, trace, f"planner {name}")
        if trace.max_draft_tokens != self.config.max_draft_tokens:
            raise BenchError(
                f"max_draft_tokens is {self.config.max_draft_tokens}, expected {trace.max_draft_tokens}, "
                f"which trace {trace.info.name} was made with"
            )
        slots = Slots(trace, self.load)
        done = scheduled_replay(trace, self.config, slots, self.options, planner)
        totals, requests, steps = done or Replay(trace, self.config, slots, self.options, planner, name).run()
        return Run({}, {}, self.origin, totals, requests, steps)

    @property
    def origin(self) -> str:
        """Where this runner's numbers come from, in words."""
        how = "approximately simulated" if self.trace.info.indexing == "step" else "simulated"
        return f"{how} from a {self.trace.info.origin} trace"
