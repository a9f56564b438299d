"""The public conformance check of a planner: bounds, determinism, no peeking, no mutation, awkward batches.

A planner is driven through made-up batches (`lightspec_bench.rehearsal`), synchronous and one step behind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lightspec_bench.core import DRAFTER_KINDS, Planner
from lightspec_bench.errors import BenchError
from lightspec_bench.registry import check_options, options_of, parse_spec, reads_trace, resolve
from lightspec_bench.rehearsal import Scene, change_outcomes, write_script
from lightspec_bench.rehearsal_drive import drive

_AGES = ("none", "lagged", "current")
_NEEDS = {"confidence", "entropy"}


def check_planner(
    planner: str | type[Planner],
    *,
    options: Mapping[str, Any] | None = None,
    max_draft_tokens: int = 11,
    seed: int = 0,
) -> list[str]:
    """What is wrong with a planner, one sentence for each kind of fault; empty for a sound one.

    `planner` is a spec (`static:k=3`, `my_package.planner:Mine`) or a class, with `options` for its constructor.
    Raises `BenchError` for an unknown name or option, a planner that reads the trace it runs on, or one whose
    constructor refuses the engine it is checked in (autoregressive drafter, D = `max_draft_tokens`).
    """
    name, cls, given = _resolve(planner, dict(options or {}))
    if reads_trace(cls):
        raise BenchError(
            f"planner {name} reads the trace it runs on (constructor parameter 'trace'), expected one that plans "
            "from batches alone"
        )
    findings = _check_declarations(cls)
    if findings:
        return findings
    found: dict[str, list[str]] = {}
    for number, scene in enumerate(_scenes(cls, max_draft_tokens, seed)):
        finding = _check_scene(name, cls, given, scene, must_accept=number == 0)
        if finding is not None:
            found.setdefault(re.sub(r"\d+", "#", finding), []).append(f"{finding} ({scene.words}")
    return [said[0] + (f", and {len(said) - 1} more)" if len(said) > 1 else ")") for said in found.values()]


def _resolve(planner: str | type[Planner], options: dict[str, Any]) -> tuple[str, type[Planner], dict[str, Any]]:
    if isinstance(planner, str):
        name, given = parse_spec(planner)
        cls: type[Planner] = resolve("planner", name)
        options = {**given, **options}
    else:
        name, cls = f"{planner.__module__}:{planner.__qualname__}", planner
    return name, cls, check_options(name, options, options_of(cls))


def _check_declarations(cls: type[Planner]) -> list[str]:
    """Whether the class says what it reads, in the words of the protocol."""
    absent = object()
    age, needs, drafts = (getattr(cls, name, absent) for name in ("confidence", "requires", "uses_drafter"))
    findings = []
    if age not in _AGES:
        shown = "missing" if age is absent else repr(age)
        findings.append(f"class attribute confidence is {shown}, expected one of {', '.join(_AGES)}")
    if not isinstance(needs, frozenset) or not needs <= _NEEDS:
        shown = "missing" if needs is absent else repr(needs)
        findings.append(f"class attribute requires is {shown}, expected a frozenset of 'confidence' and 'entropy'")
    if not isinstance(drafts, bool):
        shown = "missing" if drafts is absent else repr(drafts)
        findings.append(f"class attribute uses_drafter is {shown}, expected True or False")
    verbs = [verb for verb in ("plan", "observe") if not callable(getattr(cls, verb, None))]
    return findings + [f"method {verb}() is missing" for verb in verbs]


def _scenes(cls: type[Planner], depth: int, seed: int) -> list[Scene]:
    """The first one is the engine that a planner must accept; its constructor may refuse the others."""
    sizes = np.random.default_rng(seed).integers(2, 9, 10).repeat(2).tolist()
    ordinary = Scene("requests come and go", tuple(sizes), max_draft_tokens=depth, seed=seed)
    scenes = [
        ordinary,
        replace(ordinary, title="a batch that stays", sizes=(6,) * 16, churn=0.0),
        replace(ordinary, title="no request (N = 0)", sizes=(0, 0, 3, 3, 0, 0, 2)),
        replace(ordinary, title="one request (N = 1)", sizes=(1,) * 12, churn=0.1),
        replace(ordinary, title="only newcomers", sizes=(4, 1, 7, 7, 2, 0, 5), churn=1.0),
        replace(ordinary, title="one draft token (D = 1)", max_draft_tokens=1),
        *(replace(ordinary, title=f"drafter kind {kind}", kind=kind) for kind in DRAFTER_KINDS[1:]),
    ]
    if cls.confidence != "none" and cls.requires != _NEEDS:
        bare = replace(ordinary, title="a drafter that shows only what the planner requires")
        shown = ("confidence" in cls.requires, "entropy" in cls.requires)
        scenes.append(replace(bare, shows_confidence=shown[0], shows_entropy=shown[1]))
    return [replace(scene, lag_steps=lag) for scene in scenes for lag in (0, 1)]


def _check_scene(name: str, cls: type[Any], options: dict[str, Any], scene: Scene, must_accept: bool) -> str | None:
    script = write_script(scene)
    through = partial(drive, name, lambda: cls(scene.config(), **options), scene)
    first = through(script)
    if first.refusal is not None:
        if must_accept:
            raise first.refusal
        return None
    if first.finding is not None:
        return first.finding
    differs = _first_difference(first.plans, through(script).plans)
    if differs is not None:
        return f"two drives with the same seed differ in the plan of step {differs}"
    for t0 in range(0, len(script), max(1, len(script) // 3)):
        other = through(change_outcomes(script, t0, scene))
        differs = _first_difference(first.plans[: t0 + 1], other.plans[: t0 + 1])
        if differs is not None:
            return f"the plan of step {differs} changes with outcomes of step {t0} and later"
    return None


def _first_difference(one: list[Any], other: list[Any]) -> int | None:
    """The first step whose plans differ; a drive that ended early differs where it ended."""
    differs = (t for t, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differs, None if len(one) == len(other) else min(len(one), len(other)))
