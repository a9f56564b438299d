"""Confidence exit: drafting stops at the first token whose top probability is below a fixed threshold."""

from __future__ import annotations

from lightspec_bench.core import EarlyExit, EngineConfig
from lightspec_bench.early_exit import Scope
from lightspec_bench.planners.exits import FixedExit, cut_depth
from lightspec_bench.planners.option_checks import expect

# Whether the token that stopped a draft is kept, and the fewest tokens of a draft, in the source of each scope.
KEEP_LAST: dict[Scope, bool] = {"request": False, "mean": True, "all": False}
MIN_DRAFT_TOKENS: dict[Scope, int] = {"request": 0, "mean": 2, "all": 1}


class ConfidenceExit(FixedExit):
    """Plans depth `k` (D when left out) with an exit rule, and verifies everything pending. It learns nothing.

    `scope`: every "request" stops for itself (vLLM pull request 35301, `draft_confidence_threshold`, and the
    generic rule); all stop where the batch "mean" is below `threshold` (vLLM branch, `ConfidenceThresholdPolicy`: a
    stop at its loop's step s leaves s + 2 tokens, so the token that stopped it is kept and no draft has fewer than
    two); or all go on until "all" drafts had such a token (vLLM branch, `DraftConfidenceStop`: steps - 1 tokens, at
    least one). `keep_last` and `min_draft_tokens` are those of the scope's source unless given.

    The branches state no default threshold that could be checked; 0.4 is Hugging Face's. Which token the first check
    of `ConfidenceThresholdPolicy` looks at was not checked either: it is taken to be the second.
    """

    def __init__(
        self,
        config: EngineConfig,
        threshold: float = 0.4,
        scope: Scope = "request",
        k: int | None = None,
        keep_last: bool | None = None,
        min_draft_tokens: int | None = None,
    ) -> None:
        name = "confidence-exit"
        expect(scope in KEEP_LAST, name, "scope", repr(scope), "one of " + ", ".join(KEEP_LAST))
        expect(0.0 <= threshold <= 1.0, name, "threshold", threshold, "0 to 1")
        least = MIN_DRAFT_TOKENS[scope] if min_draft_tokens is None else min_draft_tokens
        expect(least >= 0, name, "min_draft_tokens", least, "at least 0")
        keep = KEEP_LAST[scope] if keep_last is None else keep_last
        rule = EarlyExit("confidence", threshold, keep_last=keep, scope=scope, min_draft_tokens=least)
        super().__init__(cut_depth(name, "k", k, config), rule)
