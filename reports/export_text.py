"""Export text: what every engine's exporter shares: the record, planner specs as text, versions, flags."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lightspec_bench.core import BenchError, DrafterKind


@dataclass(frozen=True, slots=True)
class Export:
    """A configuration as text. `text` is what to paste or to keep in a file, "" where there is nothing to set; `usage`
    says how the engine takes it, with FILE for the file; `notes` are what its user has to know."""

    text: str
    usage: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deployment:
    """What an exporter is told beside the configuration: the engine's version, the drafter's kind and, where the user
    said so, its method and model under the engine's own names."""

    drafter_kind: DrafterKind = "autoregressive"
    version: str | None = None
    method: str | None = None
    model: str | None = None


def spec_of(name: str, **options: Any) -> str:
    """A planner's spec from its options, in the order given, as `registry.parse_spec` reads it."""
    parts = ",".join(f"{key}={_value(key, value)}" for key, value in options.items())
    return f"{name}:{parts}" if parts else name


def _value(key: str, value: Any) -> str:
    if key == "planner":
        return f"({value})"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{each}:{_value('', inner)}" for each, inner in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def unknown(engine: str, spec: str) -> BenchError:
    """For a planner that the engine has no configuration for."""
    return BenchError(f"{engine}: planner {spec} has no configuration there, expected one of the engine's own")


def version_numbers(engine: str, version: str) -> tuple[int, ...]:
    """The leading numbers of a version, `1.3.0rc7` -> (1, 3, 0). Raises `BenchError` for anything without any."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    if found is None:
        raise BenchError(f"--engine-version is {version!r}, expected a version of {engine} such as 1.2.0")
    return tuple(int(part) for part in found[1].split("."))


def flags_of(engine: str, text: str) -> dict[str, str]:
    """`--name value` flags of a command line, `--name` alone with the value "". Raises `BenchError` for other words."""
    flags: dict[str, str] = {}
    last = None
    for word in shlex.split(text):
        if word.startswith("--"):
            last, _, value = word.partition("=")
            flags[last] = value
        elif last is not None and not flags[last]:
            flags[last] = word
        else:
            raise BenchError(f"{engine}: {word!r} belongs to no flag, expected --name value")
    return flags


def number_of(engine: str, flags: Mapping[str, Any], name: str) -> int:
    """A flag's or key's whole number. Raises `BenchError` where it is missing or none."""
    value = flags.get(name)
    if value is None or isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)):
        raise BenchError(f"{engine}: {name} is {value!r}, expected a whole number")
    return int(str(value))
