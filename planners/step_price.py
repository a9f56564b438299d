"""Price of a step: seconds when N requests all verify and draft to one depth, by an engine's latency model.

Engines that profile themselves time such uniform steps with dummy requests of one context length; their profile is
here the latency model asked at the points where they would have measured.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from lightspec_bench.core import EngineConfig, FloatArray, IntArray, Number
from lightspec_bench.drafting import draft_s


def _rows(num_requests: Number, depth: Number) -> Number:
    return cast(Number, num_requests * (1 + depth))


def verify_s(config: EngineConfig, num_requests: Number, depth: Number, num_context_tokens: Number) -> FloatArray:
    """Seconds of the target's forward over N (1 + depth) rows; broadcasts. `num_context_tokens` is of the batch."""
    return config.latency.verify_s(_rows(num_requests, depth), num_requests, num_context_tokens)


def drafting_s(config: EngineConfig, num_requests: Number, depth: Number, num_context_tokens: Number) -> FloatArray:
    """Seconds of drafting `depth` tokens after N (1 + depth) rows were verified; broadcasts."""
    return draft_s(config.latency, config.drafter, _rows(num_requests, depth), num_requests, depth, num_context_tokens)


def step_s(config: EngineConfig, num_requests: Number, depth: Number, num_context_tokens: Number) -> FloatArray:
    """Seconds of the whole step, the host's included; broadcasts."""
    device_s = verify_s(config, num_requests, depth, num_context_tokens) + drafting_s(
        config, num_requests, depth, num_context_tokens
    )
    return device_s + config.latency.host_s(num_requests, True)


def step_grid_s(
    config: EngineConfig, num_requests: IntArray, depths: IntArray, context_per_request: int, host: bool = True
) -> FloatArray:
    """(M, K) seconds of a step at M batch sizes and K depths, every request at the same context; `host` or without."""
    sizes = num_requests[:, None]
    context = sizes * context_per_request
    if host:
        return np.asarray(step_s(config, sizes, depths[None], context))
    return verify_s(config, sizes, depths[None], context) + drafting_s(config, sizes, depths[None], context)
