"""The slots of one replica of a fleet: requests wait here only once the router has sent them."""

from __future__ import annotations

from collections import deque

import numpy as np

from lightspec_bench.core import IntArray, Trace
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.slots import Slots


class RoutedSlots(Slots):
    """`Slots` that know the fleet's whole workload, by the same sequence numbers, and run what is routed here.

    Requests are routed in the order of their arrival, and not before the replica's clock has reached it.
    """

    def __init__(self, trace: Trace, load: Load) -> None:
        super().__init__(trace, load)
        self._routed: deque[int] = deque()
        self._left_s, self._num_left = 0.0, 0
        self.num_unfinished = 0

    def route(self, sequence: int) -> None:
        self._routed.append(sequence)
        self.num_unfinished += 1

    def num_outstanding(self, now_s: float) -> int:
        """Requests routed here and not finished at `now_s`, which lies in the last step or after it."""
        return self.num_active + len(self._routed) + (self._num_left if self._left_s > now_s else 0)

    def next_arrival_s(self) -> float:
        assert self._arrival_s is not None
        return float(self._arrival_s[self._routed[0]]) if self._routed else np.inf

    def num_waiting(self, now_s: float) -> int:
        return len(self._routed)

    def admit(self, now_s: float) -> IntArray:
        count = min(self._capacity - self.num_active, len(self._routed))
        return self._enter(np.array([self._routed.popleft() for _ in range(count)], dtype=np.int64), now_s)

    def finish(self, now_s: float) -> None:
        self._left_s, self._num_left = now_s, self._leaving.shape[1]
        super().finish(now_s)
