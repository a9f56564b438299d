"""Measuring a case of planner_quality: every planner and every static K over the same tokens, as rows of ratios."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from quality_cases import Case
from quality_replay import Curve, concatenated, planner_curve, static_curves

from lightspec_bench.core import BenchError, Drafter, EngineConfig, Trace
from lightspec_bench.latency_file import load_latency
from lightspec_bench.registry import make_planner


def measure(case: Case, planners: tuple[str, ...], oracle: bool) -> dict[str, Any]:
    """The case's rows, one a latency model and phase, and reasons for planners that do not fit its trace.

    The first planner is the one under test. A row holds throughput as ratios to the best static K in hindsight over
    the same tokens, no speculation included; `static_k0` is depth 0 with the drafter loaded and `loaded` the best K
    from 0 on, so that what merely loading the drafter costs can be seen.
    """
    trace = concatenated(case.phases)
    load = case.load(trace)
    statics = static_curves(trace, case.latencies, load)
    fitting, skipped = fit(trace, case, planners)
    rows = []
    for latency in case.latencies:
        model = load_latency(latency)
        specs = [*fitting, "oracle"] if oracle else fitting
        curves = {spec: planner_curve(trace, model, spec, load) for spec in specs}
        for name, first, last in windows(case, trace, curves, statics[latency]):
            row = {"part": case.part, "case": name, "latency": latency, "N": case.concurrency}
            row |= {"origin": f"simulated from a {trace.info.origin} trace", "latency_origin": model.origin}
            rows.append(row | judged(curves, statics[latency], first, last))
    return {"rows": rows, "skipped": skipped}


def fit(trace: Trace, case: Case, planners: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Planners that can run on the trace, and why the others cannot."""
    drafter = Drafter(trace.info.drafter_kind, trace.max_draft_tokens)
    config = EngineConfig(drafter, load_latency(case.latencies[0]), case.concurrency)
    reasons = {spec: misfit(spec, config, trace) for spec in planners}
    if reasons[planners[0]]:
        raise BenchError(f"{planners[0]} on {case.label}: {reasons[planners[0]]}")
    skipped = {f"{spec} on {case.label}": reason for spec, reason in reasons.items() if reason}
    return [spec for spec in planners if not reasons[spec]], skipped


def misfit(spec: str, config: EngineConfig, trace: Trace) -> str:
    """Why the planner cannot run on the trace; empty where it can."""
    try:
        planner = make_planner(spec, config, trace)
    except BenchError as error:
        return str(error)
    missing = [needed for needed in sorted(planner.requires) if getattr(trace, needed) is None]
    return f"needs {missing[0]}, which trace {trace.info.name} does not have" if missing else ""


def windows(
    case: Case, trace: Trace, curves: dict[str, Curve], statics: dict[str, Curve]
) -> list[tuple[str, float, float]]:
    """(name, first token, last token) of what is scored; the same tokens for every planner of a row."""
    warm = [c.tokens_after(case.warmup_steps) for spec, c in curves.items() if spec != "oracle"]
    first, last = max(warm), min(float(c.tokens[-1]) for c in (*curves.values(), *statics.values()))
    if case.last_step is not None:
        last = min(last, next(iter(curves.values())).tokens_after(case.last_step))
    if len(case.phases) == 1:
        return [(case.label, first, last)]
    counts = [concatenated((spec,)).num_requests for spec in case.phases]
    bounds = np.cumsum(np.r_[0, trace.num_output_tokens - 1])[np.cumsum([0, *counts])].astype(float)
    bounds[-1] -= case.concurrency * float(trace.num_output_tokens.max())  # the drain
    bounds[0] = first
    pairs = enumerate(pairwise(bounds), 1)
    return [(f"{case.label}, phase {number}", begin, end) for number, (begin, end) in pairs]


def judged(curves: dict[str, Curve], statics: dict[str, Curve], first: float, last: float) -> dict[str, Any]:
    """The figures of one row."""
    if last <= first:
        raise BenchError(f"{last:.0f} tokens came out and {first:.0f} were warm-up, expected more tokens to score")
    spent_s = {spec: c.seconds_between(first, last) for spec, c in {**statics, **curves}.items()}
    best = min(statics, key=lambda spec: spent_s[spec])
    loaded = min((spec for spec in statics if spec != "none"), key=lambda spec: spent_s[spec])
    ratios = {spec: spent_s[best] / spent_s[spec] for spec in curves}
    return {
        "best_static": best,
        "static_tokens_per_s": (last - first) / spent_s[best],
        "loaded": spent_s[best] / spent_s[loaded],
        "static_k0": spent_s[best] / spent_s["static:k=0"],
        "oracle": ratios.pop("oracle", None),
        "steps": curves[next(iter(curves))].steps_between(first, last),
        "ratios": ratios,
        "planner_ms": {spec: curves[spec].planner_ms for spec in ratios},
    }
