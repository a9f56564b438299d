"""Records: sums over the measured window of a run, and its step columns where they are kept."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import STEP_COLUMNS, BenchError, Columns, FloatArray, IntArray, Plan, Step, Totals


def planned_depth(plan: Plan) -> int:
    """Draft tokens that a plan asks of the request it lets draft deepest, before any early exit."""
    depth = plan.num_draft_tokens
    return int(depth.max(initial=0)) if isinstance(depth, np.ndarray) else int(depth)


class Recorder:
    """Adds up the steps that come after `warmup_steps`, and keeps all of them where asked to."""

    def __init__(self, max_draft_tokens: int, keep_steps: bool, warmup_steps: int) -> None:
        self._width = max_draft_tokens + 1
        self.warmup_steps = warmup_steps
        self._rows: list[tuple[float, ...]] | None = [] if keep_steps else None
        self.measured = np.zeros((self._width, self._width), dtype=np.int64)
        self.unmeasured = np.zeros_like(self.measured)
        self._num_steps = self._drafted = self._tokens = self._prefilled = 0
        self._verify_s = self._draft_s = self._host_s = self._prefill_s = self._planner_s = self._exposed_s = 0.0
        self._start_s, self._end_s = np.nan, np.nan
        self._prefill_tokens = self._first_tokens = self._num_seen = 0

    def outcomes(self, index: int) -> IntArray:
        """Where step `index` is to count its (verified, accepted) pairs, (D + 1, D + 1): not in the warm-up's way."""
        return self.measured if index >= self.warmup_steps else self.unmeasured

    @property
    def window_s(self) -> tuple[float, float]:
        """When the measured window began and ended; NaN before its first step."""
        return self._start_s, self._end_s

    def prefilled(self, num_tokens: int, num_first_tokens: int) -> None:
        """Prompt rows and first tokens that came out since the last step, or during it."""
        self._prefill_tokens += num_tokens
        self._first_tokens += num_first_tokens

    def record(self, step: Step, start_s: float, end_s: float, depth: int, planner_s: float, exposed_s: float) -> None:
        """Add a step that ran from `start_s` to `end_s` and drafted `depth` tokens at the deepest."""
        verify, accepted = step.num_verify_tokens, step.num_accepted_tokens
        pairs = np.bincount(verify * self._width + accepted, minlength=self._width**2)
        outcomes = self.outcomes(step.index)
        outcomes += pairs.reshape(outcomes.shape)
        sums = (int(step.num_draft_tokens.sum()), int(verify.sum()), int(accepted.sum()))
        self.add(step, sums, start_s, end_s, depth, planner_s, exposed_s)

    def add(
        self,
        step: Step,
        sums: tuple[int, int, int],
        start_s: float,
        end_s: float,
        depth: int,
        planner_s: float,
        exposed_s: float,
    ) -> None:
        """`record` for a step whose outcomes are counted already; `sums` of drafted, verified and accepted tokens."""
        drafted, verified, accepted = sums
        num_requests = step.num_requests
        if self._rows is not None:
            self._rows.append(
                (
                    step.index, start_s, end_s - start_s, num_requests, num_requests + verified, drafted, verified,
                    accepted, planned_depth(step.plan), depth, step.num_context_tokens, self._prefill_tokens,
                    step.verify_s, step.draft_s, step.host_s, step.prefill_s, planner_s, exposed_s,
                )
            )  # fmt: skip
        self._num_seen = step.index + 1
        if step.index >= self.warmup_steps:
            if not self._num_steps:
                self._start_s = start_s
            self._end_s = end_s
            self._num_steps += 1
            self._drafted += drafted
            self._tokens += num_requests + accepted + self._first_tokens
            self._prefilled += self._prefill_tokens
            self._verify_s += step.verify_s
            self._draft_s += step.draft_s
            self._host_s += step.host_s
            self._prefill_s += step.prefill_s
            self._planner_s += planner_s
            self._exposed_s += exposed_s
        self._prefill_tokens = self._first_tokens = 0

    def add_rows(self, rows: FloatArray) -> None:
        """Add steps whose outcomes are counted already, a row of `STEP_COLUMNS` each, without prefill or planner."""
        if self._rows is not None:
            self._rows.extend(map(tuple, rows.tolist()))
        self._num_seen = int(rows[-1, 0]) + 1
        measured = rows[rows[:, 0] >= self.warmup_steps]
        if not len(measured):
            return
        if not self._num_steps:
            self._start_s = float(measured[0, 1])
        self._end_s = float(measured[-1, 1] + measured[-1, 2])
        self._num_steps += len(measured)
        sums = dict(zip(STEP_COLUMNS, measured.sum(axis=0).tolist(), strict=True))
        self._drafted += round(sums["num_draft_tokens"])
        self._tokens += round(sums["num_requests"] + sums["num_accepted_tokens"])
        self._verify_s += sums["verify_s"]
        self._draft_s += sums["draft_s"]
        self._host_s += sums["host_s"]

    def totals(self) -> Totals:
        """Raises `BenchError` where the warm-up left no step to measure."""
        if not self._num_steps:
            raise BenchError(
                f"warmup_steps is {self.warmup_steps} and the run took {self._num_seen} decode steps, "
                "expected more steps than that to measure"
            )
        return Totals(
            num_steps=self._num_steps,
            num_draft_tokens=self._drafted,
            num_output_tokens=self._tokens,
            num_prefill_tokens=self._prefilled,
            elapsed_s=float(self._end_s - self._start_s),
            verify_s=self._verify_s,
            draft_s=self._draft_s,
            host_s=self._host_s,
            prefill_s=self._prefill_s,
            planner_s=self._planner_s,
            exposed_planner_s=self._exposed_s,
            outcomes=self.measured,
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
