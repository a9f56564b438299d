"""What `traces import` prints of a log: acceptance by its definitions, pooled and as means, and what is unknown."""

from __future__ import annotations

import math

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from lightspec_bench.acceptance import (
    Counts,
    conditional_per_pos,
    length_bounds,
    missing,
    rates,
    survival_per_pos,
)
from lightspec_bench.acceptance_summary import AcceptanceSummary, Mean, means

_WORDS = {
    "num_spec_steps": "number of drafts",
    "num_request_steps": "number of all steps",
    "num_accepted_tokens": "accepted tokens",
    "num_verify_tokens": "verified tokens",
    "num_draft_tokens": "drafted tokens",
    "num_spec_tokens": "tokens emitted",
    "num_matched_tokens": "matched tokens",
}
_COUNTS = tuple(name for name in _WORDS if name != "num_spec_tokens")
_INSTEAD = {  # shown where the first cannot be told
    "mean_tokens_per_spec_step": "mean_acceptance_length",
    "target_efficiency_of_spec_steps": "target_efficiency",
}


def print_summary(summary: AcceptanceSummary, console: Console) -> None:
    """Definitions of acceptance, counts, positions, engines, notes and skipped lines."""
    number = len(summary.samples)
    units = f"{number} {summary.unit}{'' if number == 1 else 's'}"
    console.print(f"[bold]{escape(summary.file)}[/bold] (measured, counted by the engine; {summary.source}: {units})")
    console.print(_rates(summary))
    for line in _unknown(summary):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    console.print(_counts(summary))
    if summary.counts.num_survived_per_pos:
        console.print(_positions(summary.counts))
    if len(summary.engines) > 1:
        console.print(_engines(summary))
    for note in summary.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False, highlight=False)
    for part in summary.skipped:
        line = f"skipped {part.count}: {part.reason} (first: {part.first})"
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _rates(summary: AcceptanceSummary) -> Table:
    by_sample, counts = means(summary.samples), summary.counts
    table = Table(Column(no_wrap=True), "pooled", f"mean over {summary.unit}s", box=None, header_style="bold")
    for name in _shown(summary, by_sample):
        table.add_row(name, _pooled(name, counts), _mean(name, by_sample[name], len(summary.samples)))
    return table


def _unknown(summary: AcceptanceSummary) -> list[str]:
    """Which counts are not told, and so which rates cannot be pooled."""
    by_counts: dict[str, list[str]] = {}
    for name in _shown(summary, means(summary.samples)):
        if rates(summary.counts)[name] is None:
            lacking = ", ".join(_WORDS[need] for need in missing(summary.counts, name))
            by_counts.setdefault(lacking, []).append(name)
    return [f"unknown without {lacking}: {', '.join(names)}" for lacking, names in by_counts.items()]


def _engines(summary: AcceptanceSummary) -> Table:
    names = ("mean_acceptance_length", "verify_acceptance_rate", "draft_acceptance_rate")
    table = Table(Column("engine", no_wrap=True), *(name.replace("_", " ") for name in names), box=None)
    for engine, counts in summary.engines.items():
        table.add_row(escape(engine or "not named"), *(_pooled(name, counts) for name in names))
    return table


def _shown(summary: AcceptanceSummary, by_sample: dict[str, Mean | None]) -> list[str]:
    """The definitions worth a row: the three and the lengths, and stand-ins for what is unknown."""
    values = rates(summary.counts)
    names = [name for name in values if name not in ("matched_token_rate", *_INSTEAD)]
    names += [name for name, other in _INSTEAD.items() if values[other] is None and by_sample[name] is not None]
    names += ["matched_token_rate"] if by_sample["matched_token_rate"] else []
    return [name for name in values if name in names]


def _pooled(name: str, counts: Counts) -> str:
    value = rates(counts)[name]
    bounds = length_bounds(counts) if name == "mean_acceptance_length" else None
    if value is None and bounds is not None:
        return f"{_figure(name, bounds[0])} to {_figure(name, bounds[1])}"
    if value is None:
        return "unknown"
    return "undefined: nothing was drafted" if math.isnan(value) else _figure(name, value)


def _mean(name: str, mean: Mean | None, number: int) -> str:
    if mean is None:
        return "unknown"
    of = "" if mean.num == number else f" (over {mean.num} of {number})"
    return f"{_figure(name, mean.value)}{of}{' as printed' if mean.printed else ''}"


def _figure(name: str, value: float) -> str:
    return f"{value:.3f}" if name.startswith("mean_") else f"{value:.2%}"


def _counts(summary: AcceptanceSummary) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name in _COUNTS:
        value = getattr(summary.counts, name)
        if name == "num_matched_tokens" and value is None:
            continue
        table.add_row(_WORDS[name], "unknown" if value is None else str(value))
    return table


def _positions(counts: Counts) -> Table:
    survival, conditional = survival_per_pos(counts) or (), conditional_per_pos(counts)
    table = Table("draft token", "accepted", "survival", "given prefix", box=None, header_style="bold")
    for k, count in enumerate(counts.num_survived_per_pos or ()):
        given = "unknown" if conditional is None else _share(conditional[k])
        table.add_row(str(k + 1), str(count), _share(survival[k]) if survival else "unknown", given)
    return table


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
