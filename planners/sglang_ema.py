"""SGLang's adaptive speculation (`ema`): per batch-size tier, draft steps follow an average of accepted tokens."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import isfinite
from typing import Any, ClassVar, Literal, TypeAlias

from lightspec_bench.core import Batch, BenchError, ConfidenceAge, EngineConfig, Plan, Step
from lightspec_bench.planners.batch_depth import DraftedBy, mean_accepted, verify_all
from lightspec_bench.planners.batch_sizes import largest_at_most, smallest_at_least
from lightspec_bench.planners.option_checks import by_batch_size, depths, expect
from lightspec_bench.planners.sglang_ema_slot import Slot, SlotRules
from lightspec_bench.registry import did_you_mean

NAME = "sglang-ema"
Version: TypeAlias = Literal["015c8726", "13d3f642"]
# DEFAULT_ADAPTIVE_CONFIG at 015c8726.
DEFAULT_TIERS: dict[str, Any] = {
    "1": {"candidate_steps": [1, 3, 5, 7], "up_hysteresis": 0.0, "down_hysteresis": -0.25, "ceiling_coeff": 0},
    "8": {"candidate_steps": [0, 1, 3], "up_hysteresis": 0.0, "down_hysteresis": 0.0, "ceiling_coeff": 0},
    "32": {"candidate_steps": [0, 1], "up_hysteresis": 0.0, "down_hysteresis": 0.0, "ceiling_coeff": 0},
    "64": {"candidate_steps": [0], "up_hysteresis": 0.0, "down_hysteresis": 0.0, "ceiling_coeff": 0},
}
OLD_TIERS: dict[str, Any] = {"1": {"candidate_steps": [1, 3, 7]}}
TIER_KEYS = ("candidate_steps", "up_hysteresis", "down_hysteresis", "ceiling_coeff")


class SGLangEma:
    """Draft steps from a tier's candidates, by an average of accepted draft tokens per request and step.

    A batch size is padded to the next captured one (`cuda_graph_bs`; left out, the latency model's captured sizes) and
    takes the tier with the largest key not above it. Each tier keeps its own steps and average, `ema_alpha` new. After
    `warmup_batches` of its batches, every `update_interval` of them, it moves: from 0 steps to the next candidate, a
    probe; else down while the average is at most the candidate below - 0.5 + `down_hysteresis` (0.5 + it, where that
    candidate is 0); else up while it is above the present one - 0.5 + `up_hysteresis`. A positive `ceiling_coeff`
    caps steps that do not rise at ceil(average * it), at least 1.

    `tiers` is SGLang's configuration, keyed by batch size: a list of candidates (with hystereses 0.0 and -0.25), or a
    mapping with candidate_steps and any of up_hysteresis, down_hysteresis, ceiling_coeff. The three options of those
    names override every tier. `num_steps` is --speculative-num-steps, where SGLang starts if it is a candidate; SGLang
    has no fixed default for it, here it is 3. Candidates are cut to D.

    What happens with the published numbers: the two thresholds between neighbours coincide at hysteresis 0, so a slot
    whose average lies there moves at every update; a slot whose drafter is hopeless goes 0, 1, 0, 1.
    A tier of [0] never drafts again.

    `version` 13d3f642: one tier of [1, 3, 7], `num_steps` added to it, no 0, the same for every batch size, and both
    loops run in one decision. In SGLang draft and verification are one iteration. Here a step verifies what the plan
    before drafted, so its outcome is credited to the tier and steps that drafted it, and left out where the tier has
    moved on since. Source: SGLang `speculative/adaptive_spec_params.py` at 015c8726 and 13d3f642. SGLang refuses it
    for algorithms but EAGLE and EAGLE3, topk above 1 and attention data parallelism; that is not checked here, and not
    how the captured batch sizes, which a latency model gives in rows, follow from the memory of a device.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        version: Version = "015c8726",
        tiers: dict[Any, Any] | None = None,
        num_steps: int = 3,
        ema_alpha: float = 0.2,
        update_interval: int = 5,
        warmup_batches: int = 10,
        up_hysteresis: float | None = None,
        down_hysteresis: float | None = None,
        ceiling_coeff: float | None = None,
        cuda_graph_bs: list[int] | None = None,
    ) -> None:
        expect(num_steps >= 0, NAME, "num_steps", num_steps, "at least 0")
        expect(0.0 < ema_alpha <= 1.0, NAME, "ema_alpha", ema_alpha, "above 0, at most 1")
        expect(update_interval >= 1, NAME, "update_interval", update_interval, "at least 1")
        expect(warmup_batches >= 0, NAME, "warmup_batches", warmup_batches, "at least 0")
        for option, value in (("up_hysteresis", up_hysteresis), ("down_hysteresis", down_hysteresis)):
            expect(value is None or isfinite(value), NAME, option, value, "a number")
        expect(ceiling_coeff is None or ceiling_coeff >= 0.0, NAME, "ceiling_coeff", ceiling_coeff, "at least 0")
        most, is_new = config.max_draft_tokens, version == "015c8726"
        given = tiers if tiers is not None else DEFAULT_TIERS if is_new else OLD_TIERS
        forced = {"up_hysteresis": up_hysteresis, "down_hysteresis": down_hysteresis, "ceiling_coeff": ceiling_coeff}
        rules = {key: value for key, value in forced.items() if value is not None}
        rules |= {"ema_alpha": ema_alpha, "update_interval": update_interval, "warmup_batches": warmup_batches}
        self.slots: dict[int, Slot] = {}
        for size, entry in by_batch_size(NAME, "tiers", given):
            own = _tier(size, entry) | rules
            candidates = depths(NAME, f"tiers[{size}]", own.pop("candidate_steps"), 0 if is_new else 1, most)
            if not is_new:
                candidates = sorted({*candidates, min(max(num_steps, 1), most)})
            self.slots[size] = Slot(SlotRules(tuple(candidates), **own, probes_zero=is_new), min(num_steps, most))
        expect(is_new or len(self.slots) == 1, NAME, "tiers", given, "one batch size in version 13d3f642")
        self._tiers = list(self.slots)
        sizes = config.latency.graph_sizes.tolist() if cuda_graph_bs is None else cuda_graph_bs
        self._captured = depths(NAME, "cuda_graph_bs", sizes, 1, sys.maxsize) if sizes else []
        self._drafted = DraftedBy()

    def slot(self, num_requests: int) -> Slot:
        """The slot that a batch of that size takes."""
        return self.slots[largest_at_most(self._tiers, smallest_at_least(self._captured, num_requests))]

    def plan(self, batch: Batch) -> Plan:
        return verify_all(batch, self.slot(batch.num_requests).steps)

    def observe(self, step: Step) -> None:
        """Credit the step to the slot that drafted it; a step whose requests had nothing to verify says nothing,
        unless depth 0 was planned."""
        drafted = self._drafted.follow(step)
        if drafted is None or not step.num_requests:
            return
        slot, accepted = self.slot(drafted[0]), mean_accepted(step)
        if drafted[1] == slot.steps and (accepted is not None or slot.steps == 0):
            slot.update(accepted or 0.0)


def _tier(size: int, entry: Any) -> dict[str, Any]:
    """A tier's own candidates and hystereses."""
    own = dict(entry) if isinstance(entry, Mapping) else {"candidate_steps": entry}
    for key, value in own.items():
        if key not in TIER_KEYS:
            raise BenchError(f"{NAME}: tiers[{size}] has {key!r}{did_you_mean(str(key), TIER_KEYS)}")
        number = type(value) in (int, float) and isfinite(value)
        expect(key == "candidate_steps" or number, NAME, f"tiers[{size}] {key}", value, "a number")
    if "candidate_steps" not in own:
        raise BenchError(f"{NAME}: tiers[{size}] is {own}, expected candidate_steps")
    return own
