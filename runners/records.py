"""Records: sums over the measured window of a run, and its step columns where they are kept."""

from __future__ import annotations

from operator import add

import numpy as np

from lightspec_bench.core import STEP_COLUMNS, BenchError, Columns, Plan, Step, Totals


def planned_depth(plan: Plan) -> int:
    """Draft tokens that a plan asks of the request it lets draft deepest, before any early exit."""
    depth = plan.num_draft_tokens
    return int(depth.max(initial=0)) if isinstance(depth, np.ndarray) else int(depth)


class Recorder:
    """Adds up the steps that come after `warmup_steps`, and keeps all of them where asked to."""

    def __init__(self, max_draft_tokens: int, keep_steps: bool, warmup_steps: int) -> None:
        self._width = max_draft_tokens + 1
        self._warmup_steps = warmup_steps
        self._rows: list[tuple[float, ...]] | None = [] if keep_steps else None
        self._outcomes = np.zeros(self._width**2, dtype=np.int64)
        self._ints = [0, 0, 0, 0]  # steps, drafted, tokens out, prefill tokens
        self._seconds = [0.0] * 6  # verify, draft, host, prefill, planner, exposed planner
        self._start_s, self._end_s = np.nan, np.nan
        self._prefill_tokens = self._first_tokens = self._num_seen = 0

    def prefilled(self, num_tokens: int, num_first_tokens: int) -> None:
        """Prompt rows and first tokens that came out since the last step, or during it."""
        self._prefill_tokens += num_tokens
        self._first_tokens += num_first_tokens

    def record(self, step: Step, start_s: float, end_s: float, depth: int, planner_s: float, exposed_s: float) -> None:
        """Add a step that ran from `start_s` to `end_s` and drafted `depth` tokens at the deepest."""
        num_requests = step.num_requests
        verified = int(step.num_verify_tokens.sum())
        accepted = int(step.num_accepted_tokens.sum())
        drafted = int(step.num_draft_tokens.sum())
        seconds = (step.verify_s, step.draft_s, step.host_s, step.prefill_s, planner_s, exposed_s)
        if self._rows is not None:
            self._rows.append(
                (
                    step.index, start_s, end_s - start_s, num_requests, num_requests + verified, drafted, verified,
                    accepted, planned_depth(step.plan), depth, step.num_context_tokens, self._prefill_tokens, *seconds,
                )
            )  # fmt: skip
        self._num_seen = step.index + 1
        if step.index >= self._warmup_steps:
            self._start_s = start_s if np.isnan(self._start_s) else self._start_s
            self._end_s = end_s
            amounts = (1, drafted, num_requests + accepted + self._first_tokens, self._prefill_tokens)
            self._ints = list(map(add, self._ints, amounts))
            self._seconds = list(map(add, self._seconds, seconds))
            pairs = step.num_verify_tokens * self._width + step.num_accepted_tokens
            self._outcomes += np.bincount(pairs, minlength=self._width**2)
        self._prefill_tokens = self._first_tokens = 0

    def totals(self) -> Totals:
        """Raises `BenchError` where the warm-up left no step to measure."""
        if not self._ints[0]:
            raise BenchError(
                f"warmup_steps is {self._warmup_steps} and the run took {self._num_seen} decode steps, "
                "expected more steps than that to measure"
            )
        num_steps, num_draft_tokens, num_output_tokens, num_prefill_tokens = self._ints
        verify_s, draft_s, host_s, prefill_s, planner_s, exposed_planner_s = self._seconds
        return Totals(
            num_steps=num_steps,
            num_draft_tokens=num_draft_tokens,
            num_output_tokens=num_output_tokens,
            num_prefill_tokens=num_prefill_tokens,
            elapsed_s=float(self._end_s - self._start_s),
            verify_s=verify_s,
            draft_s=draft_s,
            host_s=host_s,
            prefill_s=prefill_s,
            planner_s=planner_s,
            exposed_planner_s=exposed_planner_s,
            outcomes=self._outcomes.reshape(self._width, self._width),
        )

    def steps(self) -> Columns | None:
        """`STEP_COLUMNS`, or None where steps were not kept."""
        if self._rows is None:
            return None
        table = np.array(self._rows, dtype=np.float64).reshape(-1, len(STEP_COLUMNS)).T
        whole = [not name.endswith("_s") for name in STEP_COLUMNS]
        return {
            name: column.astype(np.int64) if is_whole else column
            for name, column, is_whole in zip(STEP_COLUMNS, table, whole, strict=True)
        }
