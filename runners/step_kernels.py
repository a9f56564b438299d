"""The passes over all running requests that a simulated step makes: compiled where numba is installed, else NumPy.

`state` is the matrix of `runners.slots`, (rows, capacity), of which the first n columns are running requests. Both
forms do the same to the bit (a test); compiled, a step of one request or of 256 costs a few microseconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lightspec_bench.core import BoolArray, IntArray

# Rows of the state. CONTEXT is what is added to a position to get the tokens in the cache, JOINED the number of steps
# before the request's first.
POSITION, START, END, REQUEST_ID, SEQUENCE, CONTEXT, JOINED, SPEC_STEPS, DRAFTED, VERIFIED, MISSED = range(11)

Look = Callable[[IntArray, int, IntArray], "tuple[IntArray, int, int]"]
Book = Callable[..., "tuple[IntArray, BoolArray, int, int, int]"]
Leave = Callable[[IntArray, BoolArray, int], IntArray]


class Kernels(NamedTuple):
    """The three passes; `compiled` says which form they have."""

    look: Look
    book: Book
    leave: Leave
    compiled: bool


def look(state: IntArray, n: int, pending: IntArray) -> tuple[IntArray, int, int]:
    """Position, request id, tokens out and context tokens, (4, n); sums of context tokens and of `pending`."""
    seen = state[[POSITION, REQUEST_ID, POSITION, POSITION], :n]
    seen[2] -= state[START, :n]
    seen[3] += state[CONTEXT, :n]
    return seen, int(seen[3].sum()), int(pending.sum())


def book(
    state: IntArray, n: int, pending: IntArray, verify: IntArray, recorded: Any, outcomes: IntArray
) -> tuple[IntArray, BoolArray, int, int, int]:
    """Accept against `recorded` (P,) and move on; counts every (verified, accepted) pair in `outcomes`, (D+1, D+1).

    Returns accepted tokens and who goes on, (n,) each, their number, and the sums of verified and accepted tokens.
    """
    accepted = np.minimum(verify, recorded[state[POSITION, :n]])
    state[POSITION, :n] += accepted + 1
    state[SPEC_STEPS, :n] += verify > 0
    state[DRAFTED, :n] += pending
    state[VERIFIED, :n] += verify
    width = len(outcomes)
    outcomes += np.bincount(verify * width + accepted, minlength=width**2).reshape(width, width)
    alive = state[POSITION, :n] < state[END, :n]
    return accepted, alive, int(alive.sum()), int(verify.sum()), int(accepted.sum())


def leave(state: IntArray, alive: BoolArray, num_alive: int) -> IntArray:
    """Close the gaps that those leave who do not go on; returns their columns, (rows, gone)."""
    n = len(alive)
    gone = state[:, :n][:, ~alive]
    state[:, :num_alive] = state[:, :n][:, alive]
    return gone


def _look(state, n, pending):  # type: ignore[no-untyped-def]
    seen = np.empty((4, n), np.int64)
    context, waiting = 0, 0
    for i in range(n):
        here = state[POSITION, i]
        seen[0, i] = here
        seen[1, i] = state[REQUEST_ID, i]
        seen[2, i] = here - state[START, i]
        seen[3, i] = here + state[CONTEXT, i]
        context += seen[3, i]
        waiting += pending[i]
    return seen, context, waiting


def _book(state, n, pending, verify, recorded, outcomes):  # type: ignore[no-untyped-def]
    accepted, alive = np.empty(n, np.int64), np.empty(n, np.bool_)
    num_alive, num_verified, num_accepted = 0, 0, np.int64(0)
    for i in range(n):
        right = min(np.int64(verify[i]), np.int64(recorded[state[POSITION, i]]))
        accepted[i] = right
        state[POSITION, i] += right + 1
        state[SPEC_STEPS, i] += verify[i] > 0
        state[DRAFTED, i] += pending[i]
        state[VERIFIED, i] += verify[i]
        outcomes[verify[i], right] += 1
        alive[i] = state[POSITION, i] < state[END, i]
        num_alive += alive[i]
        num_verified += verify[i]
        num_accepted += right
    return accepted, alive, num_alive, num_verified, num_accepted


def _leave(state, alive, num_alive):  # type: ignore[no-untyped-def]
    rows, n = state.shape[0], len(alive)
    gone = np.empty((rows, n - num_alive), np.int64)
    kept, left = 0, 0
    for i in range(n):
        if alive[i]:
            if kept < i:
                for row in range(rows):
                    state[row, kept] = state[row, i]
            kept += 1
        else:
            for row in range(rows):
                gone[row, left] = state[row, i]
            left += 1
    return gone


@functools.cache
def compiler() -> Callable[..., Any] | None:
    """What compiles a loop and keeps its code on disk; None where numba cannot be imported."""
    try:
        from numba import njit
    except ImportError:
        return None
    decorate: Callable[..., Any] = njit(cache=True)
    return decorate


@functools.cache
def load_kernels() -> Kernels:
    """The compiled form where there is a compiler, else the NumPy form."""
    compiled = compiler()
    if compiled is None:
        return Kernels(look, book, leave, False)
    return Kernels(compiled(_look), compiled(_book), compiled(_leave), True)
