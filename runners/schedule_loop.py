"""The decode loop of a batch-size schedule, for numba to compile: `runners.replay`'s step without a planner to ask.

Everything is an array or a number. Columns of `state` are the running requests (`runners.step_kernels`), those of
`columns` the workload's requests as they begin. Costs are lines in the batch's context, `base[rows] + per[rows] *
context`. It stops when the last counted request is done, when `steps` is full, or when a closed loop has run out of
requests (`NEED_REQUESTS`).
"""

from __future__ import annotations

import numpy as np

from lightspec_bench.runners.step_kernels import (
    CONTEXT,
    DRAFTED,
    END,
    JOINED,
    POSITION,
    SEQUENCE,
    SPEC_STEPS,
    VERIFIED,
)

# `at`: where the loop stands, so that it can be entered again.
RUNNING, NEXT, STEPS, UNFINISHED, FILLED, STATUS = range(6)
NEED_REQUESTS = 1
# `costs`: rows of (base, per context token) by number of rows; host seconds by number of requests.
VERIFY_BASE, VERIFY_PER, DRAFT_BASE, DRAFT_PER, HOST = range(5)
# `extend`, `later`: how a drafter's passes are priced (`drafting.draft_s`).
NO_PASS, ROWS, BLOCK = range(3)


def schedule_loop(  # type: ignore[no-untyped-def]
    columns, arrival, state, pending, recorded, depths, costs, extend, later, block, times, counts, num_counted,
    outcomes, unmeasured, warmup, steps, at, now,
):  # fmt: skip
    """Run on; returns the clock. See `scheduled.ScheduledReplay` for the arguments."""
    capacity, total = state.shape[1], columns.shape[1]
    n, upcoming, filled = at[RUNNING], at[NEXT], 0
    closed = len(arrival) == 0
    gone = np.empty(capacity, np.int64)
    at[STATUS] = 0
    while at[UNFINISHED] > 0 and filled < len(steps):
        free = capacity - n
        if closed:
            if upcoming + free > total:
                at[STATUS] = NEED_REQUESTS
                break
        elif n == 0:
            now = max(now, arrival[upcoming])
        while free > 0 and (closed or (upcoming < total and arrival[upcoming] <= now)):
            times[0, upcoming] = now
            times[1, upcoming] = now
            if columns[POSITION, upcoming] < columns[END, upcoming]:
                for row in range(len(columns)):
                    state[row, n] = columns[row, upcoming]
                state[JOINED, n] = at[STEPS]
                pending[n] = 0
                n += 1
            else:
                times[2, upcoming] = now
                at[UNFINISHED] -= upcoming < num_counted
            upcoming += 1
            free -= 1
        if n == 0:
            continue
        running, drafted, accepted, context, alive, left = n, 0, 0, 0, 0, 0
        counted = outcomes if at[STEPS] >= warmup else unmeasured
        for i in range(running):
            here, verify = state[POSITION, i], pending[i]
            context += here + state[CONTEXT, i]
            right = min(verify, np.int64(recorded[here]))
            drafted += verify
            accepted += right
            counted[verify, right] += 1
            state[POSITION, i] = here + right + 1
            state[SPEC_STEPS, i] += verify > 0
            state[DRAFTED, i] += verify
            state[VERIFIED, i] += verify
            if state[POSITION, i] < state[END, i]:
                if alive < i:
                    for row in range(len(columns)):
                        state[row, alive] = state[row, i]
                alive += 1
            else:
                sequence = state[SEQUENCE, i]
                gone[left] = sequence
                left += 1
                counts[0, sequence] = at[STEPS] + 1 - state[JOINED, i]
                counts[1, sequence] = state[SPEC_STEPS, i]
                counts[2, sequence] = state[DRAFTED, i]
                counts[3, sequence] = state[VERIFIED, i]
        n = alive
        asked, rows = depths[running], running + drafted
        depth = asked if alive > 0 else 0
        pending[:alive] = asked
        verify_s = costs[VERIFY_BASE, rows] + costs[VERIFY_PER, rows] * context
        draft_s = 0.0
        if extend == ROWS:
            draft_s += costs[DRAFT_BASE, rows] + costs[DRAFT_PER, rows] * context
        if later == ROWS:
            passes = depth - 1 if extend == ROWS else depth
            if passes > 0:
                draft_s += passes * (costs[DRAFT_BASE, alive] + costs[DRAFT_PER, alive] * context)
        elif later == BLOCK and depth > 0:
            draft_s += costs[DRAFT_BASE, alive * block] + costs[DRAFT_PER, alive * block] * context
        host_s = costs[HOST, running]
        end = now + (verify_s + draft_s + host_s)
        for i in range(left):
            times[2, gone[i]] = end
            at[UNFINISHED] -= gone[i] < num_counted
        out = steps[filled]
        out[0], out[1], out[2], out[3], out[4], out[5] = at[STEPS], now, end - now, running, rows, drafted
        out[6], out[7], out[8], out[9], out[10] = drafted, accepted, asked, depth, context
        out[12], out[13], out[14] = verify_s, draft_s, host_s
        now = end
        filled += 1
        at[STEPS] += 1
    at[RUNNING], at[NEXT], at[FILLED] = n, upcoming, filled
    return now
