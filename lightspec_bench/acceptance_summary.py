"""An acceptance summary: what an engine's log or counters tell where no trace can be made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from lightspec_bench.acceptance import (
    Counts,
    conditional_per_pos,
    length_bounds,
    missing,
    pooled,
    rates,
    survival_per_pos,
)
from lightspec_bench.skipped import Skipped

Unit = Literal["request", "window", "engine", "iteration", "benchmark"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One request, window, engine, iteration or benchmark, as the source counts it.

    `printed` holds rates by name that the source prints and its counts cannot give, rounded as it printed them.
    """

    label: str
    counts: Counts
    engine: str = ""
    printed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AcceptanceSummary:
    """What was read of a file. `notes` say what the source means by its counts, `skipped` what could not be read."""

    source: str  # the importer's name
    file: str
    unit: Unit
    samples: tuple[Sample, ...]
    notes: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def counts(self) -> Counts:
        """The sums over all samples."""
        return pooled(sample.counts for sample in self.samples)

    @property
    def engines(self) -> dict[str, Counts]:
        """The sums of each engine, in the order of first occurrence."""
        names = dict.fromkeys(sample.engine for sample in self.samples)
        return {name: pooled(s.counts for s in self.samples if s.engine == name) for name in names}

    @property
    def num_skipped(self) -> int:
        return sum(part.count for part in self.skipped)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over samples, each of one weight: over `num` of them, those where the value is known and defined."""

    value: float
    num: int
    printed: bool  # whether some of them are figures as the source printed them


def means(samples: Sequence[Sample]) -> dict[str, Mean | None]:
    """Every rate's mean over the samples, None where no sample has it. Pooling weighs by counts, this does not."""
    by_sample = [(rates(sample.counts), sample.printed) for sample in samples]
    found: dict[str, Mean | None] = {}
    for name in rates(Counts()):
        own = [value for known, _ in by_sample if (value := known[name]) is not None and not math.isnan(value)]
        shown = [printed[name] for known, printed in by_sample if known[name] is None and name in printed]
        values = [*own, *shown]
        found[name] = Mean(math.fsum(values) / len(values), len(values), bool(shown)) if values else None
    return found


def document(summary: AcceptanceSummary) -> dict[str, Any]:
    """The summary as JSON values: counts, rates pooled and as means, and for each unknown rate the counts it lacks.

    Unknown and undefined are both null; `unknown` and `undefined` tell them apart.
    """
    counts = summary.counts
    return {
        "source": summary.source,
        "file": summary.file,
        "unit": summary.unit,
        "num_samples": len(summary.samples),
        **_figures(counts),
        f"mean_over_{summary.unit}s": {name: mean and asdict(mean) for name, mean in means(summary.samples).items()},
        "engines": {name: _figures(part) for name, part in summary.engines.items()} if len(summary.engines) > 1 else {},
        "notes": list(summary.notes),
        "skipped": [asdict(part) for part in summary.skipped],
        "samples": [_sample(sample) for sample in summary.samples],
    }


def _figures(counts: Counts) -> dict[str, Any]:
    values = rates(counts)
    return {
        "counts": asdict(counts),
        "pooled": {name: _json(value) for name, value in values.items()},
        "mean_acceptance_length_bounds": _json_list(length_bounds(counts)),
        "acceptance_rate_per_pos": _json_list(survival_per_pos(counts)),
        "conditional_acceptance_rate_per_pos": _json_list(conditional_per_pos(counts)),
        "unknown": {name: list(missing(counts, name)) for name, value in values.items() if value is None},
        "undefined": [name for name, value in values.items() if value is not None and math.isnan(value)],
    }


def _sample(sample: Sample) -> dict[str, Any]:
    known = {name: _json(value) for name, value in rates(sample.counts).items() if value is not None}
    counts = {name: value for name, value in asdict(sample.counts).items() if value is not None}
    who = {"label": sample.label, "engine": sample.engine}
    return {**who, "counts": counts, "rates": known, "printed": dict(sample.printed)}


def _json(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _json_list(values: tuple[float, ...] | None) -> list[float | None] | None:
    return None if values is None else [_json(value) for value in values]
