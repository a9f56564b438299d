"""Requests of a real run: prompts as token ids, and the book of who waits, runs and has finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import BenchError, BoolArray, Columns, IntArray


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, and how many tokens may come out at most."""

    tokens: Sequence[int]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Sending:
    """How requests are sent in a closed loop.

    `num_requests`: how many, from the start again where there are fewer prompts; None for each once. `shuffle_seed`:
    in the simulator's order of that seed, None for their own. `keep_full`: keep sending, uncounted, until the last
    counted request is done: there is no tail.
    """

    num_requests: int | None = None
    shuffle_seed: int | None = None
    keep_full: bool = False

    def __post_init__(self) -> None:
        if self.num_requests is not None and self.num_requests < 1:
            raise BenchError(f"num_requests is {self.num_requests}, expected at least 1")

    def num_counted(self, number: int) -> int:
        """Requests that count, of `number` prompts."""
        return (self.num_requests or number) if number else 0

    def order(self, number: int, max_num_seqs: int) -> IntArray:
        """Rows of `number` prompts in the order they are sent: those that count, and as many rounds more as keep
        `max_num_seqs` places full, each in an order of its own as the simulator's are."""
        if not number:
            return np.zeros(0, dtype=np.int64)
        wanted, seed = self.num_counted(number), self.shuffle_seed
        more = 4 * max_num_seqs if self.keep_full else 0
        rounds = range(-(-(wanted + more) // number))
        if seed is None:
            order = np.tile(np.arange(number), len(rounds))
        else:
            order = np.concatenate([np.random.default_rng([seed, r]).permutation(number) for r in rounds])
        return order if more else order[:wanted]


class Book:
    """The requests of a closed loop and the slots they run in; a request is named by its number in the order sent.

    The first `num_counted` of the order count, all where None. `keep_full` sends more, and from the start again, until
    the last of those is done.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        order: IntArray,
        num_slots: int,
        max_model_len: int,
        keep_full: bool,
        num_counted: int | None = None,
    ) -> None:
        self._requests, self._order, self._keep_full = requests, order, keep_full
        self.num_counted = self.num_unfinished = len(order) if num_counted is None else num_counted
        self._max_model_len = max_model_len
        self._next = 0
        self._sequence = np.full(num_slots, -1, dtype=np.int64)  # per slot, -1 where free
        self._times_s = np.full((len(order) + num_slots, 3), np.nan)  # start, first token, finish
        # output tokens, steps, spec steps, drafted, verified, accepted
        self._counts = np.zeros((len(order) + num_slots, 6), dtype=np.int64)
        self.outputs: dict[int, list[int]] = {}

    @classmethod
    def of(cls, requests: Sequence[Request], sending: Sending, num_slots: int, max_model_len: int) -> Book:
        number = len(requests)
        order = sending.order(number, num_slots)
        return cls(requests, order, num_slots, max_model_len, sending.keep_full, sending.num_counted(number))

    # ------------------------------------------------------------------ who runs

    @property
    def running(self) -> IntArray:
        """Slots in use, ascending."""
        return np.flatnonzero(self._sequence >= 0)

    def request_id(self, slots: IntArray) -> IntArray:
        """Row among the requests, plus their number for every repetition, (N,)."""
        return self._id(self._sequence[slots])

    def _id(self, sequence: IntArray) -> IntArray:
        number, cycle = len(self._requests), max(len(self._order), 1)
        per_cycle = -(-cycle // max(number, 1))
        place = sequence % cycle
        repetition = sequence // cycle * per_cycle + place // max(number, 1)
        return np.asarray(self._order[place] + repetition * number)

    def _request(self, sequence: int) -> Request:
        return self._requests[int(self._order[sequence % len(self._order)])]

    def admit(self, now_s: float) -> tuple[IntArray, list[IntArray], IntArray]:
        """Fill the free slots: the slots taken (ascending), their prompts and their limits in tokens."""
        free = np.flatnonzero(self._sequence < 0)
        left = len(free) if self._keep_full and self.num_unfinished else self.num_counted - self._next
        slots = free[: max(left, 0)]
        prompts, limits = [], np.zeros(len(slots), dtype=np.int64)
        for place, slot in enumerate(slots.tolist()):
            request = self._request(self._next)
            prompts.append(np.asarray(request.tokens, dtype=np.int64))
            limits[place] = min(len(request.tokens) + request.max_tokens, self._max_model_len)
            self._sequence[slot] = self._next
            self._next += 1
        self._grow()
        self._times_s[self._sequence[slots], 0] = now_s
        return slots, prompts, limits

    def _grow(self) -> None:
        """Double the tables where more requests were sent than they hold."""
        if self._next > len(self._counts):
            more = ((0, len(self._counts)), (0, 0))
            self._times_s, self._counts = (
                np.pad(self._times_s, more, constant_values=np.nan),
                np.pad(self._counts, more),
            )

    # ------------------------------------------------------------------ what happened

    def first_tokens(self, slots: IntArray, now_s: float) -> None:
        sequence = self._sequence[slots]
        self._times_s[sequence, 1], self._counts[sequence, 0] = now_s, 1

    def stepped(self, slots: IntArray, drafted: IntArray, verified: IntArray, accepted: IntArray) -> None:
        """Book a step's outcome."""
        ones = np.ones_like(drafted)
        amounts: IntArray = np.stack((accepted + 1, ones, verified > 0, drafted, verified, accepted), axis=1)
        self._counts[self._sequence[slots]] += amounts

    def finish(self, slot: int, now_s: float, output: list[int]) -> None:
        """A request leaves its slot."""
        sequence = int(self._sequence[slot])
        self._times_s[sequence, 2] = now_s
        if sequence < self.num_counted:
            self.num_unfinished -= 1
            self.outputs[int(self.request_id(np.array([slot]))[0])] = output
        self._sequence[slot] = -1

    def columns(self) -> Columns:
        """`REQUEST_COLUMNS` of the counted requests that finished, in the order they were sent."""
        sent = min(self._next, self.num_counted)
        times = self._times_s[:sent]
        counts = self._counts[:sent]
        done: BoolArray = ~np.isnan(times[:, 2])
        rows = self._order[:sent]
        prompts = np.array([len(self._requests[row].tokens) for row in rows.tolist()], dtype=np.int64)
        columns = {
            "request_id": self._id(np.arange(sent)),
            "arrival_s": times[:, 0], "start_s": times[:, 0], "first_token_s": times[:, 1], "finish_s": times[:, 2],
            "num_prompt_tokens": prompts, "num_output_tokens": counts[:, 0],
            "num_steps": counts[:, 1], "num_spec_steps": counts[:, 2], "num_draft_tokens": counts[:, 3],
            "num_verify_tokens": counts[:, 4], "num_accepted_tokens": counts[:, 5],
        }  # fmt: skip
        return {name: column[done] for name, column in columns.items()}


def check_requests(requests: Sequence[Request], max_model_len: int | None, max_positions: int | None, name: str) -> int:
    """The cache's length per slot: `max_model_len`, or what the longest request needs. Raises `BenchError`."""
    for row, request in enumerate(requests):
        if not len(request.tokens):
            raise BenchError(f"request {row} has no prompt tokens, expected at least 1")
        if request.max_tokens < 1:
            raise BenchError(f"request {row} has max_tokens {request.max_tokens}, expected at least 1")
    longest = max((len(request.tokens) + request.max_tokens for request in requests), default=2)
    length = longest if max_model_len is None else max_model_len
    if max_positions is not None:
        if max_model_len is not None and max_model_len > max_positions:
            raise BenchError(f"max_model_len is {max_model_len}, expected at most {max_positions}, what {name} takes")
        length = min(length, max_positions)
    for row, request in enumerate(requests):
        if len(request.tokens) >= length:
            raise BenchError(
                f"request {row} has {len(request.tokens)} prompt tokens, expected fewer than {length}, "
                "the tokens a slot of the cache holds (max_model_len)"
            )
    return length
