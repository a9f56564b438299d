"""LightSpec as LightLLM runs it: a two-stage search from capture-time costs and acceptance statistics."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from lightspec_bench.core import Batch, BenchError, ConfidenceAge, EngineConfig, IntArray, Plan, Step
from lightspec_bench.planners.lightspec_search import Candidates, Prices
from lightspec_bench.planners.lightspec_tables import (
    MODE_OF_KIND,
    CaptureOptions,
    CostTable,
    Mode,
    cost_tables,
)

MOST_BATCH_SIZES = 128  # whose candidates are kept, about 0.2 MB each at D = 11


@dataclass(frozen=True, slots=True)
class Decision:
    """One plan of the rules: rows to verify, depth of the proposals verified now (`previous_depth`) and drafted next.

    `all_ready`: every request has a proposal; statistics of the step count only then.
    """

    num_target_tokens: int
    previous_depth: int
    next_depth: int
    all_ready: bool


def align_depths(depths: Sequence[int]) -> int:
    """Data-parallel ranks draft to the deepest depth any of them chose (an all-reduce MAX)."""
    return max(depths)


class LightSpec:
    """The rules, free of engine records. Costs are in any unit; `depth` is that of the pending proposals.

    The depth starts at D and becomes the chosen one as soon as it is planned: one number for all requests.
    Raises `BenchError` for mode "dspark", which has a planner of its own.
    """

    def __init__(self, mode: Mode, max_draft_tokens: int, target: CostTable, draft: CostTable) -> None:
        if mode == "dspark":
            raise BenchError("lightspec-reference: mode is 'dspark', expected another mode (planner dspark serves it)")
        self.prices = Prices(mode, max_draft_tokens, target, draft)
        self.statistics = self.prices.statistics
        self.depth = self.max_draft_tokens = max_draft_tokens
        self._candidates: dict[int, Candidates] = {}

    def plan(self, num_requests: int, num_ready: int, origin: int, peer_depths: Sequence[int] = ()) -> Decision:
        """Decide for N requests of which `num_ready` have a proposal; `origin` bounds the rows.

        `peer_depths` are the next depths that other data-parallel ranks chose.
        """
        previous, most = self.depth, min(origin, num_requests + num_ready * self.depth)
        if num_requests == 0:
            rows, chosen = origin, self.prices.depths[0]
        elif not self.statistics.progress:
            rows, chosen = most, self.max_draft_tokens
        else:
            candidates = self.candidates(num_requests)
            candidates.refresh()
            rows, chosen = candidates.best_rows(previous, most), candidates.best_depth()
        self.depth = align_depths((chosen, *peer_depths))
        return Decision(rows, previous, self.depth, num_ready == num_requests)

    def candidates(self, num_requests: int) -> Candidates:
        """The candidates of a batch size, built when it first occurs."""
        found = self._candidates.get(num_requests)
        if found is None:
            if len(self._candidates) == MOST_BATCH_SIZES:
                self._candidates.pop(next(iter(self._candidates)))
            found = self._candidates[num_requests] = Candidates(num_requests, self.prices)
        return found

    def update(self, rows: int, depth: int, accept_lengths: IntArray, full_width: bool | None = None) -> None:
        """Learn from a step of which every request had a proposal; `accept_lengths` (N,) count the target's token.

        `full_width`: all proposals were verified whole; when not given, whether `rows` is N (depth + 1).
        """
        num_requests = len(accept_lengths)
        progress = self.statistics.add_progress(num_requests, rows, depth, int(accept_lengths.sum()))
        if num_requests in self._candidates:
            self._candidates[num_requests].update(rows, depth, progress)
        whole = rows == num_requests * (depth + 1) if full_width is None else full_width
        if whole and depth > 0:
            self.statistics.add_survival(depth, accept_lengths)


class LightSpecReference:
    """LightSpec's published rules to the letter, with their weak spots, as the planner of a step.

    `mode` is LightLLM's `--mtp_mode`; "auto" takes it from the drafter's kind: autoregressive -> eagle3 (depths 1 to
    D), autoregressive_no_attention -> eagle_no_att (0 to D), parallel -> dflash (only D), ngram -> eagle_no_att with
    drafting for free. The `graph_*` options are LightLLM's flags and fix the sizes its cost tables know.

    Age of what it reads: outcomes of observed steps (under lag 1 up to two steps before the plan), no confidences.
    A request has a proposal when draft tokens are pending; with an n-gram drafter, which may find none, when it is
    past its first decode step. Where proposals are shorter than planned, the budget ends at what is pending, and
    verifying all of it counts as full width: a token never proposed is one never accepted.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        mode: Literal[
            "auto", "eagle3", "eagle_with_att", "eagle_no_att", "vanilla_with_att", "vanilla_no_att", "dflash"
        ] = "auto",
        graph_max_batch_size: int = 256,
        graph_split_batch_size: int = 32,
        graph_grow_step_size: int = 16,
    ) -> None:
        capture = CaptureOptions(graph_max_batch_size, graph_split_batch_size, graph_grow_step_size)
        chosen = MODE_OF_KIND[config.drafter.kind] if mode == "auto" else mode
        self.rules = LightSpec(chosen, config.max_draft_tokens, *cost_tables(config, chosen, capture))
        self._may_propose_nothing = config.drafter.kind == "ngram"
        self._planned: deque[tuple[int, Decision]] = deque(maxlen=8)  # a lag of 1 needs 2

    def plan(self, batch: Batch) -> Plan:
        pending = batch.num_draft_tokens
        ready = batch.num_output_tokens > 1 if self._may_propose_nothing else pending
        origin = batch.num_requests + int(pending.sum())
        decision = self.rules.plan(batch.num_requests, int(np.count_nonzero(ready)), origin)
        self._planned.append((batch.step, decision))
        return Plan(decision.next_depth, decision.num_target_tokens)

    def observe(self, step: Step) -> None:
        while self._planned and self._planned[0][0] < step.index:
            self._planned.popleft()
        if not self._planned or self._planned[0][0] != step.index:
            return
        _, decision = self._planned.popleft()
        mixed = not (decision.all_ready and (self._may_propose_nothing or step.num_draft_tokens.all()))
        if mixed or step.num_requests == 0:
            return
        verified, drafted = int(step.num_verify_tokens.sum()), int(step.num_draft_tokens.sum())
        rows = step.num_requests + verified
        self.rules.update(rows, decision.previous_depth, step.num_accepted_tokens + 1, verified == drafted)
