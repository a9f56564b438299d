"""The torch engine as measured runs use it: a target and a drafter, loaded once for many runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightspec_bench.core import Drafter, EngineConfig, Planner, Run
from lightspec_bench.runners.requests import Request, Sending
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_drafters import make_drafter
from lightspec_bench.runners.torch_machine import describe_machine
from lightspec_bench.runners.torch_model import TorchModel, stop_tokens
from lightspec_bench.runners.torch_runner import TorchOptions, TorchRunner
from lightspec_bench.runners.torch_targets import load_target


class TorchBench:
    """One start for every planner: a planner that uses no drafter runs without the one that is loaded."""

    name = "lightspec-bench torch runner"
    signals = frozenset({"confidence", "entropy"})

    def __init__(self, target: TorchModel, loaded: TorchDrafter) -> None:
        self.target, self.loaded = target, loaded

    @classmethod
    def load(
        cls,
        target: str,
        drafter: str,
        max_draft_tokens: int | None,
        dtype: str,
        device: str,
        graph_sizes: str | None = None,
    ) -> TorchBench:
        """Raises `BenchError` in one sentence where target or drafter cannot be had."""
        model = load_target(target, dtype, device, graph_sizes)
        return cls(model, make_drafter(drafter, model, max_draft_tokens))

    @property
    def drafter(self) -> Drafter:
        return self.loaded.shape

    @property
    def drafter_name(self) -> str:
        return self.loaded.name

    def start_of(self, planner: str) -> int:
        return 0

    def lacks(self, planner: Planner) -> str:
        return ""

    def machine(self) -> dict[str, Any]:
        return describe_machine(self.target.device) | {"passes": str(self.target.graphs)}

    def run(
        self, planner: Planner, requests: Sequence[Request], config: EngineConfig, sending: Sending, warmup_steps: int
    ) -> tuple[Run, dict[int, list[int]]]:
        options = TorchOptions(
            stop_tokens=stop_tokens(self.target),
            num_requests=sending.num_requests,
            shuffle_seed=sending.shuffle_seed,
            keep_full=sending.keep_full,
            warmup_steps=warmup_steps,
            capture_ahead=True,
        )
        runner = TorchRunner(self.target, self.loaded, requests, config, options)
        return runner.run(planner), runner.outputs

    def logits(
        self, texts: Sequence[Sequence[int]], tokens: Sequence[tuple[int | None, int | None]]
    ) -> list[tuple[float, float] | None] | None:
        return None

    def close(self) -> None:
        pass
