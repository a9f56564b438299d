"""llama.cpp: p_min, n_min and n_max of its draft-model speculation, with the defaults of several versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from lightspec_bench.core import EarlyExit, EngineConfig
from lightspec_bench.planners.exits import FixedExit, cut_depth
from lightspec_bench.planners.option_checks import expect

Version: TypeAlias = Literal["v2024", "v2025", "v2026"]


@dataclass(frozen=True, slots=True)
class Defaults:
    """A version's defaults; `keep_last` is whether the token below p_min stays in the draft."""

    n_max: int
    n_min: int
    p_min: float
    keep_last: bool


DEFAULTS: dict[Version, Defaults] = {
    "v2024": Defaults(n_max=16, n_min=5, p_min=0.9, keep_last=True),
    "v2025": Defaults(n_max=16, n_min=0, p_min=0.75, keep_last=True),
    "v2026": Defaults(n_max=3, n_min=0, p_min=0.0, keep_last=False),
}


class LlamaCpp(FixedExit):
    """Drafts up to `n_max` tokens, stops at one whose top probability is below `p_min`, drops a draft below `n_min`.

    `version` sets what is not given: v2024 n_max 16, n_min 5, p_min 0.9; v2025 n_max 16, n_min 0, p_min 0.75 (both
    keep the token that stopped the draft: it is added before it is tested); v2026 n_max 3, n_min 0, p_min 0.0
    (tested before it is added, so not kept). Flags `--draft-max`, `--draft-min`, `--draft-p-min`, since 2026
    `--spec-draft-n-max`, `--spec-draft-n-min`, `--spec-draft-p-min`. n_max is cut to D, n_min to that.

    Source: llama.cpp, `common/speculative.h` and `common/speculative.cpp` of those years. In which commits the defaults
    changed was not checked: one of February 2026 still documents n_max 16. p_split (trees) is left out. One slot in
    the source; here every request stops for itself, and everything pending is verified.
    """

    def __init__(
        self,
        config: EngineConfig,
        version: Version = "v2026",
        n_max: int | None = None,
        n_min: int | None = None,
        p_min: float | None = None,
    ) -> None:
        expect(version in DEFAULTS, "llamacpp", "version", repr(version), "one of " + ", ".join(DEFAULTS))
        default = DEFAULTS[version]
        most = default.n_max if n_max is None else n_max
        least = default.n_min if n_min is None else n_min
        lowest = default.p_min if p_min is None else p_min
        depth = cut_depth("llamacpp", "n_max", most, config)
        expect(0 <= least <= most, "llamacpp", "n_min", least, f"0 to n_max, which is {most}")
        expect(0.0 <= lowest <= 1.0, "llamacpp", "p_min", lowest, "0 to 1")
        super().__init__(depth, EarlyExit("confidence", lowest, default.keep_last, drop_below=min(least, depth)))
