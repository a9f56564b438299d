"""Cost: the latency model that an engine exposes, corrected while serving by what steps really took."""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import EngineConfig, FloatArray, IntArray, Step
from lightspec_bench.drafting import draft_s

BUCKETS_PER_OCTAVE = 4  # of target rows
NUM_BUCKETS = 16 * BUCKETS_PER_OCTAVE
FADE = 0.5  # of a correction per bucket below the lowest that was visited
RATE = 0.1
SPREAD_AT = np.array([-1.4, -0.53, 0.0, 0.53, 1.4])  # quintiles of a normal
SURPRISE = 1.5  # one step may move its ratio as if it were at most this far off


class Cost:
    """Seconds of a step. Measured over predicted is averaged per bucket of rows and interpolated between buckets.

    Beyond the largest that was visited it stays; below the lowest it fades, or a planner would never find out that
    the way down is cheaper than where it is.
    """

    def __init__(self, config: EngineConfig, learns: bool = True) -> None:
        self._config, self._learns = config, learns
        self._log_ratio = np.zeros(NUM_BUCKETS)
        self._seen = np.zeros(NUM_BUCKETS)

    def observe(self, step: Step) -> None:
        """Compare a step's verification with the model, outliers clipped."""
        if not self._learns or not step.num_requests:
            return
        rows = step.num_requests + int(step.num_verify_tokens.sum())
        model_s = float(self._config.latency.verify_s(rows, step.num_requests, step.num_context_tokens))
        place = min(int(BUCKETS_PER_OCTAVE * np.log2(rows)), NUM_BUCKETS - 1)
        surprise = np.log(max(step.verify_s, 1e-9) / max(model_s, 1e-9)) - self._log_ratio[place]
        self._seen[place] += 1.0
        rate = max(RATE, 1.0 / self._seen[place])
        self._log_ratio[place] += rate * float(np.clip(surprise, -np.log(SURPRISE), np.log(SURPRISE)))

    def correction(self, rows: IntArray | FloatArray) -> FloatArray:
        """Measured over predicted at these row counts, from the buckets that were visited; 1 before any was."""
        known = np.flatnonzero(self._seen)
        if not len(known):
            return np.ones(np.shape(rows))
        at = BUCKETS_PER_OCTAVE * np.log2(rows)
        fading = FADE ** np.maximum(known[0] - at, 0.0)
        return np.asarray(np.exp(np.interp(at, known + 0.5, self._log_ratio[known]) * fading))

    def verify_s(self, rows: IntArray | FloatArray, num_requests: int, context: int) -> FloatArray:
        """Seconds of the target over these rows, corrected; the shape of `rows`."""
        return np.asarray(self._config.latency.verify_s(rows, num_requests, context) * self.correction(rows))

    def step_s(
        self, rows: IntArray, num_requests: int, context: int, depths: IntArray, spread: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """(K,) seconds that these target rows add, the drafter's own pass over them included, and (D + 1, K) seconds
        of a whole step that also drafts to each of `depths`, (D + 1,) from 0 up. `spread` (K,) is the standard
        deviation of rows where they are only expected: on a staircase the mean cost is not that of the mean."""
        latency = self._config.latency
        if spread is None:
            verify_s = self.verify_s(rows, num_requests, context)
        else:
            around = np.maximum(rows + SPREAD_AT[:, None] * spread, num_requests)
            verify_s = self.verify_s(around, num_requests, context).mean(axis=0)
        drafting = draft_s(latency, self._config.drafter, rows[None], num_requests, depths[:, None], context)
        drafting = np.broadcast_to(drafting, (len(depths), len(rows)))
        return np.asarray(verify_s + drafting[0]), verify_s + drafting + float(latency.host_s(num_requests, True))
