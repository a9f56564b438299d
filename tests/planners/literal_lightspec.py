"""The LightSpec rules spelled out in plain Python loops: slow, and what the vectorised planner must agree with."""

from __future__ import annotations

from bisect import bisect_left


class LiteralLightSpec:
    """Modes eagle3, eagle_no_att and dflash; tables are `{batch size: cost}`; block size is D."""

    def __init__(self, mode: str, max_draft_tokens: int, target: dict[int, float], draft: dict[int, float]) -> None:
        self.mode, self.most, self.target, self.draft = mode, max_draft_tokens, target, draft
        self.target_keys, self.draft_keys = sorted(target), sorted(draft)
        self.depth = max_draft_tokens
        self.progress: dict[tuple[int, int, int], float] = {}
        self.survival: dict[int, float] = {}

    def depths(self) -> list[int]:
        first = {"eagle3": 1, "eagle_no_att": 0, "dflash": self.most}[self.mode]
        return list(range(first, self.most + 1))

    def estimate(self, table: dict[int, float], keys: list[int], rows: int) -> float:
        if rows > keys[-1]:
            return table[keys[-1]] * rows / keys[-1]
        return table[keys[bisect_left(keys, rows)]]

    def draft_cost(self, n: int, b: int, d: int) -> float:
        if self.mode == "eagle_no_att":
            return d * self.estimate(self.draft, self.draft_keys, n)
        if self.mode == "dflash":
            return self.estimate(self.draft, self.draft_keys, b) + self.estimate(
                self.draft, self.draft_keys, n * self.most
            )
        return self.estimate(self.draft, self.draft_keys, b) + (d - 1) * self.estimate(self.draft, self.draft_keys, n)

    def rho(self, n: int, b: int, d: int) -> float:
        if (n, b, d) in self.progress:
            return self.progress[n, b, d]
        if not self.survival:
            return 1.0
        gained, left = 0.0, b - n
        for j in range(1, d + 1):
            taken = min(n, left)
            if taken == 0:
                break
            gained += taken * self.survival.get(j, 1.0)
            left -= taken
        return (n + gained) / b

    def price(self, n: int, b: int, d: int) -> float:
        tokens = max(n, min(b * self.rho(n, b, d), n * (d + 1)))
        return (self.estimate(self.target, self.target_keys, b) + self.draft_cost(n, b, d)) / tokens

    def candidates(self, low: int, high: int) -> list[int]:
        return sorted({low, high, *(key for key in self.target_keys if low <= key <= high)})

    def plan(self, n: int, ready: int, origin: int) -> tuple[int, int, int]:
        """(rows, depth verified now, depth drafted next)."""
        previous = self.depth
        if n == 0:
            self.depth = self.depths()[0]
            return origin, previous, self.depth
        most = min(origin, n + ready * previous)
        if not self.progress:
            self.depth = self.most
            return most, previous, self.depth
        rows, lowest = most, float("inf")
        for b in self.candidates(n, most):
            price = self.price(n, b, previous)
            if price < lowest:
                rows, lowest = b, price
        lowest = float("inf")
        for d in self.depths():
            for b in self.candidates(n, n * (d + 1)):
                price = self.price(n, b, d)
                if price < lowest:
                    self.depth, lowest = d, price
        return rows, previous, self.depth

    def update(self, n: int, b: int, d: int, accept_lengths: list[int]) -> None:
        """A step of which all requests had a proposal; accept lengths count the target's token."""
        sample = sum(accept_lengths) / b
        old = self.progress.get((n, b, d))
        self.progress[n, b, d] = sample if old is None else 0.9 * old + 0.1 * sample
        if b != n * (d + 1):
            return
        for j in range(1, d + 1):
            share = sum(a > j for a in accept_lengths) / n
            self.survival[j] = share if j not in self.survival else 0.9 * self.survival[j] + 0.1 * share
