"""Slots: the requests that wait, prefill, decode or have finished in a simulated engine, as columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightspec_bench.core import BoolArray, Columns, FloatArray, IntArray, Trace
from lightspec_bench.runners.load import Load, make_workload, repetition
from lightspec_bench.runners.step_kernels import (
    CONTEXT,
    END,
    JOINED,
    MISSED,
    POSITION,
    REQUEST_ID,
    SEQUENCE,
    SPEC_STEPS,
    START,
    load_kernels,
)

_START_S, _FIRST_TOKEN_S, _FINISH_S = range(3)
_NOTHING = np.zeros(0, dtype=np.int64)


class View(NamedTuple):
    """The running requests before a step, (N,) each: positions in the trace's columns, ids and tokens; their sums."""

    position: IntArray
    request_id: IntArray
    num_output_tokens: IntArray
    num_context_tokens: IntArray
    sum_context_tokens: int
    sum_pending: int


class Outcome(NamedTuple):
    """What a step's verification gave: tokens accepted and who goes on, (N,) each, and their sums."""

    num_accepted_tokens: IntArray
    alive: BoolArray
    num_alive: int
    sum_verified: int
    sum_accepted: int


class Whole(NamedTuple):
    """A workload in columns: how each request begins, when it arrives (empty: closed loop), and what is kept of it."""

    columns: IntArray  # (rows of the state, S)
    arrival_s: FloatArray
    times_s: FloatArray  # (3, S): started, first token, finished
    counts: IntArray  # (4, S): steps, spec steps, drafted, verified
    num_counted: int
    capacity: int


