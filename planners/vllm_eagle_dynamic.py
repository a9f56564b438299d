"""vLLM's eagle_dynamic: a request's draft length follows its recent acceptance; the batch drafts the longest."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, Plan, Step
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.request_table import RequestTable
from lightspec_bench.planners.static import DEFAULT_K

NAME = "vllm-eagle-dynamic"


class VllmEagleDynamic:
    """Per request: one token more while its mean rate is at `threshold` + `hysteresis` or above, one less at or below
    `threshold` - `hysteresis`.

    The rate of a step is accepted / verified draft tokens of the request; the mean is over its last `history` steps,
    and k does not move before `min_history` of them. k starts at `k`, lies between `min_k` and `max_k`, and moves by
    one at every step that the mean stays outside the band. The drafter runs to the largest k of the batch, for all;
    each request verifies only its own k of that. Requests that leave are forgotten.

    `k` is num_speculative_tokens: 3 or D, where left out; min_k, max_k and k are cut to D. `threshold` is the engine
    argument `--acceptance-rate-threshold`; 0.3 is the value of the pull request's example, whether it is a default was
    not checked. `min_k` 2 and `max_k` 10 are the constants of the first versions (later 1 and num_speculative_tokens).
    Source: vLLM #26495 and #26504 (closed), `v1/spec_decode/dynamic_proposer.py`. Not checked: whether the count of
    accepted tokens that the pull request passes in includes the bonus token; here it does not.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        threshold: float = 0.3,
        hysteresis: float = 0.05,
        history: int = 10,
        min_history: int = 3,
        min_k: int = 2,
        max_k: int = 10,
        k: int | None = None,
    ) -> None:
        most = config.max_draft_tokens
        expect(0.0 <= threshold <= 1.0, NAME, "threshold", threshold, "0 to 1")
        expect(0.0 <= hysteresis <= 1.0, NAME, "hysteresis", hysteresis, "0 to 1")
        expect(history >= 1, NAME, "history", history, "at least 1")
        expect(1 <= min_history <= history, NAME, "min_history", min_history, f"1 to {history}, which is history")
        expect(min_k >= 1, NAME, "min_k", min_k, "at least 1")
        expect(max_k >= min_k, NAME, "max_k", max_k, f"at least {min_k}, which is min_k")
        expect(k is None or k >= 1, NAME, "k", k, "at least 1")
        self.min_k, self.max_k = min(min_k, most), min(max_k, most)
        self.start = min(max(DEFAULT_K if k is None else k, self.min_k), self.max_k)
        self.upper, self.lower = threshold + hysteresis, threshold - hysteresis
        self.history, self.min_history = history, min_history
        self._requests = RequestTable(k=self.start, num_rates=0, rates=np.zeros(history))
        self._drafted = RequestTable(k=most)

    def plan(self, batch: Batch) -> Plan:
        """Verify of every proposal as much as its request was to have, then draft the longest length for all."""
        rows, _ = self._requests.read(batch.request_id)
        drafted, _ = self._drafted.read(batch.request_id)
        self._drafted.write(batch.request_id, {"k": rows["k"]})
        verify = np.minimum(drafted["k"], batch.num_draft_tokens)
        return Plan(int(rows["k"].max(initial=self.min_k)), num_verify_tokens=verify)

    def observe(self, step: Step) -> None:
        rows, _ = self._requests.read(step.request_id)
        judged = step.num_verify_tokens > 0
        at = (np.flatnonzero(judged), rows["num_rates"][judged] % self.history)
        rows["rates"][at] = step.num_accepted_tokens[judged] / step.num_verify_tokens[judged]
        rows["num_rates"] += judged
        filled = np.minimum(rows["num_rates"], self.history)
        mean = rows["rates"].sum(axis=1) / np.maximum(filled, 1)
        move = (mean >= self.upper).astype(np.int64) - (mean <= self.lower)
        ready = filled >= self.min_history
        rows["k"] = np.clip(rows["k"] + np.where(ready, move, 0), self.min_k, self.max_k)
        self._requests.write(step.request_id, rows)
