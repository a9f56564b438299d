"""Served steps: short real runs that say what a step costs beside its passes, and what its passes cost in earnest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import Drafter, EngineConfig, FloatArray, Planner
from lightspec_bench.latency import HostCost, LinearLatency
from lightspec_bench.latency_curves import AffineCurve
from lightspec_bench.runners.requests import Request
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_runner import TorchOptions, TorchRunner

PROMPT_TOKENS = 32
WARM_UP_STEPS = 3
MakePlanner = Callable[[EngineConfig, bool], Planner]


@dataclass(frozen=True, slots=True)
class ServedStep:
    """One step of a real run, without prefill: its shape, context summed over the batch, and verifying's seconds."""

    rows: int
    requests: int
    context: int
    verify_s: float


@dataclass(frozen=True, slots=True)
class Served:
    """A real run of `requests` at a time: medians of a step's host and draft seconds, and the steps themselves."""

    requests: int
    drafts: bool
    host_s: float
    draft_s: float
    steps: tuple[ServedStep, ...]


def served_steps(
    target: TorchModel,
    drafter: TorchDrafter | None,
    requests: int,
    context: int,
    width: int,
    num_steps: int,
    make_planner: MakePlanner,
) -> Served:
    """Run `requests` random prompts for about `num_steps` steps, drafting D tokens where there is a drafter.

    Prompts have `context` tokens, or fewer where the target takes no more. Only steps of the full batch without a
    prefill count.
    """
    rng = np.random.default_rng(1)
    most = (target.max_positions or context + num_steps) - num_steps
    size = max(min(context, PROMPT_TOKENS if target.device.type == "cpu" else context, most), 1)
    sent = [Request(rng.integers(0, target.vocab_size, size).tolist(), num_steps + 1) for _ in range(requests)]
    shape = drafter.shape if drafter is not None else Drafter("ngram", width)
    config = EngineConfig(shape, _unpriced(), requests, lag_steps=1)
    run = TorchRunner(target, drafter, sent, config, TorchOptions(warmup_steps=0)).run(
        make_planner(config, drafter is not None)
    )
    assert run.steps is not None
    steps = run.steps
    whole = (steps["num_requests"] == requests) & (steps["num_prefill_tokens"] == 0)
    whole &= np.arange(len(whole)) >= min(WARM_UP_STEPS, max(int(whole.sum()) - 1, 0))

    def median(name: str) -> float:
        values: FloatArray = steps[name][whole]
        return float(np.median(values)) if len(values) else 0.0

    columns = ("num_target_tokens", "num_requests", "num_context_tokens", "verify_s")
    rows = zip(*(steps[name][whole].tolist() for name in columns), strict=True)
    found = tuple(ServedStep(int(b), int(n), int(c), float(s)) for b, n, c, s in rows)
    return Served(requests, drafter is not None, median("host_s"), median("draft_s"), found)


def _unpriced() -> LinearLatency:
    """Planners are told a price; these do not read it."""
    line = AffineCurve(1e-3, 0.0, 0.0)
    return LinearLatency(name="unpriced", origin="modelled", source="none", target=line, draft=line, host=HostCost())
