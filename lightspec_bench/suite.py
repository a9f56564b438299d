"""A suite: traces x latency models x concurrencies x planners x seeds, read from YAML and checked up front."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from lightspec_bench import __version__
from lightspec_bench.conditions import REAL, Conditions as Conditions, check_conditions
from lightspec_bench.core import BenchError
from lightspec_bench.errors import PluginError
from lightspec_bench.measured import MEASURING, Measured
from lightspec_bench.registry import check_spec, did_you_mean
from lightspec_bench.reports.cells import NO_SPECULATION, static_depth
from lightspec_bench.reports.published import Claim, Input, Published
from lightspec_bench.settings import list_of, mapping, read_yaml, record, typed
from lightspec_bench.slo import slo_from

SUITES = Path(__file__).parent / "suites"


# vLLM's own dynamic speculative decoding and adaptive verification, run beside ours.
STOCK = ("stock:planner=schedule", "stock:planner=vllm-adaptive-verification")


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: a planner on a trace, with a latency model, at a concurrency, under a seed.

    Where the suite gave a trace or latency model a name of its own, the `*_spec` says what to load. `inputs` is a
    digest of what the names stand for (`inputs.Digests`), empty where that is not known beforehand: in a measured run.
    """

    trace: str
    latency: str
    concurrency: int
    planner: str
    seed: int
    conditions: Conditions
    trace_spec: str = ""
    latency_spec: str = ""
    inputs: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """What determines the cell, as JSON values."""
        return {key: value for key, value in asdict(self).items() if value or key != "inputs"}

    @property
    def key(self) -> str:
        """A file name for the cell: readable, and unique through a hash of its settings and our version."""
        text = json.dumps([__version__, self.settings], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        words = f"{self.trace}-{self.latency}-{self.concurrency}-{self.planner}-{self.seed}"
        readable = "".join(c if c.isalnum() or c in "-_." else "_" for c in words)
        return f"{readable[-90:]}-{digest}"


@dataclass(frozen=True, slots=True)
class Suite:
    """The matrix. `every_static` adds no speculation and every static K, from which best static K is derived.

    `specs` says what to load for a trace or latency model under a name of the suite's own, `conditions_at` which
    conditions a latency model has for itself. `published` are figures of others to show beside the suite's.
    `measured`: its cells run real models, and its one trace and latency model are names for them. `slo` are bounds of
    one request in seconds (`reports.request_metrics.request_goodput`), {} for none.
    """

    name: str
    traces: tuple[str, ...]
    latencies: tuple[str, ...]
    concurrencies: tuple[int, ...]
    planners: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    every_static: bool = True
    conditions: Conditions = field(default_factory=Conditions)
    specs: Mapping[str, str] = field(default_factory=dict)
    conditions_at: Mapping[str, Conditions] = field(default_factory=dict)
    published: Published | None = None
    measured: Measured | None = None
    slo: Mapping[str, float] = field(default_factory=dict)

    def spec(self, name: str) -> str:
        """What to load for a trace or latency model of the suite."""
        return self.specs.get(name, name)

    def cell(self, trace: str, latency: str, concurrency: int, planner: str, seed: int) -> Cell:
        conditions = self.conditions_at.get(latency, self.conditions)
        specs = self.specs.get(trace, ""), self.specs.get(latency, "")
        return Cell(trace, latency, concurrency, planner, seed, conditions, *specs)

    def cells(self, max_draft_tokens: Mapping[str, int]) -> Iterator[Cell]:
        """Every cell; `max_draft_tokens` per trace says how many static K there are."""
        for trace in self.traces:
            planners = dict.fromkeys(self.planners)
            if self.every_static:
                static = (f"static:k={k}" for k in range(max_draft_tokens[trace] + 1))
                planners = dict.fromkeys(("none", *static, *self.planners))
            for latency in self.latencies:
                for concurrency in self.concurrencies:
                    for planner in planners:
                        for seed in self.seeds:
                            yield self.cell(trace, latency, concurrency, planner, seed)


def suite_names() -> list[str]:
    return sorted(path.stem for path in SUITES.glob("*.yaml"))


def read_suite(name_or_path: str) -> Suite:
    """A shipped suite by name, or a YAML file. Raises `BenchError` naming the file, the key and the value."""
    path = Path(name_or_path)
    if not path.exists():
        path = SUITES / f"{name_or_path}.yaml"
    if not path.exists():
        raise BenchError(f"no suite {name_or_path!r}: neither a file nor a shipped one{_known(name_or_path)}")
    return suite_from(read_yaml(path), str(path), path.stem)


def _known(name: str) -> str:
    return did_you_mean(name, suite_names())


def suite_from(document: Any, source: str, name: str) -> Suite:
    """A suite from parsed YAML; `source` is named in errors."""
    if isinstance(document, dict) and "runner" in document:
        return _with_runner(document, source, name)
    known = {f.name for f in fields(Suite)} - {"specs", "conditions_at", "measured"}
    document = mapping(document, known, source, "a suite")
    for key in ("traces", "latencies", "concurrencies", "planners"):
        if key not in document:
            raise BenchError(f"{source}: key {key!r} is missing, expected a list")
    conditions = record(Conditions, document.get("conditions") or {}, source, "conditions")
    traces, trace_specs, _ = _named(document, "traces", conditions, source)
    latencies, latency_specs, conditions_at = _named(document, "latencies", conditions, source)
    for name in trace_specs.keys() & set(latencies) | latency_specs.keys() & set(traces):
        raise BenchError(f"{source}: {name!r} names a trace and a latency model, expected one of them")
    suite = Suite(
        name=str(document.get("name", name)),
        traces=traces,
        latencies=latencies,
        concurrencies=list_of(document, "concurrencies", int, source),
        planners=list_of(document, "planners", str, source),
        seeds=list_of(document, "seeds", int, source) if "seeds" in document else (0,),
        every_static=typed(document.get("every_static", True), "every_static", (bool,), source),
        conditions=conditions,
        specs=trace_specs | latency_specs,
        conditions_at=conditions_at,
        published=published_from(document["published"], source) if document.get("published") else None,
        slo=slo_from(document.get("slo") or {}, f"{source}: slo"),
    )
    check_suite(suite, source)
    return suite


def _with_runner(document: dict[str, Any], source: str, name: str) -> Suite:
    """A suite that says which runner: simulated, or a measuring one with the keys of `Measured` beside its own."""
    runner = document["runner"]
    if runner == "simulated":
        return suite_from({key: value for key, value in document.items() if key != "runner"}, source, name)
    if runner not in MEASURING:
        raise BenchError(f"{source}: runner is {runner!r}, expected simulated, {' or '.join(MEASURING)}")
    own = {f.name for f in fields(Measured)}
    lists = {"name", "concurrencies", "planners", "seeds", "every_static", "conditions"}
    document = mapping(document, own | lists, source, "a measured suite")
    what = record(Measured, {key: value for key, value in document.items() if key in own}, source, "a measured suite")
    for key in ("concurrencies", "planners"):
        if key not in document:
            raise BenchError(f"{source}: key {key!r} is missing, expected a list")
    conditions = record(Conditions, REAL[runner] | (document.get("conditions") or {}), source, "conditions")
    suite = measured_suite(
        what,
        list_of(document, "concurrencies", int, source),
        list_of(document, "planners", str, source),
        list_of(document, "seeds", int, source) if "seeds" in document else (0,),
        conditions,
        typed(document.get("every_static", True), "every_static", (bool,), source),
        str(document.get("name", name)),
    )
    check_suite(suite, source)
    return suite


def measured_suite(
    what: Measured,
    concurrencies: tuple[int, ...],
    planners: tuple[str, ...],
    seeds: tuple[int, ...] = (0,),
    conditions: Conditions | None = None,
    every_static: bool = True,
    name: str = "measured",
) -> Suite:
    """The suite of a measured run: one workload on one machine. A seed is a repeat, with its own order of requests.

    Where every static K is run under vLLM, so is what vLLM has of its own.
    """
    stock = STOCK if every_static and what.runner == "vllm" else ()
    return Suite(
        name,
        (what.workload,),
        (what.machine,),
        concurrencies,
        tuple(dict.fromkeys((*stock, *planners))),
        seeds,
        every_static,
        conditions or Conditions(**REAL[what.runner]),
        specs={what.workload: what.spec},
        measured=what,
    )


def check_suite(suite: Suite, source: str) -> None:
    """Every planner, option, concurrency, seed and claim must make sense before the first cell runs."""
    for planner in suite.planners:
        with suppress(PluginError):  # a broken plug-in ends its own cells
            check_spec(planner)
    for conditions in (suite.conditions, *suite.conditions_at.values()):
        check_conditions(conditions, source)
    for concurrency in suite.concurrencies:
        if concurrency < 1:
            raise BenchError(f"{source}: concurrencies has {concurrency}, expected at least 1")
    for seed in suite.seeds:
        if seed < 0:
            raise BenchError(f"{source}: seeds has {seed}, expected at least 0")
    for claim in suite.published.claims if suite.published else ():
        if claim.trace not in suite.traces:
            raise BenchError(f"{source}: a claim is on trace {claim.trace!r}{did_you_mean(claim.trace, suite.traces)}")
        fixed = suite.every_static and (claim.against == NO_SPECULATION or static_depth(claim.against) is not None)
        if not fixed and claim.against not in suite.planners:
            raise BenchError(f"{source}: a claim is against {claim.against!r}, expected a planner of the suite")


def published_from(document: Any, source: str) -> Published:
    """The published figures of a suite from parsed YAML or JSON; `source` is named in errors."""
    document = mapping(document, {f.name for f in fields(Published)}, source, "published")
    for key in ("name", "source", "claims"):
        if key not in document:
            raise BenchError(f"{source}: published has no key {key!r}, expected one")
    return Published(
        name=typed(document["name"], "name", (str,), source),
        source=typed(document["source"], "source", (str,), source),
        claims=tuple(record(Claim, claim, source, "a claim") for claim in _items(document, "claims", source)),
        inputs=tuple(record(Input, each, source, "an input") for each in _items(document, "inputs", source)),
        notes=tuple(typed(note, "notes", (str,), source) for note in _items(document, "notes", source)),
    )


def _items(document: dict[str, Any], key: str, source: str) -> list[Any]:
    values = document.get(key) or []
    if not isinstance(values, (list, tuple)):
        raise BenchError(f"{source}: {key} is {values!r}, expected a list")
    return list(values)


def _named(
    document: dict[str, Any], key: str, conditions: Conditions, source: str
) -> tuple[tuple[str, ...], dict[str, str], dict[str, Conditions]]:
    """(names, specs by name, conditions by name) of a list of specs, or of a mapping from names.

    A latency model under a name may be a mapping itself: `latency`, its spec, and conditions of its own.
    """
    if not isinstance(document[key], dict):
        return list_of(document, key, str, source), {}, {}
    entries = mapping(document[key], set(document[key]), source, key)
    specs, own = {}, {}
    for name, value in entries.items():
        if key == "latencies" and isinstance(value, dict):
            changes = {k: v for k, v in value.items() if k != "latency"}
            if "latency" not in value:
                raise BenchError(f"{source}: latency model {name!r} has no key 'latency', expected its spec")
            value = value["latency"]
            own[name] = record(Conditions, {**asdict(conditions), **changes}, source, f"latency model {name!r}")
        specs[str(name)] = str(typed(value, f"{key}, {name!r},", (str,), source))
    if not specs:
        raise BenchError(f"{source}: {key} is {document[key]!r}, expected entries")
    return tuple(specs), specs, own
