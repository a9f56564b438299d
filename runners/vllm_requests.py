"""Requests inside vLLM's scheduler, as columns: numbers, depths asked for, the newest confidences, sums and times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import Confidence, FloatArray, IntArray
from lightspec_bench.runners.vllm_report import StepReport

STEPS, SPEC_STEPS, DRAFTED, VERIFIED, ACCEPTED = range(5)
ARRIVAL_S, START_S, FIRST_TOKEN_S = range(3)
_FIRST_CAPACITY = 64


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """What `core.REQUEST_COLUMNS` has for one request, and vLLM's own name of it. Seconds since the run began, but
    `arrived_at_s`, which is the process's clock."""

    name: str
    request_id: int
    arrival_s: float
    start_s: float
    first_token_s: float
    finish_s: float
    num_prompt_tokens: int
    num_output_tokens: int
    num_steps: int
    num_spec_steps: int
    num_draft_tokens: int
    num_verify_tokens: int
    num_accepted_tokens: int
    arrived_at_s: float


class RequestTable:
    """Slots of the requests that the scheduler holds; request ids count up in the order they were added."""

    def __init__(self, max_draft_tokens: int) -> None:
        self.width = max_draft_tokens
        self._slot: dict[str, int] = {}
        self._free: list[int] = []
        self.next_id = 0
        self.request_id: IntArray = np.zeros(0, dtype=np.int64)
        self.asked: IntArray = np.zeros(0, dtype=np.int64)
        self.threshold: FloatArray = np.zeros(0)
        self.confidence: Confidence = np.zeros((0, max_draft_tokens), dtype=np.float32)
        self.entropy: Confidence = np.zeros((0, max_draft_tokens), dtype=np.float32)
        self.counts: IntArray = np.zeros((5, 0), dtype=np.int64)
        self.times_s: FloatArray = np.zeros((3, 0))

    def __contains__(self, name: str) -> bool:
        return name in self._slot

    def __len__(self) -> int:
        return len(self._slot)

    def slots(self, names: Iterable[str]) -> IntArray:
        return np.array([self._slot[name] for name in names], dtype=np.int64)

    def add(self, name: str, now_s: float) -> None:
        """A request arrives; nothing where it is known (a session that goes on)."""
        if name in self._slot:
            return
        if not self._free:
            self._grow()
        slot = self._slot[name] = self._free.pop()
        self.request_id[slot], self.asked[slot], self.threshold[slot] = self.next_id, self.width, np.nan
        self.confidence[slot], self.entropy[slot] = np.nan, np.nan
        self.counts[:, slot], self.times_s[:, slot] = 0, (now_s, np.nan, np.nan)
        self.next_id += 1

    def _grow(self) -> None:
        old, more = len(self.request_id), max(len(self.request_id), _FIRST_CAPACITY)
        self._free = list(range(old + more - 1, old - 1, -1))
        self.request_id, self.asked = (np.pad(column, (0, more)) for column in (self.request_id, self.asked))
        self.threshold = np.pad(self.threshold, (0, more))
        self.confidence, self.entropy = (np.pad(c, ((0, more), (0, 0))) for c in (self.confidence, self.entropy))
        self.counts = np.pad(self.counts, ((0, 0), (0, more)))
        self.times_s = np.pad(self.times_s, ((0, 0), (0, more)))

    def remove(self, name: str) -> int | None:
        """The slot that a request leaves, None where it is not known; its columns stay until the next `add`."""
        slot = self._slot.pop(name, None)
        if slot is not None:
            self._free.append(slot)
        return slot

    def report(self, report: StepReport) -> None:
        """Keep the confidences of the proposals that a step made, NaN past them; of requests that are still here."""
        if report.confidence is None or report.entropy is None:
            return
        rows = [row for row, name in enumerate(report.request_ids) if name in self._slot]
        slots = self.slots(report.request_ids[row] for row in rows)
        depth = min(report.confidence.shape[1], self.width)
        self.confidence[slots], self.entropy[slots] = np.nan, np.nan
        self.confidence[slots, :depth] = report.confidence[rows, :depth]
        self.entropy[slots, :depth] = report.entropy[rows, :depth]

    def stepped(self, slots: IntArray, drafted: IntArray, verified: IntArray, accepted: IntArray) -> None:
        """Add a decode step's tokens, (N,) each."""
        self.counts[:, slots] += np.stack((np.ones_like(drafted), verified > 0, drafted, verified, accepted))

    def finished(
        self, name: str, slot: int, now_s: float, num_prompt: int, num_output: int, began_s: float
    ) -> FinishedRequest:
        """The record of a request that left `slot`; seconds count from `began_s` on the process's clock."""
        arrival_s, start_s, first_token_s = self.times_s[:, slot].tolist()
        steps, spec_steps, drafted, verified, accepted = self.counts[:, slot].tolist()
        return FinishedRequest(
            name=name,
            request_id=int(self.request_id[slot]),
            arrival_s=arrival_s,
            start_s=start_s,
            first_token_s=first_token_s,
            finish_s=now_s,
            num_prompt_tokens=num_prompt,
            num_output_tokens=num_output,
            num_steps=steps,
            num_spec_steps=spec_steps,
            num_draft_tokens=drafted,
            num_verify_tokens=verified,
            num_accepted_tokens=accepted,
            arrived_at_s=began_s + arrival_s,
        )
