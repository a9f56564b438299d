"""TensorRT-LLM's speculation gate: a fixed draft length until acceptance over a window was too low once, then none."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import ClassVar, Literal

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.request_table import RequestTable
from lightspec_bench.planners.static import DEFAULT_K

NAME = "trtllm-gate"


class TrtLlmGate:
    """Drafts `k` tokens until the mean of the last `window` samples is below `threshold`; from then on drafts nothing.

    The gate never opens again: one bad window, a burst of hard requests, and the engine stays without speculation
    until it is restarted. It is asked after every sample, once there were `window` of them.

    `form` "new" (#12905): one sample per iteration that drafted, accepted / drafted tokens of the whole batch;
    `acceptance_rate_window_size` and `acceptance_rate_threshold`, 0 to 1. "old": one sample per finished request, its
    tokens per iteration less one; `acceptance_window` and `acceptance_length_threshold`, 0 or more. A request counts
    as finished when it is missing from a step, so the plan knows a step later than TensorRT-LLM does. The token that
    comes from prefill is no iteration's.

    TensorRT-LLM ships with the gate off and no default values. 8 and 0.5 are those of its own tests of the new form.
    `k` is its max_draft_len, 0 to D; left out, 3 or D where the drafter proposes fewer. At depth 0 the drafter stays
    loaded, and its cost. Source: `_torch/speculative/speculation_gate.py`, both versions. Not checked: whether a
    request that ran partly before the gate was built counts in the old form, and what is done with proposals pending
    when it closes (here they are verified).
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        form: Literal["new", "old"] = "new",
        window: int = 8,
        threshold: float = 0.5,
        k: int | None = None,
    ) -> None:
        most = config.max_draft_tokens
        self.k = min(DEFAULT_K, most) if k is None else k
        expect(window >= 1, NAME, "window", window, "at least 1")
        if form == "new":
            expect(0.0 <= threshold <= 1.0, NAME, "threshold", threshold, "0 to 1 (form new)")
        else:
            expect(threshold >= 0.0, NAME, "threshold", threshold, "at least 0 (form old)")
        expect(0 <= self.k <= most, NAME, "k", k, f"0 to {most} (the drafter's max_draft_tokens)")
        self.form, self.threshold, self.closed = form, threshold, False
        self._samples: deque[float] = deque(maxlen=window)
        self._running = RequestTable(num_steps=0, num_accepted_tokens=0)

    def plan(self, batch: Batch) -> Plan:
        return verify_all(batch, 0 if self.closed else self.k)

    def observe(self, step: Step) -> None:
        """Take the step's samples; a closed gate takes none."""
        if self.closed:
            return
        for sample in self._batch_rate(step) if self.form == "new" else self._finished_lengths(step):
            self._samples.append(sample)
            full = len(self._samples) == self._samples.maxlen
            if full and sum(self._samples) / len(self._samples) < self.threshold:
                self.closed = True
                return

    def _batch_rate(self, step: Step) -> Iterable[float]:
        drafted = int(step.num_draft_tokens.sum())
        return [int(step.num_accepted_tokens.sum()) / drafted] if drafted else []

    def _finished_lengths(self, step: Step) -> Iterable[float]:
        """Accepted tokens per iteration of each request that was running before and no longer is."""
        gone = self._running.gone(step.request_id)
        rows, _ = self._running.read(step.request_id)
        rows["num_steps"] += 1
        rows["num_accepted_tokens"] += step.num_accepted_tokens
        self._running.write(step.request_id, rows)
        return list((gone["num_accepted_tokens"] / gone["num_steps"]).tolist())
