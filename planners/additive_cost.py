"""Additive cost of a step: a fixed part, a part by requests and a part by rows, each interpolated and held at its ends.

The form of SGLang's and TensorRT-LLM's tables for DSpark: seconds = bias + alpha(requests) + theta(rows).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightspec_bench.core import EngineConfig, FloatArray, IntArray
from lightspec_bench.planners.capture_costs import captured_sizes
from lightspec_bench.planners.step_price import drafting_s


@dataclass(frozen=True, slots=True)
class AdditiveCost:
    """`alpha_s` at `request_points`, `theta_s` at `row_points`; points ascend."""

    bias_s: float
    request_points: IntArray
    alpha_s: FloatArray
    row_points: IntArray
    theta_s: FloatArray

    def step_s(self, num_requests: int, rows: IntArray) -> FloatArray:
        """Seconds of a step, like `rows`."""
        fixed = self.bias_s + np.interp(num_requests, self.request_points, self.alpha_s)
        return np.asarray(fixed + np.interp(rows, self.row_points, self.theta_s))


def profile_additive(config: EngineConfig, context: int) -> AdditiveCost:
    """The latency model in additive form: rows without context, everything that goes by requests beside it.

    Row points are the captured sizes up to max_num_seqs (D + 1) and that size, request points powers of two and
    max_num_seqs. Requests draft D tokens after verifying D and read `context` tokens each.
    """
    latency, most = config.latency, config.max_num_seqs
    widest = most * (config.max_draft_tokens + 1)
    rows = np.union1d(captured_sizes(latency, widest), np.array([widest], dtype=np.int64))
    requests = np.union1d(1 << np.arange(most.bit_length()), np.array([most]))
    requests = requests[requests <= most]
    tokens = requests * context
    reading = latency.verify_s(requests, requests, tokens) - latency.verify_s(requests, requests, np.zeros_like(tokens))
    beside = reading + drafting_s(config, requests, config.max_draft_tokens, tokens) + latency.host_s(requests, True)
    theta = latency.verify_s(rows, np.minimum(rows, most), np.zeros_like(rows))
    return AdditiveCost(0.0, requests, np.asarray(beside, dtype=np.float64), rows, theta)
