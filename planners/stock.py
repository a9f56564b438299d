"""Stock: an engine's own code for a rule where the runner is that engine, our planner of the same rule elsewhere."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Batch, BenchError, EngineConfig, IntArray, Plan
from lightspec_bench.planners.schedule import Schedule
from lightspec_bench.planners.static import Static
from lightspec_bench.planners.vllm_adaptive_verification import VllmAdaptiveVerification
from lightspec_bench.planners.wrapper import Wrapper


class Stock(Wrapper):
    """What the engine ships, to compare ours with: `stock:planner=(schedule:ranges=[[1,4,5],[5,64,2]])`.

    Under the vLLM runner none of our planning runs: vLLM's own lookup chooses K from `depths`, its dynamic speculative
    decoding for a `schedule` and a fixed number for `static`, or its adaptive verification for
    `vllm-adaptive-verification`, which only its GPU runner V2 has. In the simulator and under the torch runner it is
    the planner inside. `depths` is K by batch size, 0 to `max_num_seqs`; None for adaptive verification.
    Raises `BenchError` for any other planner, and for a schedule with context lengths, which vLLM does not have.
    """

    stock = True  # what a runner tells it by

    def __init__(self, config: EngineConfig, planner: str = "schedule") -> None:
        super().__init__(config, "stock", planner)
        self.depths: IntArray | None = None
        if isinstance(self.inner, Static):
            self.depths = np.full(config.max_num_seqs + 1, self.inner.k)
        elif isinstance(self.inner, Schedule):
            if len(self.inner.context_starts) > 1:
                raise BenchError(f"stock: {planner} looks at context lengths, expected batch sizes alone, as vLLM does")
            self.depths = self.inner.table
        elif not isinstance(self.inner, VllmAdaptiveVerification):
            raise BenchError(
                f"stock: planner is {planner}, expected static, schedule or vllm-adaptive-verification, "
                "which an engine has code of its own for"
            )

    def change(self, plan: Plan, batch: Batch) -> Plan:
        return plan
