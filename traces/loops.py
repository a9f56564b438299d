"""Loops: where a model began to say the same thing over and over until its output ended."""

from __future__ import annotations

from lightspec_bench.core import IntArray

MOST_PERIOD = 64
LEAST_ROUNDS = 3
LEAST_TOKENS = 24  # a list that ends in `. . .` is no loop


def repeats_from(tokens: IntArray, most_period: int = MOST_PERIOD) -> int:
    """First position (from 0) of the second round of a loop that lasts to the end of `tokens` (L,); L if there is none.

    A loop has a period of at most `most_period` tokens and goes round at least `LEAST_ROUNDS` times and for
    `LEAST_TOKENS` tokens. Of several periods the one whose loop begins earliest counts.
    """
    length = len(tokens)
    best = length
    for period in range(1, min(most_period, length - 1) + 1):
        differs = (tokens[period:] != tokens[:-period]).nonzero()[0]
        start = int(differs[-1]) + 1 if len(differs) else 0
        if length - start >= max(LEAST_ROUNDS * period, LEAST_TOKENS):
            best = min(best, start + period)
    return best
