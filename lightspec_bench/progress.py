"""Progress bars on stderr, one per stage of a long command; nothing where stderr is no terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Report = Callable[[str, int, int, str], None]  # stage, done, total, what to say beside


class Bars:
    """Used as a context; `report` makes a bar when it first hears of a stage."""

    def __enter__(self) -> Bars:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[said]}"),
        )  # fmt: skip
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._tasks: dict[str, Any] = {}
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def report(self, stage: str, done: int, total: int, said: str) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total, said="")
        self._progress.update(self._tasks[stage], completed=done, total=total, said=said)
