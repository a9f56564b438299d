"""How long planners think: median milliseconds of plan() and observe(), every shipped one at 256 requests, D = 11.

Why: planning has to hide behind the drafting of the step before, a few milliseconds at most; LightLLM's own planner
takes 10 to 20 ms here. A plan has 0.3 ms; `lightspec-reference` 0.15 ms to decide what the rules written as plain loops
decide (the ratio), over the same 552 captured sizes. It is timed as it serves, and in its worst case: every step
verifies everything, so that all its prices change (`re-pricing`). Medians on one core; outcomes are drawn from a seed.
"""

from __future__ import annotations

import argparse
import json
import runpy
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.core import Batch, Drafter, EngineConfig, IntArray, Plan, Planner, Step
from lightspec_bench.fill import fill, prefix_survival
from lightspec_bench.latency_file import load_latency
from lightspec_bench.names import PLANNERS
from lightspec_bench.planners.lightspec_reference import LightSpecReference
from lightspec_bench.registry import make_planner

DEPTH, LATENCY, TARGET_MS, REFERENCE_TARGET_MS = 11, "h200-qwen3-14b", 0.3, 0.15
SIZES = (1, 64, 256)
BY_SIZE = ("none", "static", "lightspec", "lightspec-reference", "lightspec-reference, re-pricing")
REQUIRED = {"trtllm-schedule": "meaning=upper", "dsde": "approximation=entropy"}  # options without a usable default
OTHERS = tuple(
    f"{name}:{REQUIRED[name]}" if name in REQUIRED else name for name in PLANNERS if name not in ("oracle", *BY_SIZE)
)
ROOT = Path(__file__).parents[1]


def timed(call: Callable[[], Any], spent: list[float]) -> Any:
    start = time.perf_counter()
    result = call()
    spent.append(1e3 * (time.perf_counter() - start))
    return result


def make_batch(index: int, pending: IntArray, confidence: Any) -> Batch:
    shown = np.where(np.arange(DEPTH) < pending[:, None], confidence, np.float32(np.nan))
    entropy = -np.log(shown)
    return Batch(index, 0.0, np.arange(len(pending)), pending, pending + 100, pending + 1000, shown, entropy)


def make_step(plan: Plan, batch: Batch, verify: IntArray, accepted: IntArray) -> Step:
    context = int(batch.num_context_tokens.sum())
    return Step(
        batch.step, plan, batch.request_id, batch.num_draft_tokens, verify, accepted, batch.confidence, batch.entropy,
        context, 0, 0.01, 0.004, 0.001, 0.0, 0.0, 0.0,
    )  # fmt: skip


def measure(spec: str, size: int, steps: int, literal_steps: int, seed: int = 0) -> dict[str, Any]:
    """Medians of one planner at one batch size, and of the plain loops beside it where there are some."""
    name, _, worst_case = spec.partition(",")
    latency = load_latency(LATENCY)
    planner: Planner = make_planner(name, EngineConfig(Drafter("autoregressive", DEPTH), latency, size))
    literal = make_literal(planner) if isinstance(planner, LightSpecReference) else None
    rng = np.random.default_rng(seed)
    plan_ms: list[float] = []
    observe_ms: list[float] = []
    literal_ms: list[float] = []
    pending = np.full(size, DEPTH if planner.uses_drafter else 0)
    for index in range(steps):
        confidence = rng.beta(2.0, 1.0, (size, DEPTH)).astype(np.float32)
        batch = make_batch(index, pending, confidence)
        plan = timed(partial(planner.plan, batch), plan_ms)
        verify = pending if worst_case else verified(plan, confidence, pending)
        accepted = np.minimum(verify, np.cumprod(rng.random((size, DEPTH)) < confidence, axis=1).sum(axis=1))
        if literal is not None and index < literal_steps:
            compare(literal, plan, size, verify, accepted, literal_ms)
        timed(partial(planner.observe, make_step(plan, batch, verify, accepted)), observe_ms)
        if worst_case and isinstance(planner, LightSpecReference):
            planner.rules.depth = DEPTH
            if literal is not None:
                literal.depth = DEPTH
        else:
            pending = np.broadcast_to(plan.num_draft_tokens, (size,)).astype(np.int64)
    row: dict[str, Any] = {"planner": spec, "requests": size}
    row |= {"plan_ms": round(statistics.median(plan_ms), 4), "observe_ms": round(statistics.median(observe_ms), 4)}
    # The first two plans see the cold start and, for a planner with tables, a batch size for the first time.
    row["slowest_ms_after_start"] = round(max(plan_ms[2:]), 4)
    if literal_ms:
        row["literal_ms"] = round(statistics.median(literal_ms[1:]), 4)
        row["times_faster_than_literal"] = round(row["literal_ms"] / row["plan_ms"], 1)
    target_ms = TARGET_MS if literal is None else REFERENCE_TARGET_MS
    return row | {"target_plan_ms": target_ms if size == max(SIZES) else None}


def verified(plan: Plan, confidence: Any, pending: IntArray) -> IntArray:
    """The plan's verify tokens per request: its counts, or its budget through Fill."""
    if plan.num_verify_tokens is not None:
        return plan.num_verify_tokens
    return fill(prefix_survival(confidence), pending, plan.num_target_tokens or 0)


def make_literal(planner: LightSpecReference) -> Any:
    """The rules as plain loops, from the tests, over the very tables of a planner."""
    rules = runpy.run_path(str(ROOT / "tests/planners/literal_lightspec.py"))["LiteralLightSpec"]
    prices = planner.rules.prices
    tables = [dict(zip(t.sizes.tolist(), t.costs.tolist(), strict=True)) for t in (prices.target, prices.draft)]
    return rules(prices.mode, DEPTH, *tables)


def compare(literal: Any, plan: Plan, size: int, verify: IntArray, accepted: IntArray, spent: list[float]) -> None:
    """Time the plain loops on the same step; they must decide the same."""
    decided = timed(partial(literal.plan, size, size, size * (DEPTH + 1)), spent)
    assert (decided[0], decided[2]) == (plan.num_target_tokens, plan.num_draft_tokens), (decided, plan)
    literal.update(size, size + int(verify.sum()), decided[1], (accepted + 1).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps, under 50 s on 2 cores")
    quick = parser.parse_args().quick
    steps, literal_steps = (300, 12) if quick else (3000, 100)
    rows = [measure(spec, size, steps, literal_steps) for spec in BY_SIZE for size in SIZES]
    rows += [measure(spec, max(SIZES), steps, literal_steps) for spec in OTHERS]
    print(f"{LATENCY} (modelled), autoregressive drafter, D = {DEPTH}; medians of {steps} steps, milliseconds")
    print(f"{'planner':34}{'N':>5}{'plan':>9}{'observe':>9}{'slowest':>9}{'literal':>9}{'x faster':>10}{'target':>8}")
    for row in rows:
        cells = [row.get(key) for key in ("literal_ms", "times_faster_than_literal", "target_plan_ms")]
        literal_ms, ratio, target = ("" if cell is None else f"{cell:g}" for cell in cells)
        print(
            f"{row['planner']:34}{row['requests']:>5}{row['plan_ms']:>9.4f}{row['observe_ms']:>9.4f}"
            f"{row['slowest_ms_after_start']:>9.3f}{literal_ms:>9}{ratio:>10}{target:>8}"
        )
    print(json.dumps({"steps": steps, "latency": LATENCY, "max_draft_tokens": DEPTH, "planners": rows}))


if __name__ == "__main__":
    main()
