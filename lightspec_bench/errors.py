"""Errors: the one base that the command line shows without a traceback. Imports nothing."""

from __future__ import annotations

from typing import ClassVar


class BenchError(Exception):
    """Something the user can mend; the CLI shows its one sentence without a traceback."""

    exit_code: ClassVar[int] = 2


class PlanError(BenchError):
    """A planner returned a plan outside its bounds; names the planner and the value."""


class GateError(BenchError):
    """A check that the user asked for did not hold (a planner's conformance, a regression bound)."""

    exit_code: ClassVar[int] = 1


class PluginError(BenchError):
    """A plug-in that is broken itself: its module or its constructor raises something that is no `BenchError`."""
