"""Settings from YAML: documents read, and values checked into records, with file, key and value in every complaint."""

from __future__ import annotations

import typing
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from lightspec_bench.core import BenchError
from lightspec_bench.registry import did_you_mean

_T = TypeVar("_T")


def read_yaml(path: Path) -> Any:
    """The parsed document. Raises `BenchError` naming file and line."""
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise BenchError(f"{path}{where}: is not YAML: {getattr(error, 'problem', error)}") from error


def record(kind: type[_T], document: Any, source: str, what: str) -> _T:
    """A settings record from keys and values, each of its annotated type; keys without a default must be there."""
    hints = typing.get_type_hints(kind)
    document = mapping(document, set(hints), source, what)
    for each in fields(kind):  # type: ignore[arg-type]
        if each.default is MISSING and each.name not in document:
            raise BenchError(f"{source}: {what} has no key {each.name!r}, expected one")
    # YAML 1.1 reads a bare off as False.
    values = {key: "off" if value is False and hints[key] is str else value for key, value in document.items()}
    return kind(
        **{
            key: typed(value, key, typing.get_args(hints[key]) or (hints[key],), source)
            for key, value in values.items()
        }
    )


def mapping(document: Any, known: set[str], source: str, what: str) -> dict[str, Any]:
    """The document, which must be keys and values with known keys only."""
    if not isinstance(document, dict):
        raise BenchError(f"{source}: {what} is {type(document).__name__}, expected keys and values")
    for key in document:
        if key not in known:
            raise BenchError(f"{source}: unknown key {key!r} in {what}{did_you_mean(str(key), known)}")
    return cast("dict[str, Any]", document)


def list_of(document: dict[str, Any], key: str, kind: type, source: str) -> tuple[Any, ...]:
    """A key's list of values of one kind: not empty, none twice."""
    values = document[key]
    if not isinstance(values, list) or not values:
        raise BenchError(f"{source}: {key} is {values!r}, expected a list that is not empty")
    found = tuple(typed(value, key, (kind,), source) for value in values)
    if len(set(found)) != len(found):
        raise BenchError(f"{source}: {key} names {next(v for v in found if found.count(v) > 1)!r} twice, expected once")
    return found


def typed(value: Any, key: str, kinds: tuple[Any, ...], source: str) -> Any:
    """The value, of one of the kinds; a whole number is a float where one is wanted."""
    if type(value) in kinds:
        return value
    if float in kinds and type(value) is int:
        return float(value)
    shown = " or ".join("nothing" if k is type(None) else k.__name__ for k in kinds)
    raise BenchError(f"{source}: {key} has {value!r}, expected {shown}")
