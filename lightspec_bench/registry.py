"""Names: plain tables of plug-ins, `name:key=value` specs, and building a planner from one.

A spec is `NAME` or `NAME:key=value,key=value`; NAME is in a table below, an installed entry point, or `module:Class`.
Values are YAML scalars or lists, checked against the constructor's annotations.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from lightspec_bench.core import BenchError, EngineConfig, Planner, Trace
from lightspec_bench.names import IMPORTERS, PLANNERS, RUNNERS

_TABLES = {"planner": PLANNERS, "runner": RUNNERS, "importer": IMPORTERS}


@dataclass(frozen=True, slots=True)
class Option:
    """A named option of a plug-in, read off its constructor. `required` options have no default."""

    name: str
    annotation: Any
    default: Any
    required: bool

    @property
    def type_name(self) -> str:
        return _type_name(self.annotation)


def _type_name(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " | ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_type_name, arguments))
    if annotation is type(None):
        return "None"
    return str(annotation).replace("typing.", "") if origin else getattr(annotation, "__name__", str(annotation))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?` for the nearest known word, else the list of known ones."""
    known = sorted(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f", did you mean {near[0]!r}?" if near else f", expected one of {', '.join(known)}"


def parse_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """`name:key=value,...` -> (name, options). `module:Class` stays one name; its options follow a second colon."""
    import yaml

    name, _, rest = spec.partition(":")
    if rest and "=" not in rest.split(":")[0]:  # module:Class[:options]
        cls, _, rest = rest.partition(":")
        name = f"{name}:{cls}"
    options: dict[str, Any] = {}
    for part in _split_outside_brackets(rest):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not key:
            raise BenchError(f"{spec!r}: {part!r} is not an option, expected key=value")
        if key in options:
            raise BenchError(f"{spec!r}: option {key!r} is given twice, expected once")
        try:
            options[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise BenchError(f"{spec!r}: option {key} is {value!r}, expected a YAML value") from None
    return name.strip(), options


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part.strip()]


def names(kind: str) -> list[str]:
    """All names of a kind ("planner", "runner", "importer"): ours first, then installed entry points."""
    return [*_TABLES[kind], *sorted(e.name for e in entry_points(group=f"lightspec_bench.{kind}s"))]


def resolve(kind: str, name: str) -> type[Any]:
    """The class behind a name, an entry point or `module:Class`."""
    target = _TABLES[kind].get(name)
    if target is None:
        found = [e for e in entry_points(group=f"lightspec_bench.{kind}s") if e.name == name]
        target = found[0].value if found else name
    module, colon, attribute = target.partition(":")
    if not colon:
        raise BenchError(f"unknown {kind} {name!r}{did_you_mean(name, names(kind))}")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BenchError(f"{kind} {name!r} cannot be imported: {error}") from error
    if not inspect.isclass(cls):
        raise BenchError(f"{kind} {name!r} is a {type(cls).__name__}, expected a class")
    return cls


def name_of(planner: Planner) -> str:
    """The name a planner object is known by: its table name, else `module:Class`."""
    path = f"{type(planner).__module__}:{type(planner).__qualname__}"
    return next((name for name, target in PLANNERS.items() if target == path), path)


def options_of(cls: type[Any]) -> dict[str, Option]:
    """The options of a planner class: its constructor's parameters after `config`, `trace` left out."""
    hints = typing.get_type_hints(cls.__init__)
    parameters = list(inspect.signature(cls).parameters.values())
    return {
        p.name: Option(p.name, hints.get(p.name, Any), p.default, p.default is inspect.Parameter.empty)
        for p in parameters
        if p.name not in ("config", "trace") and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }


def reads_trace(cls: type[Any]) -> bool:
    """Whether a planner asks for the trace it runs on, by a constructor parameter of that name."""
    return "trace" in inspect.signature(cls).parameters


def make_planner(spec: str, config: EngineConfig, trace: Trace | None = None) -> Planner:
    """Build the planner a spec names. `trace` reaches only a class whose constructor asks for it by name."""
    name, given = parse_spec(spec)
    cls = resolve("planner", name)
    options = check_options(name, given, options_of(cls))
    if reads_trace(cls):
        if trace is None:
            raise BenchError(f"planner {name!r} reads the trace it runs on, which this runner does not have")
        options["trace"] = trace
    return typing.cast(Planner, cls(config, **options))


def check_options(name: str, given: dict[str, Any], known: dict[str, Option]) -> dict[str, Any]:
    """The given options, checked against the known ones and turned into their types."""
    for key in given:
        if key not in known:
            raise BenchError(f"{name}: unknown option {key!r}{did_you_mean(key, known) if known else ', it has none'}")
    for option in known.values():
        if option.required and option.name not in given:
            raise BenchError(f"{name}: option {option.name!r} is missing, expected {option.type_name}")
    return {key: _typed(name, key, value, known[key].annotation) for key, value in given.items()}


def _typed(name: str, key: str, value: Any, annotation: Any) -> Any:
    kinds = [typing.get_origin(k) or k for k in typing.get_args(annotation) or (annotation,)]
    if typing.get_origin(annotation) in (list, dict):
        kinds = [typing.get_origin(annotation)]
    if typing.get_origin(annotation) is typing.Literal:
        if value in typing.get_args(annotation):
            return value
        raise BenchError(f"{name}: option {key} is {value!r}{did_you_mean(str(value), map(str, kinds))}")
    for kind in kinds:
        if kind is Any or (type(value) is kind):
            return value
        if kind is float and type(value) is int:
            return float(value)
    shown = " or ".join("nothing" if k is type(None) else k.__name__ for k in kinds)
    raise BenchError(f"{name}: option {key} is {value!r}, expected {shown}")
