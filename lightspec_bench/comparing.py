"""Comparing two results folders: whether they ran the same thing, and how much faster the new one is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lightspec_bench.core import BenchError
from lightspec_bench.experiment import stored_cells, stored_suite
from lightspec_bench.inputs import stored_digests
from lightspec_bench.reports.cells import GROUP
from lightspec_bench.reports.columns import origin_label
from lightspec_bench.reports.regression import Regression, compare_runs
from lightspec_bench.results import read_frames
from lightspec_bench.store import read_json
from lightspec_bench.suite import Suite

_MACHINE = ("platform", "processor", "cores")


@dataclass(frozen=True, slots=True)
class Side:
    """A results folder as it is compared. `traces` and `latencies` are digests of contents by name, empty where the
    folder does not know them."""

    folder: Path
    suite: Suite
    summary: pd.DataFrame
    requests: pd.DataFrame
    traces: Mapping[str, str]
    latencies: Mapping[str, str]
    environment: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two folders held against each other: what was found, and sentences on what differs beside what is compared."""

    base: Side
    new: Side
    found: Regression
    warnings: tuple[str, ...]


def read_side(folder: Path) -> Side:
    """A folder's cells and what determined them. Raises `BenchError` where it has no finished cell."""
    suite = stored_suite(folder)
    summary, requests, _ = read_frames(suite, stored_cells(suite, folder), folder)
    digests = stored_digests(folder)
    traces, latencies = (digests.traces, digests.latencies) if digests else ({}, {})
    return Side(folder, suite, summary, requests, traces, latencies, read_json(folder / "environment.json"))


def compare_folders(
    base_folder: Path, new_folder: Path, planners: Collection[str] = (), is_forced: bool = False
) -> Compared:
    """Compare two folders. Raises `BenchError` where they ran different things: another trace or latency model under
    the same name, another origin, other conditions. `is_forced` makes warnings of these."""
    base, new = read_side(base_folder), read_side(new_folder)
    reasons = differences(base, new)
    if reasons and not is_forced:
        raise BenchError(f"{reasons[0]}; --force compares them all the same")
    found = compare_runs(base.summary, new.summary, base.requests, new.requests, planners)
    return Compared(base, new, found, (*reasons, *warnings_of(base, new)))


def differences(base: Side, new: Side) -> list[str]:
    """Why the two are no measurement of the same thing, in sentences; empty where they are."""
    found = []
    origins = [sorted(side.summary["origin"].unique()) for side in (base, new)]
    if origins[0] != origins[1]:
        found.append(f"{base.folder} is {', '.join(origins[0])} and {new.folder} is {', '.join(origins[1])}")
    for kind, mine, theirs in (
        ("trace", base.traces, new.traces),
        ("latency model", base.latencies, new.latencies),
    ):
        changed = [name for name in mine if name in theirs and mine[name] != theirs[name]]
        found += [f"{kind} {name} has other contents in {new.folder} than in {base.folder}" for name in changed]
    found += _other_prompts(base, new)
    if base.suite.measured and new.suite.measured and base.suite.measured.spec != new.suite.measured.spec:
        found.append(_settings("settings", asdict(base.suite.measured), asdict(new.suite.measured), base, new))
    for latency in [name for name in base.suite.latencies if name in new.suite.latencies]:
        mine, theirs = (asdict(s.suite.conditions_at.get(latency, s.suite.conditions)) for s in (base, new))
        if mine != theirs:
            found.append(_settings(f"conditions with {latency}", mine, theirs, base, new))
    return found


def _settings(what: str, mine: dict[str, Any], theirs: dict[str, Any], base: Side, new: Side) -> str:
    changed = [f"{name} {mine[name]!r} and {theirs[name]!r}" for name in mine if mine[name] != theirs[name]]
    return f"{what} differ between {base.folder} and {new.folder}: {', '.join(changed)}"


def _other_prompts(base: Side, new: Side) -> list[str]:
    """Requests that have another prompt under the same number: seen in their lengths, where digests are not known."""
    found = []
    keys = ["trace", "request_id"]
    lengths = [side.requests[[*keys, "num_prompt_tokens"]].drop_duplicates(keys) for side in (base, new)]
    both = lengths[0].merge(lengths[1], on=keys, suffixes=("_base", "_new"))
    changed = both[both["num_prompt_tokens_base"] != both["num_prompt_tokens_new"]]
    for trace, rows in changed.groupby("trace", sort=False):
        if trace not in base.traces or trace not in new.traces:
            row = rows.iloc[0]
            lengths_are = f"{row['num_prompt_tokens_base']} and {row['num_prompt_tokens_new']} prompt tokens"
            found.append(f"request {row['request_id']} of {trace} has {lengths_are} in {base.folder} and {new.folder}")
    return found


def warnings_of(base: Side, new: Side) -> list[str]:
    """What may explain a difference though it was not meant to."""
    found = []
    shared = [name for name in base.suite.traces if name in new.suite.traces]
    unknown = [name for name in shared if name not in base.traces or name not in new.traces]
    if unknown and not base.suite.measured:
        found.append(f"Contents of {', '.join(unknown)} were not recorded, so that they are the same was not checked.")
    machines = [{name: side.environment.get(name) for name in _MACHINE} for side in (base, new)]
    counts_time = any(side.suite.measured or side.suite.conditions.planner_time == "measured" for side in (base, new))
    if counts_time and machines[0] != machines[1]:
        changed = [f"{name} {machines[0][name]} and {machines[1][name]}" for name in _MACHINE
                   if machines[0][name] != machines[1][name]]  # fmt: skip
        found.append(f"Measured on different machines: {', '.join(changed)}.")
    return found


def origin_of(compared: Compared) -> str:
    """Where the numbers of both come from."""
    frames = (compared.base.summary, compared.new.summary)
    both = pd.concat([frame[[*GROUP, "origin", "latency_origin"]] for frame in frames]).drop_duplicates()
    return origin_label(both)
