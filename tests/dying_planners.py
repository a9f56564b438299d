"""Planners whose process is killed in the middle of a run, as by a machine short of memory."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from lightspec_bench.core import Batch, EngineConfig, Plan
from lightspec_bench.planners.static import Static


class Dies(Static):
    """Static K that kills its process at its third step, until it did so `times` times; counts its runs in `folder`."""

    def __init__(self, config: EngineConfig, folder: str, times: int = 1, k: int = 2) -> None:
        super().__init__(config, k=k)
        self.folder, self.times, self.num_steps = Path(folder), times, 0

    def plan(self, batch: Batch) -> Plan:
        self.num_steps += 1
        if self.num_steps == 1:
            with (self.folder / "started").open("a", encoding="utf-8") as file:
                file.write(f"{batch.num_requests}\n")
        if self.num_steps == 3 and self.deaths() < self.times:
            (self.folder / f"death-{self.deaths()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().plan(batch)

    def deaths(self) -> int:
        return len(list(self.folder.glob("death-*")))
