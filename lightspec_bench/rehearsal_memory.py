"""Memory: which requests that left a planner still holds on to, found by walking through its state.

A planner that keeps something of every request it ever saw grows without bound in a server. Request ids give it away:
where most of those that left are still found in its containers and arrays, nothing makes it forget.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from lightspec_bench.core import IntArray, Planner

_LEAVES = (str, bytes, float, type, ModuleType, FunctionType, MethodType)
_CONTAINERS = (list, tuple, set, frozenset, deque)


def kept_requests(planner: Planner, gone: IntArray) -> tuple[str, int]:
    """The attribute that holds the most ids of `gone`, and how many; ids must be unlike any other number."""
    wanted = np.sort(gone)
    kept = [(len(_ids_in(value, wanted)), name) for name, value in _attributes(planner)]
    number, name = max(kept, default=(0, ""))
    return name, number


def _ids_in(root: Any, wanted: IntArray) -> set[int]:
    """Every wanted id in what can be reached from an object."""
    found: set[int] = set()
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (int, np.integer)):
            found |= _wanted(np.array([value]), wanted)
        elif id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, np.ndarray) and value.dtype != object:
                found |= _wanted(value, wanted)
            else:
                waiting.extend(_parts(value))
    return found


def _wanted(values: Any, wanted: IntArray) -> set[int]:
    return set(values[np.isin(values, wanted)].tolist()) if np.issubdtype(values.dtype, np.integer) else set()


def _parts(value: Any) -> Iterable[Any]:
    if value is None or isinstance(value, _LEAVES):
        return ()
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, (*_CONTAINERS, np.ndarray)):
        return list(value)
    return [part for _, part in _attributes(value)]


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """Those in its `__dict__` and in slots."""
    slots = [
        name
        for cls in type(value).__mro__
        for name in _as_names(cls.__dict__.get("__slots__", ()))
        if not name.startswith("__") and hasattr(value, name)
    ]
    return [*getattr(value, "__dict__", {}).items(), *((name, getattr(value, name)) for name in slots)]


def _as_names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
