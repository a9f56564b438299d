"""Held depths: the draft depth in force, one for all requests or one each, and a count of steps beside it."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import IntArray


class HeldDepths:
    """Remembers depths from step to step, as (), one for all, or (N,), one for each request of the last batch.

    While a planner plans one depth, one is held, whoever comes and goes. Once it plans depths per request, each keeps
    its own; one who was not in the last batch has none and takes what is wished. Requests that left are forgotten.
    """

    def __init__(self) -> None:
        self._request_id: IntArray | None = None
        self._held: tuple[IntArray, IntArray] | None = None

    def recall(self, request_id: IntArray, wish: int | IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """(wish, depth, count), all () or all (N,); depth is the wish and count 0 where nothing is held."""
        wished = np.asarray(wish, dtype=np.int64)
        if self._held is None:
            return wished, wished, np.zeros_like(wished)
        depth, count = self._held
        if self._request_id is None:
            if not wished.ndim:
                return wished, depth, count
            return wished, np.broadcast_to(depth, wished.shape), np.broadcast_to(count, wished.shape)
        wished = np.broadcast_to(wished, request_id.shape)
        if np.array_equal(request_id, self._request_id):
            return wished, depth, count
        place = _places(self._request_id, request_id)
        known = place >= 0
        return wished, np.where(known, depth[place], wished), np.where(known, count[place], 0)

    def keep(self, request_id: IntArray, depth: IntArray, count: IntArray) -> int | IntArray:
        """Hold these; returns them as a plan has them. Depths of nobody are not kept."""
        if not depth.ndim:
            self._request_id, self._held = None, (depth, count)
            return int(depth)
        if not depth.size:
            self._request_id, self._held = None, None
        else:
            self._request_id, self._held = request_id.copy(), (depth, count)
        return depth.copy()


def _places(known: IntArray, wanted: IntArray) -> IntArray:
    """Where each wanted id stands among the known ones, -1 where it does not; both without repetition."""
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)
    place = order[at]
    return np.where(known[place] == wanted, place, -1)
