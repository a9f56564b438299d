"""What a trace is recorded from with vLLM: an engine that drafts to the full depth everywhere and verifies nothing.

vLLM cannot be made to read a text that it did not write with its drafter following. With every draft cut to nothing it
stands at each output position once, and what it proposed there is compared with what it then wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from lightspec_bench.core import Batch, BenchError, Confidence, ConfidenceAge, Drafter, IntArray, Plan, Step
from lightspec_bench.runners.drafts import Answer, Drafts, compared
from lightspec_bench.runners.requests import Book, Request, Sending
from lightspec_bench.runners.torch_device import named_device
from lightspec_bench.runners.vllm_bench import VllmBench
from lightspec_bench.runners.vllm_loop import drive
from lightspec_bench.runners.vllm_outcomes import Observer


class DraftsOnly:
    """Drafts to the full depth, verifies nothing."""

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, max_draft_tokens: int) -> None:
        self._depth = max_draft_tokens

    def plan(self, batch: Batch) -> Plan:
        return Plan(self._depth, num_verify_tokens=np.zeros(batch.num_requests, dtype=np.int64))

    def observe(self, step: Step) -> None:
        pass


class Proposals(Observer):
    """An observer that keeps what is proposed at each output position, by the number under which a request was sent."""

    wants_confidences = True

    def __init__(self, scheduler: Any, max_draft_tokens: int, max_tokens: Sequence[int]) -> None:
        self._scheduler, self._table, self._width = scheduler, scheduler.lightspec.table, max_draft_tokens
        self._max_tokens = max_tokens
        self._kept: dict[int, tuple[IntArray, IntArray, Confidence, Confidence]] = {}

    def proposed(self, names: Sequence[str], tokens: Sequence[Sequence[int]]) -> None:
        """Draft tokens (M requests) as they reach the scheduler, after their step's outcome."""
        for name, drafts in zip(names, tokens, strict=True):
            request = self._scheduler.requests.get(name)
            if request is not None and name in self._table and request.num_output_tokens:
                self._keep(int(self._table.slots([name])[0]), request.num_output_tokens, drafts)

    def _keep(self, slot: int, position: int, drafts: Sequence[int]) -> None:
        number = int(self._table.request_id[slot])
        if number not in self._kept:
            shape = (self._max_tokens[number] + 1, self._width)
            blank = np.full(shape, np.nan, dtype=np.float32)
            self._kept[number] = np.zeros(shape, np.int64), np.zeros(shape[0], np.int64), blank, blank.copy()
        kept, count, confidence, entropy = self._kept[number]
        real = next((place for place, token in enumerate(drafts) if token < 0), len(drafts))  # vLLM fills up with -1
        kept[position, :real], count[position] = drafts[:real], real
        confidence[position], entropy[position] = self._table.confidence[slot], self._table.entropy[slot]

    def take(self, number: int, output: IntArray) -> Drafts:
        """What was kept of a request, compared with the output it had."""
        length = len(output)
        blank: Confidence = np.full((length, self._width), np.nan, dtype=np.float32)
        nothing = np.zeros((length, self._width), np.int64), np.zeros(length, np.int64), blank, blank
        tokens, count, confidence, entropy = self._kept.pop(number, nothing)
        return compared(output, tokens[:length], count[:length], confidence[:length], entropy[:length])


class VllmSource:
    """`decode` gives outputs and drafts out of one pass."""

    learns = False

    def __init__(self, bench: VllmBench) -> None:
        self._bench = bench

    @property
    def drafter(self) -> Drafter:
        return self._bench.drafter

    @property
    def drafter_name(self) -> str:
        return self._bench.drafter_name

    @property
    def settings(self) -> dict[str, Any]:
        chosen = self._bench.settings
        return {
            "dtype": chosen.dtype,
            "device": chosen.device,
            "runner": self._bench.name,
            "engine": dict(chosen.engine),
        }

    @property
    def device(self) -> str:
        return named_device(self._bench.settings.device)

    @property
    def engine(self) -> str:
        return self._bench.name

    def decode(self, requests: Sequence[Request], batch: int) -> Iterator[tuple[int, list[int], Drafts | None]]:
        """Raises `BenchError` under async scheduling, where draft tokens never reach the scheduler."""
        if not requests:
            return
        engine = self._bench.engine(drafts=True)
        scheduler = engine.engine_core.engine_core.scheduler
        control, depth = scheduler.lightspec, self.drafter.max_draft_tokens
        if control.overlapped:
            raise BenchError("record needs vLLM without async scheduling, expected no async_scheduling in --engine")
        control.set_planner(DraftsOnly(depth))
        control.plans.depth = depth  # with the first prompts already, before there is a plan
        book = Book.of(requests, Sending(), batch, self._bench.max_request_tokens)
        proposals = Proposals(scheduler, depth, [request.max_tokens for request in requests])
        took = scheduler.update_draft_token_ids
        scheduler.update_draft_token_ids = _listening(took, proposals)
        control.observers.append(proposals)
        try:
            for slot, output in drive(engine, book):
                row = int(book.request_id(np.array([slot]))[0])
                yield row, output, proposals.take(row, np.array(output, dtype=np.int64))
        finally:
            control.observers.remove(proposals)
            del scheduler.update_draft_token_ids

    def draft_along(self, answers: Sequence[Answer], batch: int) -> Iterator[tuple[int, Drafts]]:
        """Decodes again. Raises `BenchError` where another output comes out than the one that is known."""
        requests = [Request(answer.prompt.tolist(), len(answer.output)) for answer in answers]
        for row, output, drafts in self.decode(requests, batch):
            if output != answers[row].output.tolist():
                raise BenchError(
                    f"the output of request {row} of those without drafts is another than the one that was kept, "
                    "expected the same: record anew, without --outputs"
                )
            assert drafts is not None
            yield row, drafts

    def close(self) -> None:
        self._bench.close()


def _listening(took: Any, proposals: Proposals) -> Any:
    """vLLM's `update_draft_token_ids`, with what it is given shown first."""

    def update(draft_token_ids: Any) -> None:
        proposals.proposed(draft_token_ids.req_ids, draft_token_ids.draft_token_ids)
        took(draft_token_ids)

    return update
