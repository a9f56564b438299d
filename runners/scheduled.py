"""Scheduled replay: a planner that is only a batch-size table, replayed whole in compiled code.

No speculation, static K and batch-size schedules are most cells of a suite. They verify all that is pending and draft
to a depth that follows from the number of running requests, so there is nothing to ask between two steps. The result
is that of `runners.replay` (tests hold it to that); what cannot be done this way goes there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from lightspec_bench.core import STEP_COLUMNS, Columns, EngineConfig, FloatArray, IntArray, Planner, Totals, Trace
from lightspec_bench.runners.options import SimulatorOptions
from lightspec_bench.runners.records import Recorder
from lightspec_bench.runners.schedule_loop import (
    BLOCK,
    FILLED,
    NEED_REQUESTS,
    NO_PASS,
    ROWS,
    STATUS,
    UNFINISHED,
    schedule_loop,
)
from lightspec_bench.runners.slots import Slots, Whole
from lightspec_bench.runners.step_kernels import MISSED, compiler

STEPS_AT_ONCE = 16_384
# How the passes of a drafter are priced: the one that follows the target over the step's rows, and each later one.
_PASSES = {
    "autoregressive": (ROWS, ROWS),
    "autoregressive_no_attention": (NO_PASS, ROWS),
    "parallel": (ROWS, BLOCK),
    "ngram": (NO_PASS, NO_PASS),
}


def depth_by_load(planner: Planner) -> IntArray | None:
    """A planner's depth for 0 to `max_num_seqs` running requests, None where its class does not say that this is all.

    A class says so with a property `depth_by_load` beside its own `plan` and `observe`: one that inherits some of them
    and overrides others is asked step by step.
    """
    kind = type(planner)
    owners = {next((c for c in kind.__mro__ if name in vars(c)), None) for name in ("plan", "observe", "depth_by_load")}
    if len(owners) > 1:
        return None
    depths: IntArray | None = getattr(planner, "depth_by_load", None)
    return depths


def scheduled_replay(
    trace: Trace, config: EngineConfig, slots: Slots, options: SimulatorOptions, planner: Planner
) -> tuple[Totals, Columns, Columns | None] | None:
    """What `Replay.run` returns, or None where this way does not lead: numba is missing, a planner wants to be asked,
    proposals are short, the drafter sleeps at depth 0, prompts take time, or a cost is no line in the context."""
    depths, whole = depth_by_load(planner), slots.whole()
    if depths is None or len(depths) <= whole.capacity:
        return None
    plain = trace.num_draft_tokens is None and options.catch_up == "each_step" and options.prefill == "off"
    loop = compiled_loop() if plain else None
    costs = _costs(config, whole.capacity, int(depths.max()), planner.uses_drafter) if loop else None
    if loop is None or costs is None:
        return None
    recorder = Recorder(trace.max_draft_tokens, options.keep_steps, options.warmup_steps)
    _run(loop, trace, config, slots, whole, recorder, planner.uses_drafter, depths, costs)
    return recorder.totals(), slots.finished_requests(), recorder.steps()


def _run(
    loop: Callable[..., float],
    trace: Trace,
    config: EngineConfig,
    slots: Slots,
    whole: Whole,
    recorder: Recorder,
    uses_drafter: bool,
    depths: IntArray,
    costs: FloatArray,
) -> None:
    extend, later = _PASSES[config.drafter.kind] if uses_drafter else (NO_PASS, NO_PASS)
    state = np.zeros((MISSED + 1, whole.capacity), dtype=np.int64)
    pending = np.zeros(whole.capacity, dtype=np.int64)
    at = np.zeros(STATUS + 1, dtype=np.int64)
    at[UNFINISHED] = whole.num_counted
    steps = np.zeros((STEPS_AT_ONCE, len(STEP_COLUMNS)))
    now_s, recorded = 0.0, np.asarray(trace.num_accepted)
    while at[UNFINISHED]:
        now_s = loop(
            whole.columns, whole.arrival_s, state, pending, recorded, depths, costs, extend, later,
            config.max_draft_tokens, whole.times_s, whole.counts, whole.num_counted, recorder.measured,
            recorder.unmeasured, recorder.warmup_steps, steps, at, now_s,
        )  # fmt: skip
        if at[FILLED]:
            recorder.add_rows(steps[: at[FILLED]])
        if at[STATUS] == NEED_REQUESTS:
            whole = slots.more()


def _costs(config: EngineConfig, capacity: int, deepest: int, uses_drafter: bool) -> FloatArray | None:
    """What the loop pays, (5, rows + 1); None where some cost is no line in the context."""
    latency: Any = config.latency
    if not hasattr(latency, "verify_lines"):
        return None
    rows = np.arange(capacity * max(1 + deepest, config.max_draft_tokens) + 1)
    verify = latency.verify_lines(rows)
    draft = latency.draft_lines(rows) if uses_drafter and config.drafter.kind != "ngram" else (0.0 * rows, 0.0 * rows)
    if verify is None or draft is None:
        return None
    return np.stack([*verify, *draft, latency.host_s(rows, uses_drafter)])


@functools.cache
def compiled_loop() -> Callable[..., float] | None:
    """The loop, compiled; None without a compiler."""
    compiled = compiler()
    return None if compiled is None else compiled(schedule_loop)
