"""Request table: what a planner remembers of every running request, and forgets when it leaves."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import BoolArray, IntArray

Rows: TypeAlias = dict[str, npt.NDArray[Any]]


class RequestTable:
    """Named columns, one entry per request. `newcomer` gives each column's value, a number or an array, for a request
    not seen before; the column has its shape after the first axis and its dtype.

    A planner reads the rows of a batch, changes them, and writes them back: requests that are not written are gone.
    """

    def __init__(self, **newcomer: Any) -> None:
        self._newcomer = {name: np.asarray(value) for name, value in newcomer.items()}
        self._ids: IntArray = np.zeros(0, dtype=np.int64)
        self._columns = {name: np.zeros((0, *value.shape), value.dtype) for name, value in self._newcomer.items()}

    def read(self, request_id: IntArray) -> tuple[Rows, BoolArray]:
        """Copies of the rows in the order of `request_id` (N,), and which of them were known, (N,)."""
        place, known = self._find(request_id)
        if not known.any():
            return {name: _repeated(value, len(known)) for name, value in self._newcomer.items()}, known
        rows = {name: column[place] for name, column in self._columns.items()}
        if not known.all():
            for name, row in rows.items():
                row[~known] = self._newcomer[name]
        return rows, known

    def write(self, request_id: IntArray, rows: Rows) -> None:
        """Keep these rows, and only these."""
        order = np.argsort(request_id)
        self._ids = request_id[order]
        self._columns = {name: rows[name][order] for name in self._newcomer}

    def gone(self, request_id: IntArray) -> Rows:
        """Rows of requests that are remembered and not among `request_id`, by ascending id."""
        if not len(self._ids):
            return dict(self._columns)
        left = ~np.isin(self._ids, request_id)
        return {name: column[left] for name, column in self._columns.items()}

    def _find(self, request_id: IntArray) -> tuple[IntArray, BoolArray]:
        if not len(self._ids):
            return np.zeros(len(request_id), dtype=np.int64), np.zeros(len(request_id), dtype=bool)
        place = np.minimum(np.searchsorted(self._ids, request_id), len(self._ids) - 1)
        return place, self._ids[place] == request_id


def _repeated(value: npt.NDArray[Any], times: int) -> npt.NDArray[Any]:
    return np.broadcast_to(value, (times, *value.shape)).copy()
