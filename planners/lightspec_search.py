"""LightLLM's two-stage search over (target rows, depth), with all candidates of a batch size held as arrays.

Rules of LightLLM's `lightspec` branch at 414c39b. Its loops keep the first minimum: depths ascend, rows ascend within
a depth; `argmin` over arrays in that order decides the same, and each price is computed by the same operations in the
same order, so ties fall the same way to the last bit.
"""

from __future__ import annotations

import numpy as np

from lightspec_bench.core import FloatArray, IntArray
from lightspec_bench.planners.lightspec_statistics import Statistics, levels, prefix_progress
from lightspec_bench.planners.lightspec_tables import CostTable, Mode, allowed_depths, draft_cost


class Prices:
    """Prices of configurations: cost per committed token, from the tables and the statistics."""

    def __init__(self, mode: Mode, max_draft_tokens: int, target: CostTable, draft: CostTable) -> None:
        self.mode, self.max_draft_tokens = mode, max_draft_tokens
        self.target, self.draft = target, draft
        self.depths = allowed_depths(mode, max_draft_tokens)
        self.statistics = Statistics(max_draft_tokens)

    def cost(self, num_requests: int, rows: IntArray, depth: IntArray) -> FloatArray:
        """Cost of one step, repeated for ever; like `rows`."""
        block = self.max_draft_tokens
        return self.target.estimate(rows) + draft_cost(self.mode, self.draft, num_requests, rows, depth, block)

    def progress(self, num_requests: int, rows: int, depth: int) -> float:
        """Committed tokens per target row: the average of that very configuration, else the prefix estimate."""
        known = self.statistics.progress.get(num_requests, {}).get((rows, depth))
        if known is not None:
            return known.value
        b, d = np.array([rows]), np.array([depth])
        return float(prefix_progress(self.statistics.survival, num_requests, b, *levels(num_requests, b, d))[0])

    def price(self, num_requests: int, rows: int, depth: int) -> float:
        """Cost per committed token; tokens are kept between one per request and all of the draft."""
        tokens = rows * self.progress(num_requests, rows, depth)
        tokens = max(num_requests, min(tokens, num_requests * (depth + 1)))
        return float(self.cost(num_requests, np.array(rows), np.array(depth))) / tokens


class Candidates:
    """Every (rows, depth) the next step of N requests may repeat, in the order of the reference's loops, priced.

    `rows`, `cost` and the price are (M,). Prices are kept between steps: a progress sample changes one of them, a
    survival sample all that have no progress of their own.
    """

    def __init__(self, num_requests: int, prices: Prices) -> None:
        keys = [prices.target.keys_between(num_requests, num_requests * (d + 1)) for d in prices.depths]
        ends = np.cumsum([len(k) for k in keys])
        self.num_requests, self.prices = num_requests, prices
        self.slices = {d: slice(end - len(k), end) for d, k, end in zip(prices.depths, keys, ends, strict=True)}
        self.ends = ends
        self.rows = np.concatenate(keys)
        self.depth = np.repeat(np.array(prices.depths), [len(k) for k in keys])
        self.most = num_requests * (self.depth + 1)
        self.cost = prices.cost(num_requests, self.rows, self.depth)
        self.whole, self.rest = levels(num_requests, self.rows, self.depth)
        self.known = np.full(len(self.rows), np.nan)
        for (rows, depth), average in prices.statistics.progress.get(num_requests, {}).items():
            self._know(rows, depth, average.value)
        self.price: FloatArray = np.empty(0)
        self.num_survival_updates = -1

    def _know(self, rows: int, depth: int, progress: float) -> int | None:
        """Keep the progress of a candidate; its index, or None for a configuration that is no candidate."""
        within = self.slices[depth]
        at = int(within.start + np.searchsorted(self.rows[within], rows))
        if at == within.stop or self.rows[at] != rows:
            return None
        self.known[at] = progress
        return at

    def update(self, rows: int, depth: int, progress: float) -> None:
        """Take in a new progress average of one configuration."""
        at = self._know(rows, depth, progress)
        if at is not None and self.num_survival_updates == self.prices.statistics.num_survival_updates:
            tokens = max(self.num_requests, min(rows * progress, int(self.most[at])))
            self.price[at] = self.cost[at] / tokens

    def refresh(self) -> None:
        """Price all candidates anew where the survival has changed."""
        statistics = self.prices.statistics
        if self.num_survival_updates == statistics.num_survival_updates:
            return
        unknown = prefix_progress(statistics.survival, self.num_requests, self.rows, self.whole, self.rest)
        progress = np.where(np.isnan(self.known), unknown, self.known)
        tokens = np.maximum(self.num_requests, np.minimum(self.rows * progress, self.most))
        self.price = self.cost / tokens
        self.num_survival_updates = statistics.num_survival_updates

    def best_rows(self, depth: int, most: int) -> int:
        """Stage 1: the cheapest rows for proposals of `depth`, from N to `most`; the fewest of equals."""
        within = self.slices[depth]
        inside = within.start + int(np.searchsorted(self.rows[within], most, side="right"))
        best = within.start + int(self.price[within.start : inside].argmin())
        rows, price = int(self.rows[best]), float(self.price[best])
        if self.rows[inside - 1] == most or self.prices.price(self.num_requests, most, depth) >= price:
            return rows
        return most

    def best_depth(self) -> int:
        """Stage 2: the depth of the cheapest candidate; the shallowest of equals."""
        return int(self.depth[self.price.argmin()])
