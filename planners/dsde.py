"""DSDE: a request's draft length falls as target and drafter diverge and the divergence varies more."""

from __future__ import annotations

from typing import Literal

import numpy as np

from lightspec_bench.core import Batch, BoolArray, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.dsde_rules import appended, bounds, length, variance_ratio
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.request_table import RequestTable, Rows
from lightspec_bench.planners.static import DEFAULT_K

NAME = "dsde"


class DSDE:
    """Per request, from the KL divergence of target and drafter at each verified draft token.

    For its first `warmup_tokens` draft tokens a request doubles its length after every full accept, from `k`. Then it
    gets bounds: the upper is the most it got accepted at once times 1 + `bound_weight` mean / largest divergence, the
    lower a tenth of that, both within `k_min` and `k_max`. From there on the length is
    (upper - lower) (1 - SF WVIR) + lower, rounded up, and the lower bound where SF WVIR is above 1:
    SF = exp(`alpha` d) - 1 for the mean divergence d of the last step, divided by `temperature` where that is above 0;
    WVIR = weighted variance of the newest third over that of the last `warmup_tokens` divergences, weights falling by
    `decay` per token. With `cap`, no request drafts more than the mean of the batch, rounded up, over requests that
    had their bounds before this step. All proposals are verified whole. Requests that leave are forgotten.

    No trace holds KL divergences, so by default the planner requires what none has and is skipped.
    `approximation=entropy` puts the drafter's entropy (nats) in their place, which is known without the target: it is
    high where the drafter is unsure, not where it is wrong, and never 0, so lengths come out shorter. That is a
    different policy with the same formulas.

    Source: arXiv 2509.01083 and its code at 4d571a2 (`vllm/spec_decode/dynamic_scheduler.py`, KLScheduler), which this
    follows. The paper is said to have `decay` 0.85 and `bound_weight` 1.0; that was not checked. The defaults of k,
    k_min (2, as in the paper's formula) and k_max are ours: 3, 2, D, each cut to D.
    """

    confidence: ConfidenceAge = "lagged"
    requires: frozenset[str] = frozenset()  # the instance says which
    uses_drafter: bool = True

    def __init__(
        self,
        config: EngineConfig,
        approximation: Literal["none", "entropy"] = "none",
        k: int | None = None,
        k_min: int = 2,
        k_max: int | None = None,
        warmup_tokens: int = 30,
        alpha: float = 2.0,
        decay: float = 0.9,
        bound_weight: float = 0.5,
        temperature: float = 0.0,
        cap: bool = True,
    ) -> None:
        most = config.max_draft_tokens
        expect(k is None or k >= 1, NAME, "k", k, "at least 1")
        expect(k_min >= 1, NAME, "k_min", k_min, "at least 1")
        expect(k_max is None or k_max >= k_min, NAME, "k_max", k_max, f"at least {k_min}, which is k_min")
        expect(warmup_tokens >= 2, NAME, "warmup_tokens", warmup_tokens, "at least 2")
        expect(alpha >= 0.0, NAME, "alpha", alpha, "at least 0")
        expect(0.0 < decay <= 1.0, NAME, "decay", decay, "above 0, at most 1")
        expect(bound_weight >= 0.0, NAME, "bound_weight", bound_weight, "at least 0")
        expect(temperature >= 0.0, NAME, "temperature", temperature, "at least 0")
        self.requires = frozenset({"entropy" if approximation == "entropy" else "kl_divergence"})
        self.approximation, self.cap = approximation, cap
        self.alpha = alpha / temperature if temperature > 0.0 else alpha
        self.decay, self.bound_weight, self.warmup_tokens = decay, bound_weight, warmup_tokens
        self.most = most if k_max is None else min(k_max, most)
        self.least = min(k_min, self.most)
        start = min(max(DEFAULT_K if k is None else k, self.least), self.most)
        self._requests = RequestTable(
            k=start, low=0, high=0, history=np.zeros(warmup_tokens), filled=0,
            most_accepted=-1.0, sum=0.0, count=0, largest=0.0,
        )  # fmt: skip

    def plan(self, batch: Batch) -> Plan:
        return verify_all(batch, self._requests.read(batch.request_id)[0]["k"])

    def observe(self, step: Step) -> None:
        divergence = step.entropy if self.approximation == "entropy" else None
        rows, _ = self._requests.read(step.request_id)
        judged = np.flatnonzero(step.num_verify_tokens > 0)
        if divergence is not None and len(judged):
            own = {name: column[judged] for name, column in rows.items()}
            verified = step.num_verify_tokens[judged]
            tested = np.arange(divergence.shape[1]) < verified[:, None]
            seen = np.where(tested, np.fmax(divergence[judged], 0.0), 0.0)
            self._learn(own, seen, verified, step.num_accepted_tokens[judged])
            for name, column in own.items():
                rows[name][judged] = column
        self._requests.write(step.request_id, rows)

    def _learn(self, rows: Rows, seen: FloatArray, verified: IntArray, accepted: IntArray) -> None:
        """Take the divergences `seen` (M, D), 0 past the verified tokens, of the M requests that verified some."""
        rows["history"] = appended(rows["history"], seen, verified)
        rows["filled"] = np.minimum(rows["filled"] + verified, self.warmup_tokens)
        bounded = rows["high"] > 0
        warming = ~bounded & (rows["filled"] < self.warmup_tokens)
        self._warm_up(rows, warming, seen, verified, accepted)
        self._set_bounds(rows, ~bounded & ~warming)
        ratio = variance_ratio(rows["history"], rows["filled"], self.decay)
        wished = length(ratio, seen.sum(axis=1) / verified, rows["low"], rows["high"], self.alpha)
        if self.cap and bounded.any():
            wished = np.minimum(wished, int(np.ceil(wished[bounded].mean())))
        rows["k"] = np.where(warming, rows["k"], np.clip(wished, self.least, self.most))

    def _warm_up(
        self, rows: Rows, warming: BoolArray, seen: FloatArray, verified: IntArray, accepted: IntArray
    ) -> None:
        doubled = np.minimum(2 * rows["k"], self.most)
        rows["k"] = np.where(warming & (accepted >= rows["k"]), doubled, rows["k"])
        rows["most_accepted"] = np.where(warming, np.maximum(rows["most_accepted"], accepted), rows["most_accepted"])
        rows["largest"] = np.where(warming, np.maximum(rows["largest"], seen.max(axis=1)), rows["largest"])
        rows["sum"] = rows["sum"] + np.where(warming, seen.sum(axis=1), 0.0)
        rows["count"] = rows["count"] + np.where(warming, verified, 0)

    def _set_bounds(self, rows: Rows, ready: BoolArray) -> None:
        """Bounds for requests whose warm-up is over; without any warm-up step they are k_min and k_max."""
        mean = rows["sum"] / np.maximum(rows["count"], 1)
        low, high = bounds(rows["most_accepted"], mean, rows["largest"], self.least, self.most, self.bound_weight)
        learnt = rows["most_accepted"] >= 0.0
        rows["low"] = np.where(ready, np.where(learnt, low, self.least), rows["low"])
        rows["high"] = np.where(ready, np.where(learnt, high, self.most), rows["high"])
