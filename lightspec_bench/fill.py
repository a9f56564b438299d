"""Fill: which draft tokens a budget of target rows verifies, shared by every runner.

All N target rows are always in. The other `budget - N` rows go to the pending draft tokens with the highest prefix
survival over the whole batch. Survival never rises along a draft, so counting the chosen tokens of each request and
verifying that many of its first ones gives a selection of the same value that is closed under its prefix, whatever
way ties fell. Rule: LightLLM's lightspec branch at 414c39b, without its clamp at 0.99, which makes ties.
"""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import Confidence, FloatArray, IntArray


def prefix_survival(confidence: Confidence) -> Confidence:
    """Probability that the first j + 1 draft tokens are all accepted: the running product of confidences.

    Shapes (N, D) -> (N, D). NaN (past the proposal) and negative values count as 0, values above 1 as 1.
    """
    return np.multiply.accumulate(np.minimum(np.fmax(confidence, 0.0), 1.0), axis=1)


def depth_survival(num_requests: int, max_draft_tokens: int) -> Confidence:
    """A stand-in survival for drafters without confidences: shallow tokens first, all requests alike; (N, D)."""
    by_depth = np.linspace(1.0, 0.0, max_draft_tokens, endpoint=False, dtype=np.float32)
    return np.broadcast_to(by_depth, (num_requests, max_draft_tokens))


def fill(survival: Confidence | FloatArray, num_draft_tokens: IntArray, num_target_tokens: int) -> IntArray:
    """Verify tokens per request, (N,), that spend a budget of `num_target_tokens` rows.

    `survival` (N, D) does not rise along a row; `num_draft_tokens` (N,) are pending. Exactly
    `min(num_target_tokens - N, sum(num_draft_tokens))` tokens are chosen and none left out has a higher survival
    than one chosen.
    """
    num_requests, max_draft_tokens = survival.shape
    room = num_target_tokens - num_requests
    pending = int(num_draft_tokens.sum())
    if room >= pending:
        return num_draft_tokens
    if room <= 0:
        return np.zeros_like(num_draft_tokens)
    candidate = np.arange(max_draft_tokens) < num_draft_tokens[:, None]
    scores = np.where(candidate, survival, -1.0).ravel()
    chosen = np.argpartition(scores, len(scores) - room)[len(scores) - room :]
    return np.bincount(chosen // max_draft_tokens, minlength=num_requests)
