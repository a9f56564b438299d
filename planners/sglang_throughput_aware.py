"""SGLang's throughput-aware policy: the draft steps of the highest expected tokens per profiled decode time."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import by_batch_size, depths, expect
from lightspec_bench.planners.step_price import step_grid_s

NAME = "sglang-throughput-aware"
DEFAULT_CANDIDATES: dict[Any, Any] = {1: [1, 3, 5, 7]}
# Batch sizes with a captured graph under speculation, from memory.
CAPTURED_BATCH_SIZES = (*range(1, 9), *range(10, 33, 2), *range(40, 65, 8), *range(80, 513, 16))


class SGLangThroughputAware:
    """Drafts the candidate S of the highest (1 + sum of r_k, k < S) / cost(N, S), rescored every few steps.

    r_k is the mean over the last `window_size` steps that drafted past position k of the share of requests that
    accepted more than k; positions without any are extrapolated geometrically, and never above the last known one.
    cost is the step time profiled at the next batch size with a captured graph (the largest one above that), every
    request at a context of `profile_context_tokens`. Scores are taken every `update_interval` steps, if all positions
    of the current S have full windows; ties keep the shorter, and a change asks for more than `hysteresis` of gain. On
    a change downwards the windows past it are cleared.

    `candidates` maps the batch size from which they hold to lists of S, cut to D; where the batch moves to a list
    without the current S, the best of that list is taken at once, its middle one while nothing is known. S is never 0.
    It starts at `initial_steps` if that is a candidate, else at the middle of the first list.

    Source: SGLang #28045 (`throughput_aware_spec_params.py`), whose example of more lists is {1: [1, 3, 5, 7],
    8: [1, 3, 5], 32: [1, 3], 128: [1]}. The later policy class differs in its defaults: `update_interval` 5,
    `hysteresis` 0.1, `profile_context_tokens` 128. From memory: which batch sizes are captured, for which
    `profile_batch_sizes` stands. Raises `BenchError` for lists without a whole number from 1 up.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        candidates: dict[Any, Any] | None = None,
        window_size: int = 20,
        update_interval: int = 10,
        hysteresis: float = 0.0,
        initial_steps: int | None = None,
        profile_context_tokens: int = 2048,
        profile_batch_sizes: list[Any] | None = None,
    ) -> None:
        for option, value in (("window_size", window_size), ("update_interval", update_interval)):
            expect(value >= 1, NAME, option, value, "at least 1")
        expect(0.0 <= hysteresis < np.inf, NAME, "hysteresis", hysteresis, "at least 0")
        expect(profile_context_tokens >= 1, NAME, "profile_context_tokens", profile_context_tokens, "at least 1")
        lists = by_batch_size(NAME, "candidates", DEFAULT_CANDIDATES if candidates is None else candidates)
        expect(lists[0][0] == 1, NAME, "candidates", f"from batch size {lists[0][0]} up", "a list from 1 up")
        self._starts = np.array([size for size, _ in lists])
        self._lists = [depths(NAME, f"candidates[{size}]", steps, 1, config.max_draft_tokens) for size, steps in lists]
        self.update_interval, self.hysteresis = update_interval, hysteresis
        self.rates = PositionWindows(max(steps[-1] for steps in self._lists), window_size)
        self.sizes = profiled_batch_sizes(config, profile_batch_sizes)
        self.cost_s = step_grid_s(config, self.sizes, np.arange(self.rates.depth + 1), profile_context_tokens)
        known = {step for steps in self._lists for step in steps}
        first = self._lists[0]
        self.steps = initial_steps if initial_steps is not None and initial_steps in known else first[len(first) // 2]
        self._since = 0

    def plan(self, batch: Batch) -> Plan:
        if batch.num_requests:
            allowed = self._lists[max(int(np.searchsorted(self._starts, batch.num_requests, side="right")) - 1, 0)]
            if self.steps not in allowed:
                self._change(self._best(batch.num_requests, allowed, allowed[len(allowed) // 2]))
            if self._since >= self.update_interval:
                self._since = 0
                if self.rates.full(self.steps):
                    self._rescore(batch.num_requests, allowed)
        return verify_all(batch, self.steps)

    def observe(self, step: Step) -> None:
        drafted = step.num_verify_tokens > 0
        if drafted.any():
            self.rates.add(step.num_accepted_tokens[drafted], int(step.num_verify_tokens.max()))
            self._since += 1

    def _rescore(self, num_requests: int, allowed: list[int]) -> None:
        best = self._best(num_requests, allowed, self.steps)
        score = self.scores(num_requests)
        if best != self.steps and score[best] > score[self.steps] * (1.0 + self.hysteresis):
            self._change(best)

    def _best(self, num_requests: int, allowed: list[int], fallback: int) -> int:
        return allowed[int(np.argmax(self.scores(num_requests)[allowed]))] if self.rates.known else fallback

    def _change(self, steps: int) -> None:
        if steps < self.steps:
            self.rates.clear_from(steps)
        self.steps = steps

    def scores(self, num_requests: int) -> FloatArray:
        """Expected tokens per second of 0 to the deepest S, (depth + 1,)."""
        at = min(int(np.searchsorted(self.sizes, num_requests)), len(self.sizes) - 1)
        expected = 1.0 + np.concatenate(([0.0], np.cumsum(self.rates.means())))
        return np.asarray(expected / self.cost_s[at])


class PositionWindows:
    """Sliding windows of the share of requests that accepted more than k draft tokens, one per position k."""

    def __init__(self, depth: int, window_size: int) -> None:
        self.depth = depth
        self._shares = np.zeros((depth, window_size))
        self._counts = np.zeros(depth, dtype=np.int64)

    @property
    def known(self) -> bool:
        """Whether the first position was ever seen."""
        return bool(self._counts[0])

    def add(self, accepted: IntArray, drafted: int) -> None:
        """One step's accepted tokens of the requests that had a draft, (n,), when `drafted` positions were drafted."""
        seen = np.arange(min(drafted, self.depth))
        shares = (accepted[:, None] > seen).mean(axis=0)
        self._shares[seen, self._counts[seen] % self._shares.shape[1]] = shares
        self._counts[seen] += 1

    def full(self, steps: int) -> bool:
        """Whether the first `steps` positions have full windows."""
        return bool((self._counts[:steps] >= self._shares.shape[1]).all())

    def clear_from(self, steps: int) -> None:
        """Forget positions from `steps` on."""
        self._shares[steps:] = 0.0
        self._counts[steps:] = 0

    def means(self) -> FloatArray:
        """Mean share per position, (depth,), extrapolated where nothing was seen; 0 before anything was."""
        kept = np.minimum(self._counts, self._shares.shape[1])
        number = int(np.count_nonzero(kept))
        means = self._shares.sum(axis=1) / np.maximum(kept, 1)
        if not number or means[0] <= 0.0:
            return np.where(kept > 0, means, 0.0)
        ratio = min((means[number - 1] / means[0]) ** (1.0 / (number - 1)), 1.0) if number > 1 else 1.0
        means[number:] = means[number - 1] * ratio ** np.arange(1, self.depth - number + 1)
        return np.asarray(means)


def profiled_batch_sizes(config: EngineConfig, given: list[Any] | None) -> IntArray:
    """Batch sizes that are profiled, ascending, none above `max_num_seqs`."""
    if given is None:
        most = config.max_num_seqs
        return np.array(sorted({*(size for size in CAPTURED_BATCH_SIZES if size < most), most}))
    whole = bool(given) and all(type(size) is int and size >= 1 for size in given)
    expect(whole, NAME, "profile_batch_sizes", given, "whole numbers from 1 up")
    sizes = sorted({min(size, config.max_num_seqs) for size in given})
    return np.array(sizes)
