"""Hugging Face's dynamic speculation length: a confidence threshold per request, set by its own ROC curve."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from lightspec_bench.core import Batch, BenchError, ConfidenceAge, EarlyExit, EngineConfig, Plan, Step
from lightspec_bench.planners.exits import cut_depth, draft_until
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.request_table import RequestTable
from lightspec_bench.planners.roc_threshold import PairHistories, best_thresholds, pair_keys

MODES = ("dynamic", "static")


class HFConfidence:
    """Stops after a draft token whose probability is below a threshold; that token is kept.

    `mode: dynamic`: after each verification the pairs (probability, matched) of the accepted tokens and of the first
    miss join the request's history, those after the miss do not. With more than `min_pairs` pairs, matched and
    unmatched, the threshold becomes the point of the ROC curve with the least `fpr + miss_weight * fnr` (of equal
    ones the highest). `mode: static`: `threshold` throughout. `k` = 20 is `num_assistant_tokens` ("constant"
    schedule), cut to D.

    Source: transformers 5.24.0, `generation/candidate_generator.py` (`assistant_confidence_threshold` 0.4) and its
    stopping criterion `ConfidenceCriteria`. It decodes one request at a time: here each request has its own history
    from `threshold` on, forgotten when it leaves. It takes the probability of the sampled token, a trace has the top
    probability: the same for greedy drafting. Histories have no bound, so observing takes longer as requests do.
    """

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        threshold: float = 0.4,
        mode: Literal["dynamic", "static"] = "dynamic",
        k: int | None = 20,
        min_pairs: int = 5,
        miss_weight: float = 3.0,
    ) -> None:
        name = "hf-confidence"
        expect(0.0 <= threshold <= 1.0, name, "threshold", threshold, "0 to 1")
        expect(mode in MODES, name, "mode", repr(mode), "one of " + ", ".join(MODES))
        expect(min_pairs >= 0, name, "min_pairs", min_pairs, "at least 0")
        expect(miss_weight >= 0.0, name, "miss_weight", miss_weight, "at least 0")
        self.k, self.dynamic = cut_depth(name, "k", k, config), mode == "dynamic"
        self.threshold, self.min_pairs, self.miss_weight = threshold, min_pairs, miss_weight
        self._table = RequestTable(threshold=threshold, slot=-1)
        self._histories = PairHistories()

    def plan(self, batch: Batch) -> Plan:
        thresholds = self._table.read(batch.request_id)[0]["threshold"] if self.dynamic else self.threshold
        return draft_until(EarlyExit("confidence", thresholds, keep_last=True), batch, self.k)

    def observe(self, step: Step) -> None:
        if not self.dynamic:
            return
        if step.confidence is None:
            raise BenchError("hf-confidence: the step has no confidences, expected a trace or engine that records them")
        rows, known = self._table.read(step.request_id)
        self._histories.release(self._table.gone(step.request_id)["slot"])
        rows["slot"][~known] = self._histories.claim(int(np.count_nonzero(~known)))
        place, accepted = np.arange(step.confidence.shape[1]), step.num_accepted_tokens[:, None]
        counts = place < np.minimum(accepted + 1, step.num_verify_tokens[:, None])
        held = self._histories.add(rows["slot"], pair_keys(step.confidence, place < accepted, counts))
        best, found = best_thresholds(held, self.miss_weight, self.min_pairs)
        rows["threshold"] = np.where(found, best, rows["threshold"])
        self._table.write(step.request_id, rows)
