"""LightSpec: verify and draft budgets from calibrated survival and a cost table, by one long-run price."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

import numpy as np

from lightspec_bench.core import (
    Batch,
    Confidence,
    ConfidenceAge,
    EngineConfig,
    FloatArray,
    IntArray,
    Plan,
    Step,
)
from lightspec_bench.planners.lightspec_calibration import Calibration
from lightspec_bench.planners.lightspec_cost import Cost
from lightspec_bench.planners.lightspec_gain import Gain
from lightspec_bench.planners.lightspec_history import History

REFRESH_STEPS = 8
MAX_ROW_CHOICES = 64
BUDGET_MARGIN = 1.02  # a budget is taken for counts where it looks this much better: its gain is an optimist's
PROBE_SHARE = 0.01  # of the time, at most
PROBE_REQUESTS = 16  # one request in so many drafts as deep as it can


class LightSpec:
    """Two stages, one price, no training.

    Lambda is the best long-run rate in sight: the highest (N + gain) / seconds over depths and budgets. Stage 1
    verifies the budget that maximises `gain - lambda * seconds` of what is pending; stage 2 drafts to the depth of
    the best rate. Gains are `Gain`'s (`History`'s without confidences), seconds `Cost`'s.

    The options switch parts off, to see what each earns: confidences at their word, rows valued as if drawn at random
    inside a depth, no probes where nothing is verified, the latency model as it is.
    """

    confidence: ClassVar[ConfidenceAge] = "lagged"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        calibration: bool = True,
        gain_curve: bool = True,
        exploration: bool = True,
        online_cost: bool = True,
    ) -> None:
        depth = config.max_draft_tokens
        self._config, self._explores = config, exploration
        self._depths = np.arange(depth + 1)
        self._calibration, self._gain = Calibration(depth, calibration), Gain(depth, gain_curve)
        self._history = History(depth)
        self._cost = Cost(config, online_cost)
        self._planned_at, self._size = -REFRESH_STEPS, 0
        self._by_level = True
        self._price, self._totals = 0.0, np.zeros(1, dtype=np.int64)
        self._gains, self._verify_s = np.zeros((depth + 1, 1)), np.zeros(1)
        self._depth = depth
        self._rng = np.random.default_rng(config.seed)
        self._credit_s, self._probed = 0.0, 0
        # For which steps all requests had been asked to draft, or which of them.
        self._asked: deque[tuple[int, IntArray | None]] = deque(maxlen=4)
        # A probe at depth 0 drafts a parallel drafter's whole block, for its price, or one token.
        self._look = depth if config.drafter.kind == "parallel" else 1

    def plan(self, batch: Batch) -> Plan:
        number, pending = batch.num_requests, batch.num_draft_tokens
        if not number:
            return Plan(0, num_target_tokens=0)
        level = self._history.levels(batch) if batch.confidence is None else None
        if self._stale(batch):
            self._refresh(batch, level)
        rows = self._rows(number, pending)
        probed, self._probed = self._probed, self._probe(batch)
        if self._depth:  # what is pending can be looked at right away
            probed = self._probed
        depth = self._depth if self._depth or not self._probed else self._some(number, self._probed, self._look)
        self._asked.append((batch.step + 1, None if self._depth else batch.request_id[np.flatnonzero(depth)]))
        if level is None or not self._by_level:
            return Plan(depth, number + min(max(rows, probed), int(pending.sum())))
        verify = self._history.verify(level, pending, rows)
        if probed and not verify.any():
            verify = np.minimum(self._some(number, probed, 2), pending)
        return Plan(depth, num_verify_tokens=verify)

    def observe(self, step: Step) -> None:
        self._cost.observe(step)
        self._credit_s += PROBE_SHARE * step.duration_s
        if step.confidence is None:
            self._history.observe(step)
        else:
            self._gain.observe(self._proposals(step, step.confidence))
            self._calibration.observe(step.confidence, step.num_verify_tokens, step.num_accepted_tokens)

    def _proposals(self, step: Step, confidence: Confidence) -> Confidence:
        """Proposals of those who were asked, empty where a lookup found nothing; newcomers offer no rows either."""
        for index, asked in self._asked:
            if index == step.index:
                return confidence if asked is None else confidence[np.isin(step.request_id, asked)]
        return confidence[~np.isnan(confidence[:, 0])]

    def _rows(self, number: int, pending: IntArray) -> int:
        """Stage 1: draft tokens to verify of what is pending, among the row counts that were priced."""
        depth, most = int(pending.max()), int(pending.sum())
        if not most:
            return 0
        share = most / (self._size * depth)  # of the requests that the curves are for
        offsets = self._totals - number
        gain = share * np.interp(offsets / share, self._totals - self._size, self._gains[depth])
        net = np.where((offsets >= 0) & (offsets <= most), gain - self._price * self._verify_s, -np.inf)
        return int(offsets[net.argmax()])

    def _probe(self, batch: Batch) -> int:
        """How many requests to look at though it does not pay: where nothing is verified nothing would be learnt."""
        full = np.full(batch.num_requests, self._depth)
        if not self._explores or self._rows(batch.num_requests, full) > 0:
            return 0
        number, context = batch.num_requests, int(batch.num_context_tokens.sum())
        requests = max(number // PROBE_REQUESTS, 1)
        latency, kind = self._config.latency, self._config.drafter.kind
        seconds = latency.verify_s(number + 2 * requests, number, context) - latency.verify_s(number, number, context)
        if self._depth == 0 and kind != "ngram":
            seconds = seconds + latency.draft_pass_s(requests * self._look, context)
        if self._credit_s < seconds:
            return 0
        self._credit_s = 0.0
        return requests

    def _some(self, number: int, requests: int, value: int) -> IntArray:
        """(number,): `value` for that many requests drawn at random, 0 for the others."""
        drawn = np.zeros(number, dtype=np.int64)
        drawn[self._rng.choice(number, requests, replace=False)] = value
        return drawn

    def _stale(self, batch: Batch) -> bool:
        moved = abs(batch.num_requests - self._size) > 0.1 * self._size
        return moved or batch.step < 2 * REFRESH_STEPS or batch.step - self._planned_at >= REFRESH_STEPS

    def _refresh(self, batch: Batch, level: IntArray | None) -> None:
        """Both stages for the present batch size."""
        number = batch.num_requests
        self._planned_at, self._size = batch.step, number
        offsets = row_choices(number, number * self._config.max_draft_tokens, self._config.latency.graph_sizes)
        if level is None:
            self._calibration.refresh()
            self._take(batch, offsets, self._gain.curves(self._gain.survivals(self._calibration), number, offsets))
            return
        self._history.refresh()
        self._take(batch, offsets, self._history.curves(level, offsets), self._history.spread(level, offsets))
        self._by_level = True
        if self._take(batch, offsets, self._history.shallow_curves(level, offsets), above=BUDGET_MARGIN * self._price):
            self._by_level = False

    def _take(
        self, batch: Batch, offsets: IntArray, gain: FloatArray, spread: FloatArray | None = None, above: float = 0.0
    ) -> bool:
        """Stage 2 by these gains (D + 1, K), and the price; False, and nothing, where their rate is not above."""
        number, context = batch.num_requests, int(batch.num_context_tokens.sum())
        verify_s, whole_s = self._cost.step_s(number + offsets, number, context, self._depths, spread)
        rate = np.where(offsets <= number * self._depths[:, None], (number + gain) / whole_s, 0.0)
        if float(rate.max()) <= above:
            return False
        self._price = float(rate.max())
        self._totals, self._gains, self._verify_s = number + offsets, gain, verify_s
        # The first depth within a hair of the best is the cheapest to draft; one that costs nothing more teaches.
        self._depth = int(rate.max(axis=1).argmax())
        if self._depth == 0 and whole_s[1, 0] <= whole_s[0, 0]:
            self._depth = 1
        return True


def row_choices(num_requests: int, most: int, graph_sizes: IntArray) -> IntArray:
    """Numbers of draft rows to consider, from 0 to `most`: all of a few, else captured sizes and an even spread."""
    if most < MAX_ROW_CHOICES:
        return np.arange(most + 1)
    captured = graph_sizes[(graph_sizes >= num_requests) & (graph_sizes <= num_requests + most)] - num_requests
    if len(captured) > MAX_ROW_CHOICES:
        captured = captured[np.linspace(0, len(captured) - 1, MAX_ROW_CHOICES).astype(np.int64)]
    spread = np.linspace(0, most, MAX_ROW_CHOICES // 2).astype(np.int64)
    return np.unique(np.concatenate((captured, spread)))
