"""The public conformance check of a planner: bounds, determinism, no peeking, no mutation, memory, awkward batches.

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
from lightspec_bench.registry import parse_spec, planner_options, reads_trace, resolve, shown
from lightspec_bench.rehearsal import Scene, change_outcomes, write_script
from lightspec_bench.rehearsal_drive import drive
from lightspec_bench.rehearsal_memory import kept_requests

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
    Raises `BenchError` for what cannot be driven: an unknown name or option, a planner that reads the trace it runs on
    or needs a signal that no rehearsal has, or one whose constructor refuses the engine it is checked in
    (autoregressive drafter, D = `max_draft_tokens`).
    """
    name, cls, given = _resolve(planner, dict(options or {}))
    if reads_trace(cls):
        raise BenchError(
            f"planner {name} reads the trace it runs on (constructor parameter 'trace'), expected one that plans "
            "from batches alone"
        )
    ordinary = _ordinary_scene(max_draft_tokens, seed)
    try:
        built = cls(ordinary.config(), **given)  # type: ignore[call-arg]
    except BenchError:
        raise
    except Exception as error:
        return [f"constructor raises {shown(error)} ({ordinary.words})"]
    findings = _check_declarations(built)
    if findings:
        return findings
    _check_can_be_driven(name, built)
    found: dict[str, list[str]] = {}
    crowd = replace(ordinary, title="many requests", sizes=(32,) * 150, churn=0.5, first_id=1_000_000)
    for scene in (*_scenes(built, ordinary), crowd):
        check = _check_memory if scene is crowd else _check_scene
        finding = check(name, cls, given, scene)
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
    return name, cls, planner_options(name, cls, options)


def _check_declarations(planner: Planner) -> list[str]:
    """Whether it says what it reads, in the words of the protocol; on the class or on the instance."""
    absent = object()
    age, needs, drafts = (getattr(planner, name, absent) for name in ("confidence", "requires", "uses_drafter"))
    findings = []
    if age not in _AGES:
        said = "missing" if age is absent else repr(age)
        findings.append(f"attribute confidence is {said}, expected one of {', '.join(_AGES)}")
    if not isinstance(needs, frozenset) or not all(isinstance(need, str) for need in needs):
        said = "missing" if needs is absent else repr(needs)
        findings.append(f"attribute requires is {said}, expected a frozenset of words such as 'confidence'")
    if not isinstance(drafts, bool):
        said = "missing" if drafts is absent else repr(drafts)
        findings.append(f"attribute uses_drafter is {said}, expected True or False")
    verbs = [verb for verb in ("plan", "observe") if not callable(getattr(planner, verb, None))]
    return findings + [f"method {verb}() is missing" for verb in verbs]


def _check_can_be_driven(name: str, planner: Planner) -> None:
    """Raise `BenchError` for a planner that needs what neither a trace nor a rehearsal has."""
    missing = sorted(planner.requires - _NEEDS)
    if missing:
        raise BenchError(
            f"planner {name} needs {', '.join(missing)}, which no rehearsal has, expected options under which it "
            "requires confidence or entropy at most"
        )


def _ordinary_scene(depth: int, seed: int) -> Scene:
    """The engine that a planner must accept; its constructor may refuse the others."""
    sizes = np.random.default_rng(seed).integers(2, 9, 10).repeat(2).tolist()
    return Scene("requests come and go", tuple(sizes), max_draft_tokens=depth, seed=seed)


def _scenes(planner: Planner, ordinary: Scene) -> list[Scene]:
    scenes = [
        ordinary,
        replace(ordinary, title="a batch that stays", sizes=(6,) * 16, churn=0.0),
        replace(ordinary, title="no request (N = 0)", sizes=(0, 0, 3, 3, 0, 0, 2)),
        replace(ordinary, title="one request (N = 1)", sizes=(1,) * 12, churn=0.1),
        replace(ordinary, title="only newcomers", sizes=(4, 1, 7, 7, 2, 0, 5), churn=1.0),
        replace(ordinary, title="one draft token (D = 1)", max_draft_tokens=1),
        replace(ordinary, title="prompts share steps, requests wait", crowded=True),
        *(replace(ordinary, title=f"drafter kind {kind}", kind=kind) for kind in DRAFTER_KINDS[1:]),
    ]
    if planner.requires != _NEEDS:
        bare = replace(ordinary, title="a drafter that shows only what the planner requires")
        shows = ("confidence" in planner.requires, "entropy" in planner.requires)
        scenes.append(replace(bare, shows_confidence=shows[0], shows_entropy=shows[1]))
    return [replace(scene, lag_steps=lag) for scene in scenes for lag in (0, 1)]


def _check_scene(name: str, cls: type[Any], options: dict[str, Any], scene: Scene) -> str | None:
    script = write_script(scene)
    through = partial(drive, name, lambda: cls(scene.config(), **options), scene)
    first = through(script)
    if first.refusal is not None or first.finding is not None:
        return first.finding
    differs = _first_difference(first.plans, through(script).plans)
    if differs is not None:
        return f"two drives with the same seed differ in the plan of step {differs}"
    for t0 in range(0, len(script), max(1, len(script) // 3)):
        other = through(change_outcomes(script, t0, scene))
        differs = _first_difference(first.plans[: t0 + 1], other.plans[: t0 + 1])
        if differs is not None:
            return f"the plan of step {differs} changes with outcomes of step {t0} and later"
    differs = _first_difference(first.plans, through(script, reuses_arrays=True).plans)
    if differs is not None:
        return (
            f"the plan of step {differs} changes when arrays of earlier batches and steps are reused, expected a copy"
        )
    return None


def _check_memory(name: str, cls: type[Any], options: dict[str, Any], scene: Scene) -> str | None:
    """Whether requests that left are forgotten; planners that remember a bounded number of them pass."""
    script = write_script(scene)
    driven = drive(name, lambda: cls(scene.config(), **options), scene, script)
    if driven.planner is None or driven.finding is not None:
        return driven.finding
    gone = np.arange(scene.first_id, script[-2].request_id.min())
    attribute, kept = kept_requests(driven.planner, gone)
    if 2 * kept <= len(gone):
        return None
    return f"{attribute} holds {kept} of {len(gone)} requests that left, expected it to forget them"


def _first_difference(one: list[Any], other: list[Any]) -> int | None:
    """The first step whose plans differ; a drive that ended early differs where it ended."""
    differs = (t for t, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differs, None if len(one) == len(other) else min(len(one), len(other)))
