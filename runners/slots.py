"""Slots: the requests that wait, prefill, decode or have finished in a simulated engine, as columns."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import BoolArray, Columns, IntArray, Trace
from lightspec_bench.runners.load import Workload
from lightspec_bench.runners.proposals import per_request

# Rows of the state matrix: one column a running request, so that leaving and joining are one operation each.
POSITION, START, END, REQUEST_ID, SEQUENCE, PROMPT, STEPS, SPEC_STEPS, DRAFTED, VERIFIED, ACCEPTED, MISSED = range(12)
_NOTHING = np.zeros(0, dtype=np.int64)


class Slots:
    """Continuous batching over at most `capacity` requests, first come, first served.

    A request is named by its sequence number in the workload. Arrays handed out are never written to again.
    """

    def __init__(self, trace: Trace, workload: Workload, capacity: int) -> None:
        row = workload.row
        self.capacity = capacity
        self.workload = workload
        self.num_prompt_tokens = trace.num_prompt_tokens[row]
        self._num_output_tokens = trace.num_output_tokens[row]
        self._offset = trace.offsets[row]
        self._next = 0
        self._state = np.zeros((12, 0), dtype=np.int64)
        self.pending: IntArray = _NOTHING
        self.planned: IntArray = _NOTHING
        self._leaving = self._state
        self._prefilling, self._prefill_left = _NOTHING, _NOTHING
        count = len(row)
        self.start_s, self.first_token_s, self.finish_s = (np.full(count, np.nan) for _ in range(3))
        self._counts = np.zeros((MISSED - STEPS, count), dtype=np.int64)

    # ------------------------------------------------------------------ what the engine asks

    @property
    def num_running(self) -> int:
        return self._state.shape[1]

    @property
    def num_prefilling(self) -> int:
        return len(self._prefilling)

    @property
    def num_active(self) -> int:
        return self.num_running + self.num_prefilling

    @property
    def saturated(self) -> bool:
        """Whether every place is taken, or will be as soon as the engine admits again."""
        return self.num_active == self.capacity or self._next < len(self.workload.row)

    @property
    def position(self) -> IntArray:
        """Positions in the trace's columns, (N,)."""
        return np.asarray(self._state[POSITION].copy())

    @property
    def request_id(self) -> IntArray:
        return np.asarray(self._state[REQUEST_ID])

    def num_output_tokens(self) -> IntArray:
        return np.asarray(self._state[POSITION] - self._state[START])

    def num_context_tokens(self) -> IntArray:
        return np.asarray(self.num_output_tokens() + self._state[PROMPT])

    def next_arrival_s(self) -> float | None:
        arrivals = self.workload.arrival_s
        return float(arrivals[self._next]) if self._next < len(arrivals) else None

    def num_waiting(self, now_s: float) -> int:
        if self._next == len(self.workload.row):
            return 0
        return int(np.searchsorted(self.workload.arrival_s, now_s, side="right")) - self._next

    # ------------------------------------------------------------------ joining

    def admit(self, now_s: float) -> IntArray:
        """Sequence numbers of the requests that take the free places now."""
        count = min(self.capacity - self.num_active, self.num_waiting(now_s))
        if count <= 0:
            return _NOTHING
        admitted = np.arange(self._next, self._next + count)
        self._next += count
        self.start_s[admitted] = now_s
        return admitted

    def start(self, sequence: IntArray, now_s: float) -> None:
        """First tokens are out: requests of one token are done, the others decode from the next step on."""
        if not len(sequence):
            return
        self.first_token_s[sequence] = now_s
        single = self._num_output_tokens[sequence] == 1
        self.finish_s[sequence[single]] = now_s
        sequence = sequence[~single]
        joining = np.zeros((12, len(sequence)), dtype=np.int64)
        joining[START] = self._offset[sequence]
        joining[POSITION] = joining[START] + 1
        joining[END] = joining[START] + self._num_output_tokens[sequence]
        joining[REQUEST_ID] = self.workload.request_id[sequence]
        joining[SEQUENCE] = sequence
        joining[PROMPT] = self.num_prompt_tokens[sequence]
        self._state = np.concatenate((self._state, joining), axis=1)
        no_draft = np.zeros(len(sequence), dtype=np.int64)
        self.pending = np.concatenate((self.pending, no_draft))
        self.planned = np.concatenate((self.planned, no_draft))

    def queue_prefill(self, sequence: IntArray) -> None:
        self._prefilling = np.concatenate((self._prefilling, sequence))
        self._prefill_left = np.concatenate((self._prefill_left, self.num_prompt_tokens[sequence]))

    def take_prefill(self, num_tokens: int) -> tuple[int, IntArray]:
        """Spend up to `num_tokens` rows on prompts in order; returns the rows spent and the requests done."""
        left = self._prefill_left
        before = np.cumsum(left) - left
        taken = np.clip(num_tokens - before, 0, left)
        done = taken == left
        finished = self._prefilling[done]
        self._prefilling, self._prefill_left = self._prefilling[~done], (left - taken)[~done]
        return int(taken.sum()), finished

    # ------------------------------------------------------------------ a step

    def advance(self, verify: IntArray, accepted: IntArray) -> BoolArray:
        """Book a step's outcome and let finished requests leave; returns who of the batch goes on, (N,)."""
        state = self._state
        state[POSITION] += accepted + 1
        state[STEPS] += 1
        state[SPEC_STEPS] += verify > 0
        state[DRAFTED] += self.pending
        state[VERIFIED] += verify
        state[ACCEPTED] += accepted
        alive = np.asarray(state[POSITION] < state[END])
        self._leaving = state[:, ~alive]
        if self._leaving.shape[1]:
            self._state = state[:, alive]
        return alive

    def propose(self, num_draft_tokens: IntArray, depth: int | IntArray) -> None:
        """The survivors' new proposals, and the depths they were asked for."""
        self.pending = num_draft_tokens
        self.planned = per_request(depth, len(num_draft_tokens))

    def catch_up(self, drafting: BoolArray, emitted: IntArray) -> int:
        """Tokens of earlier steps that the drafting survivors' drafter missed; the others miss this step's too."""
        missed = self._state[MISSED]
        behind = int(missed[drafting].sum())
        self._state[MISSED] = np.where(drafting, 0, missed + emitted)
        return behind

    def finish(self, now_s: float) -> None:
        """The requests that left in `advance` finished at `now_s`."""
        sequence = self._leaving[SEQUENCE]
        if len(sequence):
            self.finish_s[sequence] = now_s
            self._counts[:, sequence] = self._leaving[STEPS:MISSED]

    def finished_requests(self) -> Columns:
        """`REQUEST_COLUMNS` of every finished request, in order of arrival."""
        done = ~np.isnan(self.finish_s)
        columns: Columns = {
            "request_id": self.workload.request_id,
            "arrival_s": np.fmax(self.workload.arrival_s, 0.0),
            "start_s": self.start_s,
            "first_token_s": self.first_token_s,
            "finish_s": self.finish_s,
            "num_prompt_tokens": self.num_prompt_tokens,
            "num_output_tokens": self._num_output_tokens,
        }
        names = ("num_steps", "num_spec_steps", "num_draft_tokens", "num_verify_tokens", "num_accepted_tokens")
        columns |= dict(zip(names, self._counts, strict=True))
        return {name: column[done] for name, column in columns.items()}
