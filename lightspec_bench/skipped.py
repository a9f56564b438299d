"""What was left out of a file, counted by reason: rows and lines that cannot be used while those around them are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

T = TypeVar("T")


class Malformed(Exception):
    """Why a row or line is skipped, in a few words; `detail` is added where the first such one is named."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class Skipped:
    """Rows left out for one reason; `first` names the first of them, and what exactly was wrong there."""

    reason: str
    count: int
    first: str


@dataclass(slots=True)
class Tally:
    """What was skipped so far, by reason, in the order of first occurrence."""

    by_reason: dict[str, Skipped] = field(default_factory=dict)

    def add(self, where: str, error: Malformed) -> None:
        """Count a row or line; `where` is "FILE line 3"."""
        before = self.by_reason.get(error.reason)
        first = f"{where}: {error.detail}" if error.detail else where
        new = replace(before, count=before.count + 1) if before else Skipped(error.reason, 1, first)
        self.by_reason[error.reason] = new

    def tried(self, where: str, make: Callable[[], T]) -> T | None:
        """What `make` returns; None where it raises `Malformed`, which is counted."""
        try:
            return make()
        except Malformed as error:
            self.add(where, error)
            return None

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return tuple(self.by_reason.values())


def sentence(skipped: tuple[Skipped, ...]) -> str:
    """`2 is not JSON (first: FILE line 3: ...); 1 ...`, "" for nothing."""
    return "; ".join(f"{part.count} {part.reason} (first: {part.first})" for part in skipped)
