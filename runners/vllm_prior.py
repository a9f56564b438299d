"""The price that planners begin with where no latency table was given."""

from __future__ import annotations

import logging

from lightspec_bench.latency import HostCost, LinearLatency
from lightspec_bench.latency_curves import AffineCurve

logger = logging.getLogger("vllm.lightspec_bench")

# Milliseconds of a forward and of each of its rows: a small model on a CPU, where a row costs something from the
# first one on, and a large one on a GPU, where a few hundred rows cost next to nothing. Orders of magnitude.
_FORWARD_MS = {"cpu": (20.0, 1.5)}
_ACCELERATOR_MS = (10.0, 0.02)
_DRAFTER_SHARE = 0.1  # of the target's cost


def unmeasured(device_type: str) -> LinearLatency:
    """A line that no machine was measured for; says so, since only planners that learn costs do well with it."""
    logger.warning(
        "lightspec: no latency table was given, planners begin with a guess; make one with "
        "`lightspec-bench profile --runner vllm` and name it in the lightspec options as latency"
    )
    fixed_ms, row_ms = _FORWARD_MS.get(device_type, _ACCELERATOR_MS)
    target = AffineCurve(fixed_ms / 1e3, row_ms / 1e3, 0.0)
    draft = AffineCurve(_DRAFTER_SHARE * fixed_ms / 1e3, _DRAFTER_SHARE * row_ms / 1e3, 0.0)
    return LinearLatency(
        name=f"guess for {device_type}",
        origin="modelled",
        source="orders of magnitude, nothing was measured",
        target=target,
        draft=draft,
        host=HostCost(step_s=1e-3),
    )
