"""Types of options: what a value read from YAML is where a constructor's annotation asks for something."""

from __future__ import annotations

import collections.abc
import difflib
import re
import types
import typing
from typing import Any

from lightspec_bench.errors import BenchError

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")  # YAML 1.1 takes 1e-3 for text
_WORDS = {True: ("on", "yes", "true"), False: ("off", "no", "false")}  # and these for true and false
_MISMATCH = object()


def type_name(annotation: Any) -> str:
    """An annotation as documents write it: `int | None`, `auto | eagle3`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " | ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(type_name, arguments))
    if annotation is type(None):
        return "None"
    return str(annotation).replace("typing.", "") if origin else getattr(annotation, "__name__", str(annotation))


def typed(what: str, value: Any, annotation: Any) -> Any:
    """`value` as its annotation has it: an int as a float, a list as a tuple. `what` begins the sentence otherwise."""
    choices = _choices(annotation)
    for choice in choices:
        found = _fitted(what, value, choice)
        if found is not _MISMATCH:
            return found
    words = [str(word) for choice in choices for word in typing.get_args(choice) if _is_literal(choice)]
    if words and all(_is_literal(choice) or choice is type(None) for choice in choices):
        near = difflib.get_close_matches(str(value), words, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(sorted(words))}"
        raise BenchError(f"{what} is {value!r}, {hint}")
    raise BenchError(f"{what} is {value!r}, expected {' or '.join(map(_shown, choices))}")


def _choices(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [choice for member in typing.get_args(annotation) for choice in _choices(member)]
    return [annotation]


def _is_literal(choice: Any) -> bool:
    return typing.get_origin(choice) is typing.Literal


def _shown(choice: Any) -> str:
    if choice is type(None):
        return "nothing"
    return type_name(choice) if _is_literal(choice) else getattr(_container(choice), "__name__", str(choice))


def _container(choice: Any) -> Any:
    return typing.get_origin(choice) or choice


def _fitted(what: str, value: Any, choice: Any) -> Any:
    """The value as one type, or `_MISMATCH`."""
    if _is_literal(choice):
        return next((word for word in typing.get_args(choice) if _same_word(value, word)), _MISMATCH)
    kind = _container(choice)
    if kind is Any or type(value) is kind:
        return _members(what, value, choice) if kind is list else value
    if kind is float and (type(value) is int or (isinstance(value, str) and _NUMBER.fullmatch(value))):
        return float(value)
    if kind in (tuple, collections.abc.Sequence) and type(value) is list:
        return tuple(_members(what, value, choice)) if kind is tuple else _members(what, value, choice)
    if kind is collections.abc.Mapping and type(value) is dict:
        return value
    return _MISMATCH


def _same_word(value: Any, word: Any) -> bool:
    if type(value) is bool and type(word) is str:
        return word in _WORDS[value]
    return type(value) is type(word) and bool(value == word)


def _members(what: str, value: list[Any], choice: Any) -> list[Any]:
    """Each member typed, where the annotation says one type for all of them."""
    arguments = [argument for argument in typing.get_args(choice) if argument is not Ellipsis]
    if len(arguments) != 1:
        return value
    return [typed(f"{what}[{place}]", member, arguments[0]) for place, member in enumerate(value)]
