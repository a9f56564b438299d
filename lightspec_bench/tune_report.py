"""What a search found, in sentences, rows and JSON values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lightspec_bench.reports.cells import NO_SPECULATION
from lightspec_bench.reports.columns import gain, short_static
from lightspec_bench.reports.export import export
from lightspec_bench.reports.export_text import Export
from lightspec_bench.tune import Found
from lightspec_bench.tune_depths import holds, ranges_of, static, words_of
from lightspec_bench.tune_evidence import Place, Ratio
from lightspec_bench.tune_task import bounds_document


def export_of(found: Found) -> Export | None:
    """The setting to deploy in the engine's syntax, None where no setting keeps the bounds anywhere."""
    return None if found.best is None else export(found.task.engine, found.best, found.task.deployment)


def places_of(found: Found, traces: Sequence[str] | None = None) -> list[Place]:
    """Where ratios are taken: every trace, or these, at the loads that count."""
    return [(trace, load) for trace in traces or found.task.traces for load in found.feasible]


def shown(ratio: Ratio) -> str:
    """`+12.3 % [10.1, 14.0]`; without an interval where there is none."""
    if math.isnan(ratio.low):
        return gain(ratio.value)
    low, high = (gain(bound).removesuffix(" %").removeprefix("+") for bound in (ratio.low, ratio.high))
    return f"{gain(ratio.value)} [{low}, {high}]"


def name_of(found: Found, planner: str) -> str:
    """A setting as it is called in a sentence."""
    if planner == found.schedule:
        return f"a batch-size schedule ({words_of(ranges_of(found.depth_at))})"
    fixed = planner == NO_SPECULATION or planner.startswith("static:")
    return short_static(planner) if fixed else f"an adaptive option of its own ({planner})"


def headline(found: Found) -> str:
    """What to deploy, or that nothing keeps the bounds."""
    bounds = " and ".join(bound.words for bound in found.task.bounds)
    if found.best is None:
        return f"No setting keeps {bounds} at any load, no speculation included: nothing to deploy."
    if found.best == NO_SPECULATION:
        return f"{found.task.engine}: no speculation. No setting is faster by more than can be told."
    return f"{found.task.engine}: {name_of(found, found.best)}."


def bound_lines(found: Found) -> list[str]:
    """At which loads the bounds cannot be kept, or are not by what was chosen."""
    bounds = " and ".join(bound.words for bound in found.task.bounds)
    lost = [load for load in found.task.loads if load not in found.feasible]
    missed = [load for load in found.feasible if load not in found.kept_at]
    lines = []
    if lost and found.best is not None:
        lines.append(f"No setting keeps {bounds} at concurrency {_list(lost)}; these loads are left out of all gains.")
    if missed:
        lines.append(
            f"No single setting keeps {bounds} wherever some setting does: this one misses it at {_list(missed)}."
        )
    if bounds and found.best is not None and not missed:
        lines.append(f"It keeps {bounds} at concurrency {_list(found.kept_at)}, on every trace.")
    return lines


def losing_line(found: Found) -> list[str]:
    """Where the setting is slower than starting the engine without a drafter."""
    lost = [
        (trace, load, ratio)
        for trace, load in places_of(found)
        if found.best is not None
        and not (ratio := found.evidence.ratio(found.best, NO_SPECULATION, [(trace, load)])).is_level
        and ratio.value < 1.0
    ]
    if not lost:
        return []
    many = len(found.task.traces) > 1
    shown_at = ", ".join(f"{load} ({f'{trace}, ' if many else ''}{gain(ratio.value)})" for trace, load, ratio in lost)
    return [
        f"Slower than no speculation at concurrency {shown_at}: a loaded drafter costs time even at K=0. Where that is "
        "your usual load, start without a drafter."
    ]


def references(found: Found) -> list[tuple[str, str, str]]:
    """(key, planner, words) of what the setting is held against."""
    listed = [
        (
            "default",
            found.default.planner,
            f"the default, {short_static(found.default.planner)} ({found.default.words})",
        ),
        ("none", NO_SPECULATION, "no speculation"),
        (
            "best_static",
            found.best_static,
            f"the best single static K, {short_static(found.best_static)}, in hindsight",
        ),
    ]
    if found.task.current:
        listed.append(("current", found.task.current, f"yours, {short_static(found.task.current)}"))
    missed = {p: "" if found.keeps(p) else ", which misses the SLO" for _, p, _ in listed}
    return [(key, planner, words + missed[planner]) for key, planner, words in listed]


