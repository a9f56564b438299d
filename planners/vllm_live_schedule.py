"""vLLM's live re-derivation: a batch-size schedule worked out anew from the acceptance that was met."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.position_counts import position_counts
from lightspec_bench.planners.step_price import step_grid_s

NAME = "vllm-live-schedule"
PRIOR = (0.78, 0.55, 0.37, 0.24, 0.16, 0.11, 0.08)
PRIOR_TAIL = 0.7  # each further position, of the one before


class VllmLiveSchedule:
    """K by batch size, for each profiled size r the one of the highest tokens / (t + c0 + c1 tokens).

    tokens = r (1 + sum of the first K survivals), t the profiled seconds of a step of r requests at K. A size between
    two profiled ones takes the K of the larger, one above the last that of the last; equal K are merged into
    ranges. It starts from the prior survival .78 .55 .37 .24 .16 .11 .08 (then 0.7 times the one before). After every
    `rederive_drafts` verified drafts the schedule is derived again: positions with at least `min_observations` take
    accepted over verified (unconditional), then all counts are halved.

    Source: a vLLM branch for DSpark, `v1/spec_decode/dynamic/utils.py` (`derive_dynamic_sd_schedule`). t here is
    verification and drafting by the latency model, at a context of `profile_context_tokens` each; the host's time is
    what `overhead_s` (c0) and `overhead_per_token_s` (c1) stand for. Sizes are `request_grid`, powers of two up to
    max_num_seqs when left out: which grid vLLM profiles, and at which context, is not known. vLLM may derive in the
    middle of a step's requests; here it waits for the step's end. Raises `BenchError` for options out of range.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        rederive_drafts: int = 16384,
        min_observations: int = 512,
        overhead_s: float = 0.003,
        overhead_per_token_s: float = 5e-5,
        request_grid: list[Any] | None = None,
        profile_context_tokens: int = 1024,
    ) -> None:
        for option, value in (("rederive_drafts", rederive_drafts), ("min_observations", min_observations)):
            expect(value >= 1, NAME, option, value, "at least 1")
        for name, seconds in (("overhead_s", overhead_s), ("overhead_per_token_s", overhead_per_token_s)):
            expect(0.0 <= seconds < np.inf, NAME, name, seconds, "seconds from 0 up")
        expect(profile_context_tokens >= 0, NAME, "profile_context_tokens", profile_context_tokens, "at least 0")
        depth = config.max_draft_tokens
        self.rederive_drafts, self.min_observations = rederive_drafts, min_observations
        self.overhead_s, self.overhead_per_token_s = overhead_s, overhead_per_token_s
        self.grid = sizes_of(request_grid, config.max_num_seqs)
        self.seconds = step_grid_s(config, self.grid, np.arange(depth + 1), profile_context_tokens, host=False)
        tail = PRIOR[-1] * PRIOR_TAIL ** np.arange(1, depth + 1)
        self.survival = np.concatenate((PRIOR, tail))[:depth]
        self._verified, self._accepted, self._drafts = np.zeros(depth), np.zeros(depth), 0
        self.best = self.derive()

    def plan(self, batch: Batch) -> Plan:
        at = min(int(np.searchsorted(self.grid, batch.num_requests)), len(self.grid) - 1)
        return verify_all(batch, int(self.best[at]))

    def observe(self, step: Step) -> None:
        counts = position_counts(step, len(self.survival))
        self._verified += counts.verified
        self._accepted += counts.accepted
        self._drafts += int(np.count_nonzero(step.num_verify_tokens))
        if self._drafts >= self.rederive_drafts:
            self._rederive()

    def _rederive(self) -> None:
        seen = self._verified >= self.min_observations
        self.survival[seen] = self._accepted[seen] / self._verified[seen]
        self._verified *= 0.5
        self._accepted *= 0.5
        self._drafts = 0
        self.best = self.derive()

    def derive(self) -> IntArray:
        """The best K at each profiled batch size, (M,); of equals the smallest."""
        tokens = self.grid[:, None] * (1.0 + np.concatenate(([0.0], np.cumsum(self.survival))))
        seconds: FloatArray = self.seconds + self.overhead_s + self.overhead_per_token_s * tokens
        return np.asarray((tokens / seconds).argmax(axis=1))

    def schedule(self) -> list[list[int]]:
        """The schedule in force, as [lo, hi, K] ranges in vLLM's form, equal neighbours merged."""
        ranges: list[list[int]] = []
        start = 1
        for size, k in zip(self.grid.tolist(), self.best.tolist(), strict=True):
            if ranges and ranges[-1][2] == k:
                ranges[-1][1] = size
            else:
                ranges.append([start, size, k])
            start = size + 1
        return ranges


def sizes_of(given: list[Any] | None, max_num_seqs: int) -> IntArray:
    """Profiled batch sizes, ascending, `max_num_seqs` the last."""
    sizes = [1 << power for power in range(max_num_seqs.bit_length())] if given is None else given
    whole = bool(sizes) and all(type(size) is int and size >= 1 for size in sizes)
    expect(whole, NAME, "request_grid", given, "whole numbers from 1 up")
    return np.array(sorted({*(size for size in sizes if size < max_num_seqs), max_num_seqs}))
