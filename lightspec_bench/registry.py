"""Names: plain tables of plug-ins, `name:key=value` specs, and building a planner from one.

A spec is `NAME` or `NAME:key=value,key=value`; NAME is in a table below, an installed entry point, or `module:Class`.
Values are YAML scalars or lists, checked against the constructor's annotations. A value in parentheses is text, kept
whole: `clamp:most=4,planner=(static:k=6)` hands another planner's spec to a wrapper, in its option `planner`.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from lightspec_bench.core import BenchError, EngineConfig, PlanError, Planner, Trace
from lightspec_bench.errors import PluginError
from lightspec_bench.names import IMPORTERS, PLANNERS, RUNNERS
from lightspec_bench.option_types import type_name, typed

WRAPPED = "planner"  # the option in which a wrapper takes another planner's spec
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
        return type_name(self.annotation)


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
        if value.lstrip().startswith("("):
            options[key] = _in_parentheses(spec, key, value.strip())
            continue
        try:
            options[key] = yaml.safe_load(_spaced(value))
        except yaml.YAMLError:
            raise BenchError(f"{spec!r}: option {key} is {value!r}, expected a YAML value") from None
    return name.strip(), options


def _spaced(value: str) -> str:
    """`{1:4,8:2}` as YAML reads a mapping, which wants a space after the colon or takes the pair for one key."""
    return re.sub(r"(?<=[{,])(\s*[\w-]+):(?=\S)", r"\1: ", value) if value.lstrip().startswith("{") else value


def _in_parentheses(spec: str, key: str, value: str) -> str:
    """The text between the first parenthesis and the one that closes it, which must be the last character."""
    depth = 0
    for place, char in enumerate(value):
        depth += (char == "(") - (char == ")")
        if depth == 0 and place == len(value) - 1:
            return value[1:-1].strip()
        if depth == 0:
            break
    raise BenchError(f"{spec!r}: option {key} is {value!r}, expected its first parenthesis to close at the end")


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for char in text:
        depth += (char in "[{(") - (char in "]})")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part.strip()]


def names(kind: str) -> list[str]:
    """All names of a kind ("planner", "runner", "importer"): ours first, then installed entry points."""
    ours = _TABLES[kind]
    return [*ours, *sorted({e.name for e in _entry_points(kind)} - set(ours))]


def _entry_points(kind: str) -> Iterable[EntryPoint]:
    return entry_points(group=f"lightspec_bench.{kind}s")


def target_of(kind: str, name: str) -> str:
    """`module:Class` behind a name. Of ours and an entry point of the same name, ours counts."""
    if name in _TABLES[kind]:
        return _TABLES[kind][name]
    found = sorted({f"{e.module}:{e.attr}" for e in _entry_points(kind) if e.name == name})
    if len(found) > 1:
        raise BenchError(f"{kind} {name!r} is a name of {' and of '.join(found)}, expected one of these instead")
    if not found and not all(part.strip() for part in name.partition(":")):
        raise BenchError(f"unknown {kind} {name!r}{did_you_mean(name, names(kind))}")
    return found[0] if found else name


def resolve(kind: str, name: str) -> type[Any]:
    """The class behind a name, an entry point or `module:Class`.

    Raises `PluginError` where its module is there but does not import, `BenchError` for anything else.
    """
    module, _, attribute = target_of(kind, name).partition(":")
    try:
        cls = functools.reduce(getattr, attribute.split("."), importlib.import_module(module))
    except AttributeError as error:
        raise BenchError(f"{kind} {name!r} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:  # a third party's module may raise anything
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            if module in names(kind):
                raise BenchError(f"{module}: {attribute!r} is not an option, expected key=value") from error
            raise BenchError(f"{kind} {name!r} cannot be imported: {error}") from error
        raise PluginError(f"{kind} {name!r} cannot be imported: {shown(error)}") from error
    if not inspect.isclass(cls):
        raise BenchError(f"{kind} {name!r} is a {type(cls).__name__}, expected a class")
    return cls


def shown(error: BaseException) -> str:
    """Any exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def named(spec: str, error: BenchError) -> BenchError:
    """The same error, its sentence beginning with the planner it is about."""
    name, text = parse_spec(spec)[0], str(error)
    if re.match(rf"(planner )?'?{re.escape(name)}(?![\w-])", text):
        return error
    kind = type(error) if type(error) in (PlanError, PluginError) else BenchError
    return kind(f"{spec}: {text}")


