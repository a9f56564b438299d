"""What a planner says of itself: its docstrings, options and declarations, for the command line and for reports."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any

from lightspec_bench.core import BenchError, ConfidenceAge
from lightspec_bench.registry import Option, check_spec, make_planner, options_of, parse_spec, reads_trace, resolve
from lightspec_bench.rehearsal import Scene

AGES: dict[ConfidenceAge, str] = {
    "none": "reads none",
    "lagged": "reads those the pipeline has: one step old under lag",
    "current": "waits for those of the pending proposals",
}


@dataclass(frozen=True, slots=True)
class Description:
    """A planner as declared. `rule` is the class's docstring, `module` that of its file, "" where it says no more;
    `given` are the options its spec sets."""

    name: str
    target: str
    summary: str
    rule: str
    module: str
    confidence: ConfidenceAge
    requires: tuple[str, ...]
    uses_drafter: bool
    reads_trace: bool
    options: tuple[Option, ...]
    given: dict[str, Any]

    @property
    def needs(self) -> str:
        """What it needs of engine and trace, in words."""
        needed = [*self.requires, *(["the trace it runs on"] if self.reads_trace else [])]
        return ", ".join(needed) or "nothing of the trace"

    @property
    def document(self) -> dict[str, Any]:
        """As JSON values; defaults that are not become text in `json.dumps(..., default=str)`."""
        return {
            "name": self.name,
            "class": self.target,
            "summary": self.summary,
            "rule": self.rule,
            "module": self.module,
            "confidence": self.confidence,
            "confidence_words": AGES[self.confidence],
            "requires": list(self.requires),
            "needs": self.needs,
            "uses_drafter": self.uses_drafter,
            "given": self.given,
            "options": [
                {
                    "name": option.name,
                    "type": option.type_name,
                    "default": None if option.required else option.default,
                    "required": option.required,
                }
                for option in self.options
            ],
        }


def describe(spec: str) -> Description:
    """The planner that a spec names. Raises `BenchError` where it cannot be resolved or declares nothing."""
    name, given = parse_spec(spec)
    cls = resolve("planner", name)
    if given:
        check_spec(spec)
    declared = _declaring(spec, cls)
    for attribute in ("confidence", "requires", "uses_drafter"):
        if not hasattr(declared, attribute):
            raise BenchError(f"planner {name!r} does not declare {attribute!r}, expected an attribute of that name")
    module = inspect.cleandoc(getattr(sys.modules[cls.__module__], "__doc__", None) or "")
    own = inspect.cleandoc(cls.__doc__ or "")
    return Description(
        name=spec,
        target=f"{cls.__module__}:{cls.__qualname__}",
        summary=(own or module).partition("\n")[0],
        rule=own or module,
        module=module if own else "",
        confidence=declared.confidence,
        requires=tuple(sorted(declared.requires)),
        uses_drafter=declared.uses_drafter,
        reads_trace=reads_trace(cls),
        options=tuple(options_of(cls).values()),
        given=given,
    )


def _declaring(spec: str, cls: type[Any]) -> Any:
    """A planner as built for an ordinary engine, since an option or a planner inside may decide what it reads; its
    class where it cannot be built there."""
    try:
        return make_planner(spec, Scene("an ordinary engine", (8,)).config())
    except BenchError:
        return cls
