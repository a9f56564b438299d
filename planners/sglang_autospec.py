"""SGLang AutoSpec: per batch size, draft steps go up or down by one while a rate is past either of two thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from lightspec_bench.core import Batch, BenchError, ConfidenceAge, EngineConfig, Plan, Step
from lightspec_bench.planners.batch_depth import DraftedBy, mean_accepted, verify_all
from lightspec_bench.planners.batch_sizes import nearest
from lightspec_bench.planners.option_checks import by_batch_size, depths, expect, is_whole

NAME = "sglang-autospec"
DEFAULT_STEPS: dict[int, list[int]] = {
    1: [3, 4, 5, 6], 2: [3, 4, 5, 6], 4: [3, 4, 5, 6], 8: [2, 3, 4], 16: [2, 3, 4], 32: [2, 3, 4],
    64: [1, 2, 3, 4], 128: [1, 2, 3, 4],
}  # fmt: skip
DEFAULT_INITIAL = {1: 5, 2: 5, 4: 5, 8: 4, 16: 3, 32: 3, 64: 3, 128: 1}
DEFAULT_THRESHOLDS: dict[int, list[float]] = {
    1: [0.55, 0.50], 2: [0.55, 0.50], 4: [0.60, 0.50], 8: [0.80, 0.50], 16: [0.95, 0.60], 32: [0.91, 0.66],
    64: [0.95, 0.65], 128: [0.95, 0.65],
}  # fmt: skip


@dataclass(slots=True)
class Tuned:
    """What is tuned for one batch size. A step moves to the next candidate where the rate passes a threshold."""

    candidates: list[int]  # ascending
    steps: int
    increase_at: float
    decrease_below: float
    ema: float

    def move(self, rate: float) -> None:
        at = self.candidates.index(self.steps)
        if rate >= self.increase_at:
            self.steps = self.candidates[min(at + 1, len(self.candidates) - 1)]
        elif rate < self.decrease_below:
            self.steps = self.candidates[max(at - 1, 0)]


class SGLangAutoSpec:
    """Draft steps per batch size, one up where a rate is at `thresholds`' first number, one down below its second.

    The rate of a step is (accepted + requests) / requests / (steps + 1): tokens that came out, bonus included, over
    rows. `version` "v2" averages it, `ema_weight` new, from `ema_start`; "v1" takes each step's own. A batch takes the
    nearest size of `steps`, the smaller of two as near. `steps` maps sizes to the steps allowed, `initial` to the
    steps at first (the largest allowed one where that is not among them), `thresholds` to [increase, decrease];
    sizes that the last two lack take their nearest entry. Steps are cut to D, and none of the defaults is 0.

    A batch of four requests and more has to reach 0.60 to 0.95 to go up: the more rows, the surer they have to be.

    The outcome of a step is credited to the size and steps that drafted it, and left out where that size has moved on
    (in SGLang both are one iteration). Source: SGLang #17749, `speculative/auto_eagle.py` (v1; its candidate, initial
    and threshold tables), and #22246 for v2; both were closed. Not checked: v2's code, so that its average is kept per
    batch size and every step is taken is an assumption; one revision of v1 leaves sizes 7 to 48 as they start, others
    drop candidates for want of memory: neither is done here.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        version: Literal["v1", "v2"] = "v2",
        ema_weight: float = 0.3,
        ema_start: float = 0.5,
        steps: dict[Any, Any] | None = None,
        initial: dict[Any, Any] | None = None,
        thresholds: dict[Any, Any] | None = None,
    ) -> None:
        expect(0.0 < ema_weight <= 1.0, NAME, "ema_weight", ema_weight, "above 0, at most 1")
        expect(0.0 <= ema_start <= 1.0, NAME, "ema_start", ema_start, "0 to 1")
        self.version, self.ema_weight = version, ema_weight
        allowed = dict(by_batch_size(NAME, "steps", DEFAULT_STEPS if steps is None else steps))
        first = _initial(DEFAULT_INITIAL if initial is None else initial)
        limits = _thresholds(DEFAULT_THRESHOLDS if thresholds is None else thresholds)
        self.tuned: dict[int, Tuned] = {}
        for size, values in allowed.items():
            candidates = depths(NAME, f"steps[{size}]", values, 0, config.max_draft_tokens)
            start = min(first[nearest(list(first), size)], config.max_draft_tokens)
            increase, decrease = limits[nearest(list(limits), size)]
            known = start if start in candidates else candidates[-1]
            self.tuned[size] = Tuned(candidates, known, increase, decrease, ema_start)
        self._sizes = list(self.tuned)
        self._drafted = DraftedBy()

    def of(self, num_requests: int) -> Tuned:
        """What is tuned for the nearest batch size."""
        return self.tuned[nearest(self._sizes, num_requests)]

    def plan(self, batch: Batch) -> Plan:
        return verify_all(batch, self.of(batch.num_requests).steps)

    def observe(self, step: Step) -> None:
        drafted, accepted = self._drafted.follow(step), mean_accepted(step)
        if drafted is None or accepted is None:
            return
        tuned = self.of(drafted[0])
        if drafted[1] != tuned.steps:
            return
        rate = (accepted + 1.0) / (tuned.steps + 1)
        tuned.ema = self.ema_weight * rate + (1.0 - self.ema_weight) * tuned.ema
        tuned.move(rate if self.version == "v1" else tuned.ema)


def _initial(given: dict[Any, Any]) -> dict[int, int]:
    initial = dict(by_batch_size(NAME, "initial", given))
    for size, value in initial.items():
        expect(is_whole(value) and value >= 0, NAME, f"initial[{size}]", value, "a whole number from 0 up")
    return initial


def _thresholds(given: dict[Any, Any]) -> dict[int, list[float]]:
    thresholds = dict(by_batch_size(NAME, "thresholds", given))
    for size, pair in thresholds.items():
        numbers = isinstance(pair, (list, tuple)) and len(pair) == 2 and all(type(v) in (int, float) for v in pair)
        if not numbers or not 0.0 <= pair[1] <= pair[0]:
            raise BenchError(
                f"{NAME}: thresholds[{size}] is {pair}, expected [increase, decrease], 0 <= decrease <= increase"
            )
    return thresholds
