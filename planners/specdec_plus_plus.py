"""SpecDec++: a draft ends once some token of it is likely to be rejected."""

from __future__ import annotations

from typing import Literal

from lightspec_bench.core import EarlyExit, EngineConfig
from lightspec_bench.planners.exits import FixedExit, cut_depth
from lightspec_bench.planners.option_checks import expect


class SpecDecPlusPlus(FixedExit):
    """Stops where 1 - prod(1 - P(reject)) over the draft is above `stop_threshold`, not before `min_draft_tokens`.

    SpecDec++ trains a head that predicts acceptance. No trace holds its output, so P(accept) is approximated by the
    drafter's top probability: `head: confidence`, the only choice. Results are those of the rule with this
    approximation, not of SpecDec++. Length bounds 2 and `k` = 20, cut to D; everything pending is verified.

    Source: repository Kaffaljidhmah2/SpecDec_pp (arXiv 2405.19715), whose README runs threshold 0.3. It runs one
    request; here every request stops for itself. That the token that crossed the threshold is verified too
    (`keep_last`) is from memory of the paper, not checked.
    """

    def __init__(
        self,
        config: EngineConfig,
        stop_threshold: float = 0.3,
        min_draft_tokens: int = 2,
        k: int | None = 20,
        keep_last: bool = True,
        head: Literal["confidence"] = "confidence",
    ) -> None:
        name = "specdec-plus-plus"
        expect(0.0 <= stop_threshold <= 1.0, name, "stop_threshold", stop_threshold, "0 to 1")
        expect(min_draft_tokens >= 0, name, "min_draft_tokens", min_draft_tokens, "at least 0")
        expect(head == "confidence", name, "head", repr(head), "'confidence', the only approximation there is")
        rule = EarlyExit("product", 1.0 - stop_threshold, keep_last=keep_last, min_draft_tokens=min_draft_tokens)
        super().__init__(cut_depth(name, "k", k, config), rule)
