"""AdaServe for chains: first what each request needs to keep its time per token, then the likeliest of the rest."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, FloatArray, IntArray, Plan, Step
from lightspec_bench.drafting import draft_s
from lightspec_bench.fill import fill, prefix_survival
from lightspec_bench.planners.option_checks import expect
from lightspec_bench.planners.request_table import RequestTable
from lightspec_bench.planners.verify_budget import pending_slots, shown_confidence

NAME = "adaserve"


class AdaServe:
    """Verifies a fixed budget of rows in two phases, over chains instead of trees.

    Every request needs A = (l + t) / tpot - o tokens from this step to be on time: l seconds since it was first seen,
    o tokens since then, t the price of the step, `tpot_ms` the bound on time per output token (one for all requests: a
    trace has no objectives). Its own row gives one of at most d + 1. First, requests in falling order of A take draft
    tokens from the front of their drafts until 1 + survival summed reaches A, or `n_max` tokens, or the budget is
    spent. Then what is left of it goes to the highest survivals of the batch.

    `budget` are the rows of a step. Left out, it is the most rows whose verification costs at most `slack` times that
    of one row, at 1024 context tokens and at least one row per request: the paper profiles its budget, this rule is
    ours. The next depth is d = floor(`draft_budget` / (N + `c1`)) - 1 within `d_min` and `d_max` (D).

    Source: AdaServe (arXiv 2501.12162, EuroSys version), sections on selection and on adaptive depth. Chains have
    width 1, so its tree width is left out. Not checked: the published values of `n_max` (no limit here), `c1`, `d_min`
    and of the two budgets, and the order of the first phase. Selection needs the pending proposals' confidences.
    Raises `BenchError` for options out of range.
    """

    confidence: ClassVar[ConfidenceAge] = "current"
    requires: ClassVar[frozenset[str]] = frozenset({"confidence"})
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        tpot_ms: float = 50.0,
        budget: int | None = None,
        slack: float = 1.5,
        draft_budget: int | None = None,
        n_max: int | None = None,
        d_min: int = 1,
        d_max: int | None = None,
        c1: int = 0,
    ) -> None:
        depth = config.max_draft_tokens
        expect(0.0 < tpot_ms < np.inf, NAME, "tpot_ms", tpot_ms, "above 0")
        expect(1.0 <= slack < np.inf, NAME, "slack", slack, "at least 1")
        for option, value in (("budget", budget), ("draft_budget", draft_budget), ("n_max", n_max)):
            expect(value is None or value >= 1, NAME, option, value, "at least 1")
        expect(c1 >= 0, NAME, "c1", c1, "at least 0")
        expect(d_min >= 0, NAME, "d_min", d_min, "at least 0")
        self.d_max = depth if d_max is None else min(d_max, depth)
        self.d_min = min(d_min, depth)
        expect(self.d_max >= self.d_min, NAME, "d_max", d_max, f"at least d_min ({self.d_min})")
        self.config, self.tpot_s, self.c1 = config, tpot_ms / 1e3, c1
        self.n_max = depth if n_max is None else min(n_max, depth)
        self.budget = knee(config, slack) if budget is None else budget
        self.draft_budget = self.budget if draft_budget is None else draft_budget
        self.first_seen = RequestTable(now_s=0.0, num_output_tokens=0)

    def plan(self, batch: Batch) -> Plan:
        number, pending = batch.num_requests, batch.num_draft_tokens.copy()  # Fill may return it
        survival = prefix_survival(shown_confidence(batch, NAME)).astype(np.float64)
        spare = min(max(self.budget - number, 0), int(pending.sum()))
        depth = int(np.clip(self.draft_budget // max(number + self.c1, 1) - 1, self.d_min, self.d_max))
        if not number:
            return Plan(depth, num_verify_tokens=np.zeros(0, dtype=np.int64))
        needed = self.needed_tokens(batch, number + spare)
        first = first_phase(needed, survival, pending, spare, self.n_max)
        chosen = np.arange(survival.shape[1]) < first[:, None]
        return Plan(depth, num_verify_tokens=fill(np.where(chosen, 2.0, survival), pending, number + spare))

    def needed_tokens(self, batch: Batch, rows: int) -> FloatArray:
        """A of each request, (N,), when the step has that many rows; remembers who is there."""
        seen, known = self.first_seen.read(batch.request_id)
        seen["now_s"][~known] = batch.now_s
        seen["num_output_tokens"][~known] = batch.num_output_tokens[~known]
        self.first_seen.write(batch.request_id, seen)
        elapsed_s = batch.now_s - seen["now_s"] + self.step_s(batch, rows)
        return np.asarray(elapsed_s / self.tpot_s - (batch.num_output_tokens - seen["num_output_tokens"]))

    def step_s(self, batch: Batch, rows: int) -> float:
        """Seconds of the step that is being planned, at the deepest draft."""
        latency, number, context = self.config.latency, batch.num_requests, int(batch.num_context_tokens.sum())
        drafting = draft_s(latency, self.config.drafter, rows, number, self.d_max, context)
        return float(latency.verify_s(rows, number, context) + drafting + latency.host_s(number, True))

    def observe(self, step: Step) -> None:
        pass


def first_phase(needed: FloatArray, survival: FloatArray, pending: IntArray, spare: int, n_max: int) -> IntArray:
    """Draft tokens per request, (N,), that the needs take of `spare`, in falling order of need."""
    depth = survival.shape[1]
    most = np.minimum(pending, n_max)
    target = np.minimum(needed, pending + 1.0)
    reached = 1.0 + np.cumsum(np.where(pending_slots(pending, depth), survival, 0.0), axis=1)
    before = np.concatenate((np.ones((len(pending), 1)), reached[:, :-1]), axis=1)
    wanted = np.minimum(np.count_nonzero(before < target[:, None], axis=1), most)
    order = np.argsort(-needed, kind="stable")
    taken = np.zeros_like(pending)
    spent = np.cumsum(wanted[order]) - wanted[order]
    taken[order] = np.clip(spare - spent, 0, wanted[order])
    return taken


def knee(config: EngineConfig, slack: float) -> int:
    """The most rows whose verification costs at most `slack` times that of one row."""
    rows = np.arange(1, config.max_num_seqs * (config.max_draft_tokens + 1) + 1)
    seconds = config.latency.verify_s(rows, np.minimum(rows, config.max_num_seqs), 1024)
    within = np.flatnonzero(seconds <= slack * seconds[0])
    return int(rows[within[-1]])
