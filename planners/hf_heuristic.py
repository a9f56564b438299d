"""Hugging Face's assistant-token schedules: two more draft tokens after a full match, one less after any miss."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.request_table import RequestTable

NAME = "hf-heuristic"


class HFHeuristic:
    """Per request, n draft tokens: n + 2 after a step that accepted all it verified, else n - 1, at least 1.

    `schedule` is num_assistant_tokens_schedule. "heuristic": a request starts with the n that the last one left behind
    (of several that leave together, the one with the highest id), the first with `num_assistant_tokens`.
    "heuristic_transient": every request starts with `num_assistant_tokens`. "constant": n never moves.

    Defaults are those of the versions in which the heuristic was the default, 5 and "heuristic"; transformers 5 has
    20 and "constant". Transformers generates one sequence at a time and does not bound n; here every request of a batch
    has its own n, all drafted in one go, and n is cut to D after every step, so that a run of matches leaves no debt.
    The confidence threshold that transformers applies beside it is `assistant_confidence_threshold`: another planner.
    A request counts as left when it is missing from a step.

    Source: transformers 5.24.0, `generation/candidate_generator.py` and `generation/utils.py`.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        num_assistant_tokens: int = 5,
        schedule: Literal["heuristic", "heuristic_transient", "constant"] = "heuristic",
    ) -> None:
        expect(num_assistant_tokens >= 1, NAME, "num_assistant_tokens", num_assistant_tokens, "at least 1")
        self.most = config.max_draft_tokens
        self.start = min(num_assistant_tokens, self.most)
        self.schedule = schedule
        self._requests = RequestTable(n=self.start)

    def plan(self, batch: Batch) -> Plan:
        if self.schedule == "constant":
            return verify_all(batch, self.start)
        rows, known = self._requests.read(batch.request_id)
        return verify_all(batch, np.where(known, rows["n"], self.start))

    def observe(self, step: Step) -> None:
        if self.schedule == "constant":
            return
        if self.schedule == "heuristic":
            left = self._requests.gone(step.request_id)["n"]
            self.start = int(left[-1]) if len(left) else self.start
        rows, known = self._requests.read(step.request_id)
        n = np.where(known, rows["n"], self.start)
        verified = step.num_verify_tokens
        matched = np.where(step.num_accepted_tokens == verified, n + 2, np.maximum(n - 1, 1))
        n = np.minimum(np.where(verified > 0, matched, n), self.most)
        self._requests.write(step.request_id, {"n": n})
