"""Names of what ships: plain tables, name -> "module:Class"; `lightspec_bench.registry` resolves them."""

from __future__ import annotations

PLANNERS = {
    "none": "lightspec_bench.planners.none:NoSpeculation",
    "static": "lightspec_bench.planners.static:Static",
    "schedule": "lightspec_bench.planners.schedule:Schedule",
    "lightspec-reference": "lightspec_bench.planners.lightspec_reference:LightSpecReference",
    "lightspec": "lightspec_bench.planners.lightspec:LightSpec",
    "acceptance-target": "lightspec_bench.planners.acceptance_target:AcceptanceTarget",
    "dspark": "lightspec_bench.planners.dspark:DSpark",
    "oracle": "lightspec_bench.planners.oracle:Oracle",
    # schedules and gates
    # acceptance trackers and history
    # cost models
    # draft-side exits
    # bandits
    # wrappers
}
RUNNERS = {"simulated": "lightspec_bench.runners.simulated:SimulatedRunner"}
IMPORTERS = {
    "jsonl": "lightspec_bench.traces.jsonl:JsonLines",
    "levvius": "lightspec_bench.traces.levvius:Levvius",
    "specdecode-bench": "lightspec_bench.traces.specdecode_bench:SpecDecodeBench",
}
