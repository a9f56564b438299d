"""A suite: traces x latency models x concurrencies x planners x seeds, read from YAML and checked up front."""

from __future__ import annotations

import hashlib
import json
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from lightspec_bench import __version__
from lightspec_bench.core import BenchError
from lightspec_bench.registry import check_options, did_you_mean, options_of, parse_spec, resolve
from lightspec_bench.reports.cells import NO_SPECULATION, static_depth
from lightspec_bench.reports.published import Claim, Input, Published

_T = TypeVar("_T")
SUITES = Path(__file__).parent / "suites"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What every cell of a suite shares: the load's shape and the simulated engine's behaviour.

    See `runners.load.Load` and `runners.options.SimulatorOptions` for the fields; `lag_steps` 1 is an engine that
    plans the next step while the device still runs this one.
    """

    arrivals: str = "closed"
    rate: float | None = None
    cv: float = 1.0
    num_requests: int | None = None
    lag_steps: int = 1
    prefill: str = "off"
    chunk_tokens: int = 2048
    catch_up: str = "each_step"
    planner_time: str = "measured"
    warmup_steps: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: a planner on a trace, with a latency model, at a concurrency, under a seed.

    Where the suite gave a trace or latency model a name of its own, the `*_spec` says what to load.
    """

    trace: str
    latency: str
    concurrency: int
    planner: str
    seed: int
    conditions: Conditions
    trace_spec: str = ""
    latency_spec: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """What determines the cell, as JSON values."""
        return asdict(self)

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
    return suite_from(_yaml(path), str(path), path.stem)


def _known(name: str) -> str:
    return did_you_mean(name, suite_names())


def _yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise BenchError(f"{path}{where}: is not YAML: {getattr(error, 'problem', error)}") from error


def suite_from(document: Any, source: str, name: str) -> Suite:
    """A suite from parsed YAML; `source` is named in errors."""
    known = {f.name for f in fields(Suite)} - {"specs", "conditions_at"}
    document = _mapping(document, known, source, "a suite")
    for key in ("traces", "latencies", "concurrencies", "planners"):
        if key not in document:
            raise BenchError(f"{source}: key {key!r} is missing, expected a list")
    conditions = _record(Conditions, document.get("conditions") or {}, source, "conditions")
    traces, trace_specs, _ = _named(document, "traces", conditions, source)
    latencies, latency_specs, conditions_at = _named(document, "latencies", conditions, source)
    for name in trace_specs.keys() & set(latencies) | latency_specs.keys() & set(traces):
        raise BenchError(f"{source}: {name!r} names a trace and a latency model, expected one of them")
    suite = Suite(
        name=str(document.get("name", name)),
        traces=traces,
        latencies=latencies,
        concurrencies=_list(document, "concurrencies", int, source),
        planners=_list(document, "planners", str, source),
        seeds=_list(document, "seeds", int, source) if "seeds" in document else (0,),
        every_static=_typed(document.get("every_static", True), "every_static", (bool,), source),
        conditions=conditions,
        specs=trace_specs | latency_specs,
        conditions_at=conditions_at,
        published=published_from(document["published"], source) if document.get("published") else None,
    )
    check_suite(suite, source)
    return suite


def check_suite(suite: Suite, source: str) -> None:
    """Every planner, option, concurrency, seed and claim must make sense before the first cell runs."""
    for planner in suite.planners:
        name, options = parse_spec(planner)
        check_options(name, options, options_of(resolve("planner", name)))
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
    document = _mapping(document, {f.name for f in fields(Published)}, source, "published")
    for key in ("name", "source", "claims"):
        if key not in document:
            raise BenchError(f"{source}: published has no key {key!r}, expected one")
    return Published(
        name=_typed(document["name"], "name", (str,), source),
        source=_typed(document["source"], "source", (str,), source),
        claims=tuple(_record(Claim, claim, source, "a claim") for claim in _items(document, "claims", source)),
        inputs=tuple(_record(Input, each, source, "an input") for each in _items(document, "inputs", source)),
        notes=tuple(_typed(note, "notes", (str,), source) for note in _items(document, "notes", source)),
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
        return _list(document, key, str, source), {}, {}
    entries = _mapping(document[key], set(document[key]), source, key)
    specs, own = {}, {}
    for name, value in entries.items():
        if key == "latencies" and isinstance(value, dict):
            changes = {k: v for k, v in value.items() if k != "latency"}
            if "latency" not in value:
                raise BenchError(f"{source}: latency model {name!r} has no key 'latency', expected its spec")
            value = value["latency"]
            own[name] = _record(Conditions, {**asdict(conditions), **changes}, source, f"latency model {name!r}")
        specs[str(name)] = str(_typed(value, f"{key}, {name!r},", (str,), source))
    if not specs:
        raise BenchError(f"{source}: {key} is {document[key]!r}, expected entries")
    return tuple(specs), specs, own


def _record(kind: type[_T], document: Any, source: str, what: str) -> _T:
    """A settings record from keys and values, each of its annotated type; keys without a default must be there."""
    hints = typing.get_type_hints(kind)
    document = _mapping(document, set(hints), source, what)
    for each in fields(kind):  # type: ignore[arg-type]
        if each.default is MISSING and each.name not in document:
            raise BenchError(f"{source}: {what} has no key {each.name!r}, expected one")
    # YAML 1.1 reads a bare off as False.
    values = {key: "off" if value is False and hints[key] is str else value for key, value in document.items()}
    return kind(
        **{
            key: _typed(value, key, typing.get_args(hints[key]) or (hints[key],), source)
            for key, value in values.items()
        }
    )


def _mapping(document: Any, known: set[str], source: str, what: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise BenchError(f"{source}: {what} is {type(document).__name__}, expected keys and values")
    for key in document:
        if key not in known:
            raise BenchError(f"{source}: unknown key {key!r} in {what}{did_you_mean(str(key), known)}")
    return cast("dict[str, Any]", document)


def _list(document: dict[str, Any], key: str, kind: type, source: str) -> tuple[Any, ...]:
    values = document[key]
    if not isinstance(values, list) or not values:
        raise BenchError(f"{source}: {key} is {values!r}, expected a list that is not empty")
    typed = tuple(_typed(value, key, (kind,), source) for value in values)
    if len(set(typed)) != len(typed):
        raise BenchError(f"{source}: {key} names {next(v for v in typed if typed.count(v) > 1)!r} twice, expected once")
    return typed


def _typed(value: Any, key: str, kinds: tuple[Any, ...], source: str) -> Any:
    if type(value) in kinds:
        return value
    if float in kinds and type(value) is int:
        return float(value)
    shown = " or ".join("nothing" if k is type(None) else k.__name__ for k in kinds)
    raise BenchError(f"{source}: {key} has {value!r}, expected {shown}")