def gain_lines(found: Found) -> list[str]:
    """The gain over each reference, over all loads that count."""
    if found.best is None:
        return []
    places = places_of(found)
    held = [(found.evidence.ratio(found.best, p, places), words) for _, p, words in references(found)]
    lines = [f"{shown(ratio)} against {words}" for ratio, words in held]
    alone = all(math.isnan(ratio.low) for ratio, _ in held)
    spread = "no intervals, since there is a single request" if alone else "95 % intervals over requests"
    over = f"geometric mean over concurrency {_list(found.feasible)}" if len(found.feasible) > 1 else "throughput"
    return [f"Expected gain ({over}, {spread}):", *(f"  {line}" for line in lines)]


def change_lines(found: Found) -> list[str]:
    """Where the best K changes, and what each trace of a mix would have differently."""
    ranges = ranges_of(found.depth_at)
    words = words_of(ranges)
    where = "the same at every load" if len(ranges) == 1 else "it changes with the load"
    lines = [f"Best K by concurrency, {where}: {words} (K=0: drafter loaded, nothing drafted)."]
    if len(found.task.traces) == 1 or found.best is None:
        return lines
    mix = {load: found.depth_at[load] for load in found.task.loads}
    for trace, own in found.own_depth_at.items():
        if own == mix:
            lines.append(f"{trace} alone: the same.")
            continue
        places = places_of(found, [trace])
        ratio = found.evidence.ratio({place: static(own[place[1]]) for place in places}, found.best, places)
        differs = ", ".join(f"K={own[n]} instead of {mix[n]} at {n}" for n in found.task.loads if own[n] != mix[n])
        lines.append(
            f"{trace} alone: {differs}; its own K at each load would give {shown(ratio)} against the setting above."
        )
    return lines


def load_rows(found: Found) -> list[dict[str, Any]]:
    """One row per trace and load: best K, and what the setting reaches there."""
    evidence, best = found.evidence, found.best or NO_SPECULATION
    rows = []
    for trace in found.task.traces:
        for load in found.task.loads:
            place = (trace, load)
            ratios = {key: evidence.ratio(best, p, [place]) for key, p, _ in references(found) if key != "best_static"}
            rows.append(
                {
                    "trace": trace,
                    "concurrency": load,
                    "best_k": found.own_depth_at[trace][load],
                    "throughput": evidence.value(best, place, "throughput"),
                    "tpot_p99_s": evidence.value(best, place, "tpot_p99_s"),
                    "keeps_bounds": holds(evidence, best, place, found.task.bounds),
                    **{f"against_{key}": ratio for key, ratio in ratios.items()},
                }
            )
    return rows


def candidate_rows(found: Found) -> list[dict[str, Any]]:
    """One row per setting tried, fastest first: against no speculation and against what was chosen, over all loads."""
    places = places_of(found) or [(trace, load) for trace in found.task.traces for load in found.task.loads]
    rows = [
        {
            "planner": planner,
            "against_none": found.evidence.ratio(planner, NO_SPECULATION, places),
            "against_chosen": found.evidence.ratio(planner, found.best or NO_SPECULATION, places),
            "num_kept": sum(holds(found.evidence, planner, place, found.task.bounds) for place in places),
            "num_places": len(places),
        }
        for planner in found.candidates
    ]
    return sorted(rows, key=lambda row: -row["against_none"].value)


def document(found: Found) -> dict[str, Any]:
    """Everything found as JSON values; ratios with `low` and `high`, null where there is no interval."""
    made, places = export_of(found), places_of(found)
    against = {
        key: {"planner": planner, "words": words, **found.evidence.ratio(found.best, planner, places).document}
        for key, planner, words in references(found)
        if found.best is not None
    }
    return {
        "engine": found.task.engine,
        "engine_version": found.task.deployment.version,
        "traces": list(found.task.traces),
        "latency": found.task.latency,
        "origin": found.evidence.origin,
        "concurrencies": list(found.task.loads),
        "slo": bounds_document(found.task.bounds),
        "headline": headline(found),
        "planner": found.best,
        "text": made.text if made else None,
        "usage": made.usage if made else None,
        "notes": [
            *bound_lines(found),
            *losing_line(found),
            *(made.notes if made else ()),
            *found.notes,
            *found.skipped,
        ],
        "feasible_at": list(found.feasible),
        "keeps_bounds_at": list(found.kept_at),
        "gain": against,
        "best_k": ranges_of(found.depth_at),
        "changes": change_lines(found),
        "by_load": [_plain(row) for row in load_rows(found)],
        "candidates": [_plain(row) for row in candidate_rows(found)],
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value.document if isinstance(value, Ratio) else _known(value) for key, value in row.items()}


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _list(loads: Sequence[int]) -> str:
    return ", ".join(map(str, loads))
