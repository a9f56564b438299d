"""TurboSpec (SmartSpec): one draft length for the batch, the one of the highest predicted goodput."""

from __future__ import annotations

from collections import deque
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.drafting import draft_s
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.scan import first_drop

Cost: TypeAlias = Literal["fit", "placeholders"]
Generated: TypeAlias = Literal["paper", "code"]
PLACEHOLDERS = np.array([0.1, 0.2, 0.3])  # per context token, per target row, per step; no unit is given
PROFILE_ROWS_PER_REQUEST = (1, 2, 4, 8)
PROFILE_CONTEXTS = (256, 2048)


class TurboSpec:
    """Drafts the k of the highest goodput(k) = tokens(k) / seconds(k), scanning k upwards to the first drop.

    tokens(k) = matched (1 - a^(k+1)) / (1 - a) + (N - matched), k + 1 each at a = 1. `a` is the share of verified draft
    tokens that was accepted, averaged over the last `window` steps that verified any; `matched` are requests that will
    have a draft: all, or for an n-gram drafter the share that had one, over as many steps. seconds(k) = drafting +
    c_kv * context tokens + c_row * (matched (k + 1) + N - matched) + c_0. It decides every `update_interval` steps, the
    first time after as many, and drafts D until then.

    `cost` "fit": the three coefficients by least squares, over the latency model asked at start (1 to max_num_seqs
    requests in powers of two, 1, 2, 4, 8 rows each, contexts of 256 and 2048) and every step seen since; negative ones
    become 0, the most negative first. "placeholders": .1, .2, .3 and free drafting, which is what the code has until
    somebody fits them.
    `generated` "code" counts the first term of tokens(k) once instead of `matched` times, as the code does.

    Source: arXiv 2406.14066; vLLM `v1/spec_decode/auto_tuner.py` at 50e27883 (a branch; it returns the drafts
    before it reaches its own rule, divides by zero at a = 1, and never tries the longest draft: not kept). The form
    of tokens(k) in the paper is from memory, and so is that the paper prices drafting (here: the latency model).
    At k = 0 nothing is measured again, so `a` stays where it was; only another batch or context brings drafting back.
    Raises `BenchError` for a `window` or `update_interval` below 1.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        window: int = 10000,
        update_interval: int = 100,
        cost: Cost = "fit",
        generated: Generated = "paper",
    ) -> None:
        for option, value in (("window", window), ("update_interval", update_interval)):
            expect(value >= 1, "turbospec", option, value, "at least 1")
        self.config, self.update_interval, self.generated = config, update_interval, generated
        self.k, self._depths = config.max_draft_tokens, np.arange(config.max_draft_tokens + 1)
        self.acceptance, self.match_share = MovingMean(window), MovingMean(window)
        self._next_decision, self._steps = update_interval, 0
        self._cost = TargetCost(config) if cost == "fit" else None

    def plan(self, batch: Batch) -> Plan:
        if self.acceptance.known and self._steps >= self._next_decision and batch.num_requests:
            self.k = first_drop(self.goodput(batch.num_requests, int(batch.num_context_tokens.sum())))
            self._next_decision = self._steps + self.update_interval
        return verify_all(batch, self.k)

    def observe(self, step: Step) -> None:
        self._steps += 1
        verified = int(step.num_verify_tokens.sum())
        if self._cost is not None and step.num_requests:
            self._cost.add(step.num_context_tokens, step.num_requests + verified, step.verify_s)
        if verified:
            self.acceptance.add(int(step.num_accepted_tokens.sum()) / verified)
        if self.config.drafter.kind == "ngram" and self.k and step.num_requests:
            self.match_share.add(np.count_nonzero(step.num_draft_tokens) / step.num_requests)

    def goodput(self, num_requests: int, num_context_tokens: int) -> FloatArray:
        """Predicted tokens per second (per unit of cost with placeholders) of each k, (D + 1,)."""
        matched = num_requests * (self.match_share.value if self.match_share.known else 1.0)
        drafted = expected_tokens(self.acceptance.value, self._depths)
        tokens = drafted * (matched if self.generated == "paper" else 1.0) + (num_requests - matched)
        rows: FloatArray = np.asarray(matched * (self._depths + 1) + (num_requests - matched), dtype=np.float64)
        kv, row, fixed = PLACEHOLDERS if self._cost is None else self._cost.coefficients()
        seconds = kv * num_context_tokens + row * rows + fixed
        if self._cost is not None:
            drafter, latency = self.config.drafter, self.config.latency
            seconds = seconds + draft_s(latency, drafter, rows, num_requests, self._depths, num_context_tokens)
        return np.asarray(tokens / seconds)


class MovingMean:
    """Mean of the last `window` samples."""

    def __init__(self, window: int) -> None:
        self._samples: deque[float] = deque(maxlen=window)
        self._sum = 0.0

    @property
    def known(self) -> bool:
        """Whether there was any sample."""
        return bool(self._samples)

    @property
    def value(self) -> float:
        """The mean; only once there was a sample."""
        return self._sum / len(self._samples)

    def add(self, sample: float) -> None:
        """A new sample, in place of the oldest where the window is full."""
        if len(self._samples) == self._samples.maxlen:
            self._sum -= self._samples[0]
        self._samples.append(sample)
        self._sum += sample


def expected_tokens(acceptance: float, depths: IntArray) -> FloatArray:
    """Tokens of one request per step when every draft token is accepted with the same probability; like `depths`."""
    if acceptance >= 1.0:
        return np.asarray(depths + 1.0, dtype=np.float64)
    return np.asarray((1.0 - acceptance ** (depths + 1.0)) / (1.0 - acceptance))


class TargetCost:
    """seconds = c_kv context + c_row rows + c_0 of the target's forward, by least squares over what was seen."""

    def __init__(self, config: EngineConfig) -> None:
        self._square, self._cross = np.zeros((3, 3)), np.zeros(3)
        powers = 1 << np.arange(config.max_num_seqs.bit_length())
        sizes = np.union1d(powers, np.array([config.max_num_seqs]))
        requests, per_request, context = np.meshgrid(sizes, PROFILE_ROWS_PER_REQUEST, PROFILE_CONTEXTS, indexing="ij")
        rows, tokens = (requests * per_request).ravel(), (requests * context).ravel()
        points = np.stack((tokens, rows, np.ones(len(rows))), axis=1)
        seconds = config.latency.verify_s(rows, requests.ravel(), tokens)
        self._square += points.T @ points
        self._cross += points.T @ seconds

    def add(self, num_context_tokens: int, rows: int, seconds: float) -> None:
        """One step's target forward."""
        point = np.array((num_context_tokens, rows, 1.0))
        self._square += point[:, None] * point
        self._cross += seconds * point

    def coefficients(self) -> FloatArray:
        """(c_kv, c_row, c_0), none below 0: those that would be are left out and the rest fitted again."""
        scale = np.sqrt(np.diag(self._square))
        square, cross = self._square / scale / scale[:, None], self._cross / scale
        kept, found = np.ones(3, dtype=bool), np.zeros(3)
        while True:
            found[:] = 0.0
            found[kept] = np.linalg.lstsq(square[np.ix_(kept, kept)], cross[kept], rcond=None)[0]
            if found.min() >= 0.0:
                return np.asarray(found / scale)
            kept[found.argmin()] = False
