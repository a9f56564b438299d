"""What a trace is recorded from with the torch engine: a target and a drafter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lightspec_bench.core import Drafter
from lightspec_bench.runners.drafts import Answer, Drafts
from lightspec_bench.runners.requests import Request
from lightspec_bench.runners.torch_device import device_name, engine_name
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_everywhere import can_draft_everywhere
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_record import decode_and_draft, greedy_outputs
from lightspec_bench.runners.torch_record_walk import draft_everywhere


class TorchSource:
    """`stops` are the tokens that end an output."""

    def __init__(self, target: TorchModel, loaded: TorchDrafter, stops: Sequence[int]) -> None:
        self.target, self.loaded, self.stops = target, loaded, stops

    @property
    def drafter(self) -> Drafter:
        return self.loaded.shape

    @property
    def drafter_name(self) -> str:
        return self.loaded.name

    @property
    def learns(self) -> bool:
        return self.loaded.shape.kind == "ngram"

    @property
    def settings(self) -> dict[str, Any]:
        dtype, device = str(self.target.dtype), self.target.device.type
        return {"dtype": dtype, "device": device, "stop_tokens": sorted(self.stops)}

    @property
    def device(self) -> str:
        return device_name(self.target.device)

    @property
    def engine(self) -> str:
        return engine_name()

    def decode(self, requests: Sequence[Request], batch: int) -> Iterator[tuple[int, list[int], Drafts | None]]:
        """With drafts where the drafter can make them all from the passes of the target."""
        if can_draft_everywhere(drafter := self.loaded):
            yield from decode_and_draft(self.target, drafter, requests, batch, self.stops)
        else:
            for row, output in greedy_outputs(self.target, requests, batch, self.stops):
                yield row, output, None

    def draft_along(self, answers: Sequence[Answer], batch: int) -> Iterator[tuple[int, Drafts]]:
        return draft_everywhere(self.target, self.loaded, answers, batch)

    def close(self) -> None:
        pass