def name_of(planner: Planner) -> str:
    """The name a planner object is known by: its table name or entry point, else `module:Class`."""
    path = f"{type(planner).__module__}:{type(planner).__qualname__}"
    ours = {target: name for name, target in PLANNERS.items()}
    if path in ours:  # looking through every installed package takes as long as a small cell
        return ours[path]
    return {f"{e.module}:{e.attr}": e.name for e in _entry_points("planner")}.get(path, path)


def options_of(cls: type[Any]) -> dict[str, Option]:
    """The options of a planner class: its constructor's parameters after `config`, `trace` left out.

    Raises `BenchError` where the constructor or the annotation of an option cannot be read.
    """
    parameters = {
        p.name: p
        for p in _signature(cls).parameters.values()
        if p.name not in ("config", "trace") and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    hints = _hints(cls, set(parameters))
    return {
        name: Option(name, hints.get(name, Any), p.default, p.default is inspect.Parameter.empty)
        for name, p in parameters.items()
    }


def _signature(cls: type[Any]) -> inspect.Signature:
    try:
        return inspect.signature(cls)
    except (TypeError, ValueError) as error:
        path = f"{cls.__module__}:{cls.__qualname__}"
        raise BenchError(f"{path} has a constructor that cannot be read, expected Class(config, **options)") from error


def _hints(cls: type[Any], wanted: set[str]) -> dict[str, Any]:
    """Annotations of those parameters; the others may name what is imported for type checkers only."""
    init = cls.__init__
    given = {key: value for key, value in getattr(init, "__annotations__", {}).items() if key in wanted}
    try:
        carrier = types.SimpleNamespace(__annotations__=given)
        return typing.get_type_hints(carrier, globalns=getattr(init, "__globals__", {}))
    except Exception as error:
        path = f"{cls.__module__}:{cls.__qualname__}"
        raise BenchError(f"{path} has options whose annotations cannot be read: {shown(error)}") from error


def reads_trace(cls: type[Any]) -> bool:
    """Whether a planner asks for the trace it runs on, by a constructor parameter of that name."""
    return "trace" in _signature(cls).parameters


def planner_options(name: str, cls: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """The given options of a planner, checked and typed. Raises `BenchError` for a class that is no planner's."""
    first = next(iter(_signature(cls).parameters.values()), None)
    if first is None or (first.name != "config" and first.kind is not first.VAR_POSITIONAL):
        found = "nothing" if first is None else repr(first.name)
        raise BenchError(f"planner {name!r}: its constructor takes {found} first, expected 'config'")
    return check_options(name, given, options_of(cls))


def check_spec(spec: str, wrapper: str | None = None) -> None:
    """Whether a planner's spec makes sense, and those of the planners in it; builds nothing.

    Raises `BenchError` for unknown names, wrong options, and inside a wrapper a planner that reads the trace.
    """
    name, given = parse_spec(spec)
    cls = resolve("planner", name)
    if wrapper is not None and reads_trace(cls):
        raise BenchError(
            f"{wrapper}: planner {name} reads the trace it runs on, expected one that plans from batches alone"
        )
    inner = planner_options(name, cls, given).get(WRAPPED)
    if isinstance(inner, str):
        check_spec(inner, name)


def make_planner(spec: str, config: EngineConfig, trace: Trace | None = None) -> Planner:
    """Build the planner a spec names. `trace` reaches only a class whose constructor asks for it by name.

    Raises `BenchError` naming the planner, `PluginError` where its constructor fails in any other way.
    """
    name, given = parse_spec(spec)
    cls = resolve("planner", name)
    options = planner_options(name, cls, given)
    if reads_trace(cls):
        if trace is None:
            raise BenchError(f"planner {name!r} reads the trace it runs on, which this runner does not have")
        options["trace"] = trace
    try:
        return typing.cast(Planner, cls(config, **options))
    except BenchError as error:
        raise named(spec, error) from error
    except Exception as error:  # a third party's constructor may raise anything
        raise PluginError(f"planner {spec!r} cannot be built: {shown(error)}") from error


def check_options(name: str, given: dict[str, Any], known: dict[str, Option]) -> dict[str, Any]:
    """The given options, checked against the known ones and turned into their types."""
    for key in given:
        if key not in known:
            raise BenchError(f"{name}: unknown option {key!r}{did_you_mean(key, known) if known else ', it has none'}")
    for option in known.values():
        if option.required and option.name not in given:
            raise BenchError(f"{name}: option {option.name!r} is missing, expected {option.type_name}")
    return {key: typed(f"{name}: option {key}", value, known[key].annotation) for key, value in given.items()}
