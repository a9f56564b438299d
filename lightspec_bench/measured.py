"""What a measured run decodes: a target, a drafter and prompts, by name, and how the engine runs them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lightspec_bench.core import BenchError

MEASURING = ("torch", "vllm")  # runners that run real models


@dataclass(frozen=True, slots=True)
class Measured:
    """`target`, `drafter` and `prompts` as `run --runner torch` or `vllm` takes them.

    `num_prompts` are drawn from the source, all where None; each may put out `max_tokens`; prompts longer than
    `max_prompt_tokens` are left out. `max_draft_tokens` is D,
    None for the drafter's own; `max_static` the deepest static K that is run, None for D. `latency` is the table that
    planners are told, None for one fitted from short runs of the same engine. `engine` holds further arguments of
    vLLM's engine, as JSON. `graph_sizes` are the torch runner's, None for those of the device.
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
    runner: str = "torch"
    engine: str | None = None
    graph_sizes: str | None = None

    def __post_init__(self) -> None:
        if self.runner not in MEASURING:
            raise BenchError(f"runner is {self.runner!r}, expected {' or '.join(MEASURING)}")
        if self.engine is not None and self.runner != "vllm":
            raise BenchError("engine arguments are for the vllm runner, expected none")
        if self.graph_sizes is not None and self.runner != "torch":
            raise BenchError("graph sizes are for the torch runner, expected none")
        _ = self.engine_arguments  # what is wrong with them is said now
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
        where = f"{self.device} {self.dtype}"
        return where if self.runner == "torch" else f"vLLM, {where}"

    @property
    def engine_arguments(self) -> dict[str, Any]:
        """`engine` as keys and values."""
        return json_object(self.engine, "engine arguments") if self.engine else {}

    @property
    def spec(self) -> str:
        """Everything that determines a cell's outcome, as text. How many static K are run is no part of it; what
        only vLLM knows is not, where it does not run."""
        left_out = {"max_static"} | (set() if self.runner == "vllm" else {"runner", "engine"})
        left_out |= {"graph_sizes"} if self.graph_sizes is None else set()
        return json.dumps({key: value for key, value in asdict(self).items() if key not in left_out}, sort_keys=True)


def json_object(text: str, what: str) -> dict[str, Any]:
    """Keys and values of a JSON object. Raises `BenchError`, which begins with `what`."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise BenchError(f"{what} are {text!r}, expected a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise BenchError(f"{what} are {text!r}, expected a JSON object")
    return found


def _short(name: str) -> str:
    """The last part of a path, with the kind before it: `eagle:/long/way/head` -> `eagle:head`."""
    kind, colon, path = name.rpartition(":")
    return f"{kind}{colon}{Path(path).name}" if "/" in path and not kind.startswith("/") else Path(name).name
