"""Published acceptance shapes: conditional acceptance per draft position of three drafter families.

Quoted: read from Figure 2 of the DSpark paper (arXiv 2607.05147; Qwen3-4B, temperature 1, block 7).
"""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import BenchError, DrafterKind, FloatArray
from lightspec_bench.registry import did_you_mean

KINDS: dict[str, DrafterKind] = {"eagle3": "autoregressive", "dflash": "parallel", "dspark": "parallel"}
SHAPES: dict[tuple[str, str], tuple[float, ...]] = {
    ("eagle3", "chat"): (0.534, 0.589, 0.642, 0.678, 0.709, 0.729, 0.733),
    ("eagle3", "code"): (0.771, 0.774, 0.781, 0.791, 0.787, 0.794, 0.784),
    ("eagle3", "math"): (0.811, 0.823, 0.838, 0.844, 0.851, 0.856, 0.850),
    ("dflash", "chat"): (0.718, 0.648, 0.638, 0.661, 0.682, 0.692, 0.688),
    ("dflash", "code"): (0.865, 0.815, 0.797, 0.801, 0.810, 0.801, 0.777),
    ("dflash", "math"): (0.885, 0.827, 0.820, 0.834, 0.841, 0.839, 0.828),
    ("dspark", "chat"): (0.735, 0.738, 0.740, 0.744, 0.758, 0.766, 0.761),
    ("dspark", "code"): (0.886, 0.872, 0.860, 0.861, 0.858, 0.859, 0.851),
    ("dspark", "math"): (0.905, 0.890, 0.888, 0.885, 0.887, 0.891, 0.882),
}
WORKLOADS = ("chat", "code", "math")


def shape(drafter: str, workload: str, max_draft_tokens: int, decay: float) -> FloatArray:
    """Conditional acceptance of draft tokens 1 to D, (D,).

    Beyond the seventh, where nothing was published, each is `decay` times the one before. 1 keeps the last value,
    which is an upper bound; a recorded EAGLE head (SpecDecode-Bench, ShareGPT) fell from .748 to .590 over
    positions 7 to 11, which is .94 per position.
    """
    for value, known, name in ((drafter, KINDS, "shape"), (workload, WORKLOADS, "workload")):
        if value not in known:
            raise BenchError(f"unknown {name} {value!r}{did_you_mean(str(value), known)}")
    return extend(np.array(SHAPES[drafter, workload]), max_draft_tokens, decay)


def extend(known: FloatArray, max_draft_tokens: int, decay: float) -> FloatArray:
    """The first D values, the last one decaying where there are fewer than D."""
    further = np.arange(1, max(max_draft_tokens - len(known), 0) + 1)
    return np.concatenate([known, known[-1] * decay**further])[:max_draft_tokens]


def shifted_to_length(conditional: FloatArray, length: float, num_draft_tokens: int) -> FloatArray:
    """Conditional acceptance shifted in logits, alike at every position, until a static drafter of
    `num_draft_tokens` has that mean acceptance length: 1 + the sum of its prefix survivals. Keeps the shape, (D,)."""
    inside = np.clip(conditional, 1e-6, 1.0 - 1e-6)
    logit = np.log(inside / (1.0 - inside))
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2.0
        shorter = 1.0 + np.cumprod(_sigmoid(logit[:num_draft_tokens] + middle)).sum() < length
        low, high = (middle, high) if shorter else (low, middle)
    return _sigmoid(logit + (low + high) / 2.0)


def _sigmoid(logit: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))
