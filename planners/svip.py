"""SVIP: a draft ends with the first token whose entropy is high."""

from __future__ import annotations

from typing import ClassVar

from lightspec_bench.core import EarlyExit, EngineConfig
from lightspec_bench.planners.exits import FixedExit, cut_depth
from lightspec_bench.planners.option_checks import expect


class SVIP(FixedExit):
    """Stops where sqrt(coefficient H) > threshold, H the drafter's entropy in nats; that token is kept.

    Written for the exit rule as H > threshold^2 / coefficient, 0.6 nats at the defaults. `k` is the hard cap, cut to
    D. Everything pending is verified. Source: `vanilla-sd/eval_specbench.py` of the SVIP repository
    (Geralt-Targaryen/SVIP; arXiv 2411.18462), its threshold from the configuration there. The source runs one
    request; here every request stops for itself.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"entropy"})

    def __init__(
        self, config: EngineConfig, threshold: float = 0.3, coefficient: float = 0.15, k: int | None = 40
    ) -> None:
        expect(threshold >= 0.0, "svip", "threshold", threshold, "at least 0")
        expect(coefficient > 0.0, "svip", "coefficient", coefficient, "above 0")
        rule = EarlyExit("entropy", threshold**2 / coefficient, keep_last=True)
        super().__init__(cut_depth("svip", "k", k, config), rule)
