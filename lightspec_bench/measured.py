"""What a measured run decodes: a target, a drafter and prompts, by name, and how the engine runs them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lightspec_bench.core import BenchError


@dataclass(frozen=True, slots=True)
class Measured:
    """`target`, `drafter` and `prompts` as `run --runner torch` takes them.

    `num_prompts` are drawn from the source, all where None; each may put out `max_tokens`; prompts longer than
    `max_prompt_tokens` are left out. `max_draft_tokens` is D,
    None for the drafter's own; `max_static` the deepest static K that is run, None for D. `latency` is the table that
    planners are told, None for one fitted from short runs of the same engine.
    """

    target: str
    drafter: str
    prompts: str
    num_prompts: int | None = None
    max_tokens: int = 128
    max_draft_tokens: int | None = None
    max_static: int | None = None
    dtype: str = "float32"
    device: str = "cpu"
    latency: str | None = None
    chat_template: bool = True
    max_prompt_tokens: int = 2048

    def __post_init__(self) -> None:
        for name in ("num_prompts", "max_tokens", "max_draft_tokens", "max_prompt_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BenchError(f"{name} is {value}, expected at least 1")
        if self.max_static is not None and self.max_static < 0:
            raise BenchError(f"max_static is {self.max_static}, expected at least 0")

    @property
    def workload(self) -> str:
        """The name that stands where a simulated run has its trace's."""
        return f"{_short(self.target)} + {_short(self.drafter)} on {_short(self.prompts)}"

    @property
    def machine(self) -> str:
        """The name that stands where a simulated run has its latency model's."""
        return f"{self.device} {self.dtype}"

    @property
    def spec(self) -> str:
        """Everything that determines a cell's outcome, as text. How many static K are run is no part of it."""
        return json.dumps({key: value for key, value in asdict(self).items() if key != "max_static"}, sort_keys=True)


def _short(name: str) -> str:
    """The last part of a path, with the kind before it: `eagle:/long/way/head` -> `eagle:head`."""
    kind, colon, path = name.rpartition(":")
    return f"{kind}{colon}{Path(path).name}" if "/" in path and not kind.startswith("/") else Path(name).name
