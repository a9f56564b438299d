"""vLLM's DFlash adaptive K: one verify length for the batch among powers of two, which only ever falls."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.planners.capture_costs import CaptureCurve, captured_sizes
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.position_counts import position_counts
from lightspec_bench.planners.step_price import drafting_s, verify_s

NAME = "vllm-dflash-adaptive-k"
LEAST_S = 1e-9


class VllmDFlashAdaptiveK:
    """Verifies and drafts K tokens per request: of 0, 1, 3, 7, ... and D the one of most expected tokens per second.

    score(K) = N (1 + sum of the first K survivals) / (draft[N], 0 at K = 0, + verify[N, K] + overhead[bucket]). N are
    the requests that have a draft; below `full_below` of them K is D. Survival per position starts at 1, is averaged
    with weight `history_weight` of a step's accepted over verified, and kept from rising. The overhead of a
    power-of-two bucket of N is the same average of measured minus profiled verification, used after two samples.
    A bucket's decision holds for `decision_interval` uses.

    `ratchet`: a new decision of a bucket is never above its last one, nor above any earlier decision in any bucket; so
    one loaded moment shortens drafts for the rest of the run, and K = 0 is for ever. That is what the branch does;
    false leaves it out.

    Source: vLLM branch, `v1/worker/gpu/spec_decode/dflash/adaptive_k.py` at b1171c80. Verification is profiled at
    (N, K) pairs whose rows are captured sizes, N = 1 and max_num_seqs, at a context of `profile_context_tokens` each,
    and read off as adaptive verification does (`capture_costs`). Measured time is a step's verification and host time,
    about what lies between its two events. Drafting is always a whole block there; here it is priced at depth D
    and costs what the drafter's kind says. Raises `BenchError` for options out of range.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        history_weight: float = 0.2,
        decision_interval: int = 2,
        full_below: int = 16,
        ratchet: bool = True,
        profile_context_tokens: int = 8192,
    ) -> None:
        expect(0.0 < history_weight <= 1.0, NAME, "history_weight", history_weight, "above 0 and at most 1")
        expect(decision_interval >= 1, NAME, "decision_interval", decision_interval, "at least 1")
        expect(full_below >= 0, NAME, "full_below", full_below, "at least 0")
        expect(profile_context_tokens >= 0, NAME, "profile_context_tokens", profile_context_tokens, "at least 0")
        self.most, self.full_below, self.ratchet = config.max_draft_tokens, full_below, ratchet
        self.history_weight, self.decision_interval = history_weight, decision_interval
        self.candidates = k_candidates(self.most)
        self.verify_s, self.draft_s = profile(config, self.candidates, profile_context_tokens)
        self.survival = np.ones(self.most)
        self.overhead_s: dict[int, float] = {}
        self._samples: dict[int, int] = {}
        self._chosen: dict[int, tuple[int, int]] = {}  # bucket -> K, uses
        self.cap = self.most

    def plan(self, batch: Batch) -> Plan:
        k = self.select(int(np.count_nonzero(batch.num_draft_tokens)))
        return Plan(k, num_verify_tokens=np.minimum(batch.num_draft_tokens, k))

    def select(self, num_requests: int) -> int:
        """K for that many requests with a draft, held, capped and remembered."""
        if num_requests < 1 or self.cap == 0:
            return self.cap
        bucket = bucket_of(num_requests)
        previous, uses = self._chosen.get(bucket, (self.most, 0))
        if 0 < uses < self.decision_interval:
            self._chosen[bucket] = (previous, uses + 1)
            return min(previous, self.cap)
        k = self.best(num_requests)
        if self.ratchet:
            self.cap = k = min(k, previous, self.cap)
        self._chosen[bucket] = (k, 1)
        return k

    def best(self, num_requests: int) -> int:
        """The candidate of the highest score; the first one of equals."""
        if num_requests < self.full_below:
            return self.most
        if num_requests >= len(self.draft_s):
            return 0
        bucket = bucket_of(num_requests)
        overhead = self.overhead_s[bucket] if self._samples.get(bucket, 0) >= 2 else 0.0
        expected = 1.0 + np.concatenate(([0.0], np.cumsum(self.survival)))[self.candidates]
        drafting = np.where(self.candidates > 0, self.draft_s[num_requests], 0.0)
        seconds = np.maximum(drafting + self.verify_s[num_requests] + overhead, LEAST_S)
        return int(self.candidates[np.argmax(num_requests * expected / seconds)])

    def observe(self, step: Step) -> None:
        verified = step.num_verify_tokens
        if not step.num_draft_tokens.any():
            return
        share = position_counts(step, self.most).survival()
        seen = ~np.isnan(share)
        self.survival[seen] += self.history_weight * (share[seen] - self.survival[seen])
        np.minimum.accumulate(self.survival, out=self.survival)
        self._time(int(np.count_nonzero(step.num_draft_tokens)), int(verified.max()), step.verify_s + step.host_s)

    def _time(self, num_requests: int, k: int, elapsed_s: float) -> None:
        at = np.flatnonzero(self.candidates == k)
        if not k or not len(at) or num_requests >= len(self.verify_s):
            return
        bucket = bucket_of(num_requests)
        sample = max(elapsed_s - float(self.verify_s[num_requests, at[0]]), 0.0)
        old = self.overhead_s.get(bucket, sample)
        self.overhead_s[bucket] = old + self.history_weight * (sample - old)
        self._samples[bucket] = self._samples.get(bucket, 0) + 1


def k_candidates(max_draft_tokens: int) -> IntArray:
    """0, every K whose rows per request are a power of two, and D."""
    powers = [(1 << power) - 1 for power in range(max_draft_tokens.bit_length())]
    return np.array(sorted({*(k for k in powers if k < max_draft_tokens), max_draft_tokens}))


def bucket_of(num_requests: int) -> int:
    """The next power of two."""
    return 1 << (num_requests - 1).bit_length()


def profile(config: EngineConfig, candidates: IntArray, context: int) -> tuple[FloatArray, FloatArray]:
    """Seconds of verifying each candidate, (max_num_seqs + 1, candidates), and of drafting D, (max_num_seqs + 1,)."""
    most, number = config.max_num_seqs, np.arange(config.max_num_seqs + 1)
    captured = captured_sizes(config.latency, most * int(candidates[-1] + 1))
    fitting = {int(k): captured[captured % (k + 1) == 0] // (k + 1) for k in candidates}
    points = np.unique(np.concatenate([[1, most], *fitting.values()]).astype(np.int64))
    points = points[(points >= 1) & (points <= most)]
    columns = []
    for k, sizes in fitting.items():
        limit = min(int(sizes.max(initial=0)), most)
        columns.append(CaptureCurve(points, verify_s(config, points, k, points * context), limit, LEAST_S).at(number))
    drafting = CaptureCurve(points, drafting_s(config, points, int(candidates[-1]), points * context), most)
    return np.stack(columns, axis=1), drafting.at(number)
