"""How good a planner's decisions are: simulated throughput against the best static K in hindsight, no speculation
included, against other planners and against the oracle, over a grid of workloads, and where planners go wrong.

Why: a planner that loses to a fixed K somewhere will be switched off there, so the worst cell counts as much as the
mean. All of a cell's planners replay the same requests and are scored over the same output tokens, after 200 steps of
warm-up. Special workloads: shifts from one acceptance to another (against the best static K of each phase), short
outputs from a cold start, one request at a time under many seeds, confidences that are biased or say nothing. Planner
time is measured apart, not charged, so that figures repeat exactly; the last table holds every figure to its target.

    python benchmarks/planner_quality.py --quick                           a thinned grid, 50 s on 2 cores
    python benchmarks/planner_quality.py --only grid --concurrency 64      part of it
    python benchmarks/planner_quality.py --quick --ablate lightspec:calibration=false
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from typing import Any

from quality_cases import (
    CONCURRENCIES,
    HOSTS_MS,
    LATENCIES,
    MODELLED,
    RECORDED,
    SHIFTS,
    UNRELIABLE,
    Case,
    churn,
    grid,
    priced_with,
    shifting,
    unlucky,
    unreliable,
)
from quality_measure import measure
from quality_replay import concatenated, replay
from quality_summary import (
    INFORMED,
    PARTS,
    REFERENCE,
    Row,
    Target,
    figure_lines,
    figures,
    grid_lines,
    special_lines,
    target_lines,
    targets,
)

from lightspec_bench.core import BenchError
from lightspec_bench.latency_file import load_latency
from lightspec_bench.runners.load import Load

ROOFLINE, LINE, CLIFF = "h200-qwen3-14b", "h100-llama-3.1-8b", "b300-deepseek-v4-flash"
QUICK_TRACES = (RECORDED[0], RECORDED[2], "synthetic:shape=dspark,workload=code")
QUICK_LATENCIES, QUICK_SIZES = (f"{ROOFLINE}:host_step_ms=2", f"{CLIFF}:host_step_ms=10"), (4, 64, 256)
BESIDE = (REFERENCE, "dspark")
# Adaptive verification leaves the draft depth to the engineer: the deepest, and a moderate one.
RIVALS = (
    "vllm-adaptive-verification", "clamp:most=3,planner=vllm-adaptive-verification", "sglang-throughput-aware",
    "turbospec", INFORMED,
)  # fmt: skip
TIMED = (
    (256, "smollm2-135m-eagle", 0.3),
    (1024, "synthetic:shape=eagle3,workload=code,max_draft_tokens=15,num_requests=64", 1.0),
)


def cases(args: argparse.Namespace, quick: bool) -> list[Case]:
    """The cases of the parts that were asked for."""
    latencies = priced_with(args.latencies or LATENCIES, args.hosts_ms)
    if quick and not args.latencies:
        latencies = QUICK_LATENCIES
    sizes = args.concurrency or (QUICK_SIZES if quick else CONCURRENCIES)
    made = {"grid": grid(args.traces or (QUICK_TRACES if quick else RECORDED + MODELLED), latencies, sizes, args.seed)}
    made |= quick_workloads(args.seed) if quick else special_workloads(args.seed)
    return [case for part in args.only for case in made[part]]


def special_workloads(seed: int) -> dict[str, Iterator[Case]]:
    two, cliff = priced_with([ROOFLINE, LINE], [2.0]), priced_with([ROOFLINE, CLIFF], [2.0])
    runs = [(64, 300), (64, 1000), (64, 2000), (16, 300), (256, 300)]
    return {
        "shift": shifting(list(SHIFTS), runs, two, seed),
        "churn": churn([0.35, 0.6, 0.8], two, seed),
        "seeds": unlucky(range(seed, seed + 100), two[:1]),
        "confidences": unreliable(list(UNRELIABLE), ["chat", "code"], cliff, [4, 64, 256], seed),
    }


def quick_workloads(seed: int) -> dict[str, Iterator[Case]]:
    one = priced_with([ROOFLINE], [2.0])
    return {
        "shift": shifting(list(SHIFTS)[:1], [(64, 300)], one, seed),
        "churn": churn([0.35, 0.8], one, seed),
        "seeds": unlucky(range(seed, seed + 10), one),
        "confidences": unreliable(["biased high", "useless"], ["code"], one, [64], seed),
    }


def run(todo: Sequence[Case], planners: tuple[str, ...], oracle: bool, jobs: int) -> tuple[list[Row], dict[str, str]]:
    """Rows in the order of the cases, and reasons for what was left out. The longest cases start first."""
    found: list[dict[str, Any]] = [{} for _ in todo]
    order = sorted(range(len(todo)), key=lambda i: -effort(todo[i]))
    # Spawned, not forked: pyarrow's threads do not survive a fork.
    with ProcessPoolExecutor(min(jobs, len(todo)), multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(measure, todo[i], *watched(todo[i], planners, oracle)): i for i in order}
        for number, future in enumerate(as_completed(futures), 1):
            found[futures[future]] = future.result()
            if sys.stderr.isatty():
                print(f"\r{number} of {len(todo)} cases", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    skipped = {name: reason for result in found for name, reason in result["skipped"].items()}
    return [row for result in found for row in result["rows"]], skipped


def watched(case: Case, planners: tuple[str, ...], oracle: bool) -> tuple[tuple[str, ...], bool]:
    """The planners that a case is run with, and whether the oracle is: rivals meet on the grid alone."""
    if case.part == "grid":
        return planners, oracle
    return tuple(spec for spec in planners if spec not in RIVALS), False


def effort(case: Case) -> float:
    return len(case.latencies) * len(case.phases) * case.steps * (100 + case.concurrency)


def planner_times(planner: str) -> list[Target]:
    """Median milliseconds of plan() and observe() per step, alone on the machine's cores as far as we know."""
    found = []
    for number, spec, target_ms in TIMED:
        trace = concatenated((spec,))
        steps = replay(trace, load_latency(ROOFLINE), planner, Load(number, num_requests=4 * number))
        planner_s = sorted(steps["planner_s"])
        what = f"plan() + observe(), N={number}, D={trace.max_draft_tokens}, ms"
        worst_ms = f"measured: median of {len(planner_s)} steps, slowest {1e3 * planner_s[-1]:.2f}"
        found.append(Target(what, 1e3 * float(planner_s[len(planner_s) // 2]), target_ms, worst_ms, at_most=True))
    return found


def ablation(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Figures of the planner and of every variant on the thinned grid and the thinned special workloads."""
    specs = tuple(dict.fromkeys([args.planner, *args.ablate]))
    rows, _ = run(cases(args, True), specs, args.oracle, args.jobs)
    return {spec: figures(rows, spec) for spec in specs}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = partial(parser.add_argument, metavar="SPEC")
    add("--planner", default="lightspec", help="the planner under test")
    add(
        "--against",
        action="append",
        help=f"a planner beside it; repeat (default {', '.join(BESIDE)}; on the grid rivals too)",
    )
    add("--ablate", action="append", default=[], help="a variant to compare on the thinned grid; repeat")
    add("--traces", nargs="+", help="traces of the grid")
    add("--latencies", nargs="+", help="latency models of the grid")
    parser.add_argument("--hosts-ms", nargs="+", type=float, default=HOSTS_MS, help="host times per step of the grid")
    parser.add_argument("--concurrency", nargs="+", type=int, help="concurrencies of the grid")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run (default all)")
    parser.add_argument("--oracle", action=argparse.BooleanOptionalAction, help="default: unless --quick")
    parser.add_argument("--quick", action="store_true", help="a thinned grid, under 50 s on 2 cores")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.oracle = not args.quick if args.oracle is None else args.oracle
    return args


def main() -> None:
    args = arguments()
    start = time.perf_counter()
    usual = BESIDE if args.quick else (*BESIDE, *RIVALS)
    against = [spec for spec in args.against or usual if spec != args.planner]
    specs = (args.planner, *against)
    timed = planner_times(args.planner)
    rows, skipped = run(cases(args, args.quick), specs, args.oracle, args.jobs)
    found = targets(rows, args.planner, against) + timed
    by_spec = {spec: figures(rows, spec) for spec in specs}
    print(f"{args.planner}: throughput as a ratio to the best static K in hindsight; {len(rows)} rows")
    print(
        "smollm2: simulated from recorded traces; all others: from modelled traces; docs/latency.md describes the costs"
    )
    sections = {
        "Grid: ratio, best static K, oracle's ratio": grid_lines(rows, args.planner),
        "Special workloads: best static, the best with a drafter loaded, planners": special_lines(rows, specs),
        "Planners: worst row and geometric mean of every part": figure_lines(by_spec),
        "Targets; loaded: the same against static K with the drafter loaded": target_lines(found),
    }
    ablated = ablation(args) if args.ablate else {}
    if ablated:
        sections["Ablation, thinned grid: worst row and geometric mean of every part"] = figure_lines(ablated)
    if skipped:
        sections["Not run"] = [f"{name}: {reason}" for name, reason in skipped.items()]
    for title, lines in sections.items():
        if len(lines) > 1 or title == "Not run":  # more than a heading
            print("", title, *lines, sep="\n")
    seconds = round(time.perf_counter() - start, 1)
    print(f"\n{seconds:.0f} s; the shortest row was scored over {min(row['steps'] for row in rows)} steps")
    document = {
        "planner": args.planner, "against": against, "quick": args.quick, "seed": args.seed, "seconds": seconds,
        "targets": [asdict(target) | {"reached": target.reached} for target in found],
        "figures": by_spec, "ablation": ablated, "rows": rows, "not_run": skipped,
    }  # fmt: skip
    print(json.dumps(rounded(document), separators=(",", ":")))


def rounded(value: Any) -> Any:
    """JSON values with floats to five digits."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"planner_quality: {error}")
