"""vLLM's adaptive verification: the verify budget from confidences one proposal old and start-up cost curves."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, Plan, Step
from lightspec_bench.planners.capture_costs import CaptureCurve, captured_sizes, profiled_sizes
from lightspec_bench.planners.online_acceptance import OnlineAcceptance
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.step_price import drafting_s
from lightspec_bench.planners.verify_budget import (
    EarlierConfidences,
    gains,
    pending_slots,
    shown_confidence,
    survival_of,
)

NAME = "vllm-adaptive-verification"
Scores: TypeAlias = Literal["confidence", "estimator"]


class VllmAdaptiveVerification:
    """Always drafts D; verifies the n draft tokens of the highest (N + n best survivals) / (draft[N] + verify[N + n]).

    The search is over every n from 0 to what is pending; of equals the fewest. Survival is the product along a draft of
    the confidences of the proposal before the pending one (two steps old, counted from the step that drafted it);
    requests that had none count as sure. Fill then takes the n best by current confidences.

    The curves are profiled at start: captured sizes, then 1.5 times the largest and its doublings up to
    max_num_seqs (D + 1), at a context of `profile_context_tokens` each, all requests drafting D; read off as
    `capture_costs` says. Prefill tokens in the step count as rows that are there anyway.

    `scores` "confidence" takes the confidences as they are, as vLLM does with a confidence head. "estimator" is
    vLLM's logistic estimator for other drafters (`online_acceptance`), on the logit of the top probability as in
    0.32; it verifies everything during its first `warmup_refits` refits. Earlier builds use the margin of the two
    highest logits, which no trace has, and at first a slope per position that needed 50 observations. Under
    "estimator" vLLM also ranks rows by the estimate, where Fill ranks by the confidences.

    Source: vLLM #47808, `v1/worker/gpu/spec_decode/adaptive_verification.py` at 057929c and `acceptance_estimator.py`
    (0.32). Not kept: its limit on logits per step. Raises `BenchError` for options out of range.
    """

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        scores: Scores = "confidence",
        profile_context_tokens: int = 8192,
        warmup_refits: int = 3,
        refit_interval: int = 100,
        damping: float = 50.0,
        l2: float = 1e-3,
    ) -> None:
        for option, whole in (("profile_context_tokens", profile_context_tokens), ("warmup_refits", warmup_refits)):
            expect(whole >= 0, NAME, option, whole, "at least 0")
        expect(refit_interval >= 1, NAME, "refit_interval", refit_interval, "at least 1")
        expect(0.0 <= damping < np.inf, NAME, "damping", damping, "at least 0")
        expect(0.0 < l2 < np.inf, NAME, "l2", l2, "above 0")
        self.depth, self.warmup_refits = config.max_draft_tokens, warmup_refits
        draft, self.verify = profile(config, profile_context_tokens)
        self.draft_s = draft.at(np.arange(config.max_num_seqs + 1))
        self.verify_s = self.verify.at(np.arange(config.max_num_seqs * (self.depth + 1) + 1))
        self.earlier = EarlierConfidences(1 - config.lag_steps)
        self.estimator = None
        if scores == "estimator":
            self.estimator = OnlineAcceptance(self.depth, refit_interval, damping, l2)

    def plan(self, batch: Batch) -> Plan:
        confidence = self.earlier.of(batch.request_id, shown_confidence(batch, NAME))
        pending = int(batch.num_draft_tokens.sum())
        if self.estimator is None:
            scores: FloatArray = confidence.astype(np.float64)
        elif self.estimator.num_refits < self.warmup_refits:
            return Plan(self.depth, batch.num_requests + pending)
        else:
            scores = self.estimator.acceptance(confidence)
        survival = survival_of(scores)[pending_slots(batch.num_draft_tokens, self.depth)]
        budget = self.budget(survival, batch.num_requests, batch.num_prefill_tokens)
        return Plan(self.depth, batch.num_requests + budget)

    def budget(self, survival: FloatArray, num_requests: int, num_prefill_tokens: int = 0) -> int:
        """Draft tokens to verify, of those with these survivals, (M,)."""
        first = num_requests + num_prefill_tokens
        cost = self.verify_s[first : first + len(survival) + 1]
        if len(cost) <= len(survival):  # more rows than were profiled
            cost = self.verify.at(first + np.arange(len(survival) + 1))
        drafting = self.draft_s[min(num_requests, len(self.draft_s) - 1)]
        return int(np.argmax((num_requests + gains(survival)) / (drafting + cost)))

    def observe(self, step: Step) -> None:
        if self.estimator is not None and step.confidence is not None:
            self.estimator.observe(step.confidence, step.num_verify_tokens, step.num_accepted_tokens)


def profile(config: EngineConfig, context: int) -> tuple[CaptureCurve, CaptureCurve]:
    """Cost of drafting by requests, and of verifying by rows."""
    width, most = config.max_draft_tokens + 1, config.max_num_seqs * (config.max_draft_tokens + 1)
    captured = captured_sizes(config.latency, most)
    rows = profiled_sizes(captured, most)
    requests = -(-rows // width)
    verify = config.latency.verify_s(rows, requests, requests * context)
    number = np.unique(-(-captured // width))
    draft = np.asarray(drafting_s(config, number, config.max_draft_tokens, number * context))
    limit = int(captured[-1])
    return CaptureCurve(number, draft, int(number[-1])), CaptureCurve(rows, verify, limit, 1e-9)
