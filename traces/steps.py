"""From step logs to positions: what one verification tells about every output position it passed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import Confidence, IntArray


@dataclass(frozen=True, slots=True)
class Positions:
    """One request's step log by output position; arrays of shape (num_output_tokens,)."""

    num_accepted: IntArray
    num_draft_tokens: IntArray
    step: IntArray  # the step a position lies in, -1 where none was logged
    into: IntArray  # positions since that step's start


def positions_from_steps(
    num_verify_tokens: IntArray, num_accepted_tokens: IntArray, num_output_tokens: int
) -> Positions:
    """What a request's decode steps, arrays of shape (S,), tell about each output position.

    The first token comes from prefill, so step 0 starts at position 1; a step that verified v draft tokens and
    accepted a of them moves from p to p + a + 1. At p + k, k <= a, the rest of that same proposal is known: a - k
    accepted of v - k. Nothing is known past it, so num_draft_tokens caps what a replay may verify there; position 0
    and those past the last step have none.
    """
    starts = 1 + np.concatenate([[0], np.cumsum(num_accepted_tokens + 1)])
    verified, taken = np.append(num_verify_tokens, 0), np.append(num_accepted_tokens, 0)  # entry -1: no step
    position = np.arange(num_output_tokens)
    step = np.searchsorted(starts, position, side="right") - 1
    step = np.where(step < len(num_verify_tokens), step, -1)
    into = np.where(step >= 0, position - starts[step], 0)
    accepted = np.minimum(taken[step] - into, num_output_tokens - 1 - position)
    return Positions(accepted, verified[step] - into, step, into)


def spread_over_positions(by_step: Confidence | None, log: Positions) -> Confidence | None:
    """A signal of each step's draft tokens, (S, D), by output position, (L, D).

    k positions into a step, its draft token k + 1 is the next one.
    """
    if by_step is None:
        return None
    depth = by_step.shape[1]
    padded = np.full((len(by_step) + 1, 2 * depth), np.nan, np.float32)  # row -1: positions without a step
    padded[:-1, :depth] = by_step
    columns = np.minimum(log.into[:, None] + np.arange(depth), 2 * depth - 1)
    spread: Confidence = padded[log.step[:, None], columns]
    return spread