class Slots:
    """Continuous batching over at most `load.concurrency` requests, first come, first served.

    A request is named by its sequence number in the workload. Arrays handed out are never written to again.
    """

    def __init__(self, trace: Trace, load: Load) -> None:
        workload = make_workload(trace, load)
        self._trace, self._seed, self._capacity = trace, load.seed, load.concurrency
        self._ids, self._arrival_s = workload.request_id, workload.arrival_s
        self._next = self._num_steps = 0
        self._kernels = load_kernels()
        self._state = np.zeros((MISSED + 1, load.concurrency), dtype=np.int64)
        self.num_running = 0
        self._recorded = np.asarray(trace.num_accepted)
        self.pending: IntArray = _NOTHING
        self.planned: IntArray = _NOTHING
        self._leaving = self._state[:, :0]
        self._prefilling, self._prefill_left = _NOTHING, _NOTHING
        self._num_counted = self.num_unfinished = workload.num_requests
        self._times_s = np.full((3, len(self._ids)), np.nan)  # rows _START_S, _FIRST_TOKEN_S, _FINISH_S
        self._counts = np.zeros((4, len(self._ids)), dtype=np.int64)  # steps, spec steps, drafted, verified
        self._columns = self._first_columns(0)
        self._may_end_at_once = bool((trace.num_output_tokens == 1).any())

    # ------------------------------------------------------------------ what the engine asks

    @property
    def num_prefilling(self) -> int:
        return len(self._prefilling)

    @property
    def num_active(self) -> int:
        return self.num_running + len(self._prefilling)

    @property
    def is_full(self) -> bool:
        return self.num_running + len(self._prefilling) == self._capacity

    @property
    def position(self) -> IntArray:
        """Positions in the trace's columns, (N,)."""
        return np.asarray(self._state[POSITION, : self.num_running].copy())

    def look(self) -> View:
        """The running requests as they stand."""
        columns, *sums = self._kernels.look(self._state, self.num_running, self.pending)
        return View(*columns, *sums)

    def next_arrival_s(self) -> float:
        """When the next request that was not admitted arrives; infinite when there is none, 0 in a closed loop."""
        if self._arrival_s is None:
            return 0.0
        return float(self._arrival_s[self._next]) if self._next < len(self._arrival_s) else np.inf

    def num_waiting(self, now_s: float) -> int:
        """Requests that arrived and have no place; in a closed loop nobody waits."""
        if self._arrival_s is None or self._next == len(self._ids):
            return 0
        return int(np.searchsorted(self._arrival_s, now_s, side="right")) - self._next

    # ------------------------------------------------------------------ joining

    def admit(self, now_s: float) -> IntArray:
        """Sequence numbers of the requests that take the free places now."""
        count = self._capacity - self.num_active
        if self._arrival_s is not None:
            count = min(count, self.num_waiting(now_s))
        elif self._next + count > len(self._ids):
            self._repeat()
        if count <= 0:
            return _NOTHING
        self._next += count
        return self._enter(np.arange(self._next - count, self._next), now_s)

    def _enter(self, sequence: IntArray, now_s: float) -> IntArray:
        self._times_s[_START_S, sequence] = now_s
        return sequence

    def _repeat(self) -> None:
        """Append repetitions of the trace until a full batch can join."""
        while len(self._ids) < self._next + self._capacity:
            number = len(self._ids) // self._trace.num_requests
            self._ids = np.concatenate((self._ids, repetition(self._trace, self._seed, number)))
        known = self._times_s.shape[1]
        added = len(self._ids) - known
        self._columns = np.concatenate((self._columns, self._first_columns(known)), axis=1)
        self._times_s = np.pad(self._times_s, ((0, 0), (0, added)), constant_values=np.nan)
        self._counts = np.pad(self._counts, ((0, 0), (0, added)))

    def _first_columns(self, first: int) -> IntArray:
        """The state's columns that the requests from sequence number `first` on begin with."""
        trace, ids = self._trace, self._ids[first:]
        row = ids % trace.num_requests
        columns = np.zeros((MISSED + 1, len(ids)), dtype=np.int64)
        columns[START] = trace.offsets[row]
        columns[POSITION] = columns[START] + 1
        columns[END] = columns[START] + trace.num_output_tokens[row]
        columns[REQUEST_ID] = ids
        columns[SEQUENCE] = np.arange(first, len(self._ids))
        columns[CONTEXT] = trace.num_prompt_tokens[row] - columns[START]
        return columns

    def num_prompt_tokens(self, sequence: IntArray) -> IntArray:
        return self._trace.num_prompt_tokens[self._ids[sequence] % self._trace.num_requests]

    def start(self, sequence: IntArray, now_s: float) -> None:
        """First tokens are out: requests of one token are done, the others decode from the next step on."""
        if not len(sequence):
            return
        self._times_s[_FIRST_TOKEN_S, sequence] = now_s
        joining = self._columns[:, sequence]
        if self._may_end_at_once:
            goes_on = joining[POSITION] < joining[END]
            self._done(sequence[~goes_on], now_s)
            joining = joining[:, goes_on]
        joining[JOINED] = self._num_steps
        count = joining.shape[1]
        self._state[:, self.num_running : self.num_running + count] = joining
        self.num_running += count
        no_draft = np.zeros(count, dtype=np.int64)
        self.pending = np.concatenate((self.pending, no_draft))
        self.planned = np.concatenate((self.planned, no_draft))

    def queue_prefill(self, sequence: IntArray) -> None:
        self._prefilling = np.concatenate((self._prefilling, sequence))
        self._prefill_left = np.concatenate((self._prefill_left, self.num_prompt_tokens(sequence)))

    def take_prefill(self, num_tokens: int) -> tuple[int, IntArray]:
        """Spend up to `num_tokens` rows on prompts in order; returns the rows spent and the requests done."""
        left = self._prefill_left
        before = np.cumsum(left) - left
        taken = np.clip(num_tokens - before, 0, left)
        done = taken == left
        finished = self._prefilling[done]
        self._prefilling, self._prefill_left = self._prefilling[~done], (left - taken)[~done]
        return int(taken.sum()), finished

    def whole(self) -> Whole:
        """The workload and what is kept of its requests, for a loop that does all the rest itself."""
        arrival_s = np.zeros(0) if self._arrival_s is None else self._arrival_s
        return Whole(self._columns, arrival_s, self._times_s, self._counts, self._num_counted, self._capacity)

    def more(self) -> Whole:
        """The workload with another repetition of the trace, in a closed loop."""
        self._next = len(self._ids)
        self._repeat()
        return self.whole()

    # ------------------------------------------------------------------ a step

    def advance(self, verify: IntArray, outcomes: IntArray) -> Outcome:
        """Accept what the trace allows of `verify` (N,), count it in `outcomes`, and let finished requests leave."""
        self._num_steps += 1
        found = Outcome(
            *self._kernels.book(self._state, self.num_running, self.pending, verify, self._recorded, outcomes)
        )
        if found.num_alive == self.num_running:
            self._leaving = self._state[:, :0]
        else:
            self._leaving = self._kernels.leave(self._state, found.alive, found.num_alive)
            self.num_running = found.num_alive
        return found

    def propose(self, num_draft_tokens: IntArray, depth: IntArray) -> None:
        """The survivors' new proposals, and the depths they were asked for."""
        self.pending, self.planned = num_draft_tokens, depth

    def catch_up(self, drafting: BoolArray, emitted: IntArray) -> int:
        """Tokens of earlier steps that the drafting survivors' drafter missed; the others miss this step's too."""
        missed = self._state[MISSED, : self.num_running]
        behind = int(missed[drafting].sum())
        missed[:] = np.where(drafting, 0, missed + emitted)
        return behind

    def finish(self, now_s: float) -> None:
        """The requests that left in `advance` finished at `now_s`."""
        sequence = self._leaving[SEQUENCE]
        if len(sequence):
            self._counts[0, sequence] = self._num_steps - self._leaving[JOINED]
            self._counts[1:, sequence] = self._leaving[SPEC_STEPS:MISSED]
            self._done(sequence, now_s)

    def _done(self, sequence: IntArray, now_s: float) -> None:
        self._times_s[_FINISH_S, sequence] = now_s
        self.num_unfinished -= int((sequence < self._num_counted).sum())

    def finished_requests(self) -> Columns:
        """`REQUEST_COLUMNS` of the counted requests, in the order they were sent."""
        sequence = np.arange(self._num_counted)
        row = self._ids[sequence] % self._trace.num_requests
        start_s, first_token_s, finish_s = self._times_s[:, sequence]
        steps, spec_steps, drafted, verified = self._counts[:, sequence]
        length = self._trace.num_output_tokens[row]
        return {
            "request_id": self._ids[sequence],
            "arrival_s": start_s if self._arrival_s is None else self._arrival_s,
            "start_s": start_s,
            "first_token_s": first_token_s,
            "finish_s": finish_s,
            "num_prompt_tokens": self._trace.num_prompt_tokens[row],
            "num_output_tokens": length,
            "num_steps": steps,
            "num_spec_steps": spec_steps,
            "num_draft_tokens": drafted,
            "num_verify_tokens": verified,
            "num_accepted_tokens": length - 1 - steps,  # a token of prefill and one bonus token a step
        }


def frozen(array: IntArray) -> IntArray:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
