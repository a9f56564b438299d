"""llama.cpp's draft-mtp-adaptive: a request's draft depth climbs after full accepts and drops under missed tokens."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from lightspec_bench.core import Batch, ConfidenceAge, EngineConfig, IntArray, Plan, Step
from lightspec_bench.planners.batch_depth import verify_all
from lightspec_bench.planners.option_checks import expect, is_whole
from lightspec_bench.planners.request_table import RequestTable, Rows

NAME = "llamacpp-mtp-adaptive"
CLIMB = {"counters": [2, 4, 6, 5, 4, 3, 2], "bucket": [2, 5, 10, 5, 4, 3, 2]}


class LlamaCppMtpAdaptive:
    """Per request, a depth that starts at its floor, `n_min_adaptive`, and ends at `n_max`.

    `climb` says, for depths 1, 2, ..., the last for all deeper ones, how many full accepts it takes to go one deeper;
    a drop takes max(`drop_per_depth` * depth, `drop_floor`) missed tokens.

    `form` "counters": that many full accepts in a row climb, and clear the misses; a step that missed any ends the row
    and, above the floor, adds drafted - accepted to the misses, which drop the depth once they reach the limit and
    then start anew. "bucket": every step adds accepted + 1 - depth to one bucket, which starts, and restarts with every
    change of depth, at the drop limit; at 0 the depth drops, at drop limit plus climb number it climbs. A full accept
    shorter than the depth (a drafter with less to say) adds half of accepted - depth - 1 instead. The bucket is held
    at its ends where the depth cannot move.

    Source: llama.cpp #27210 (open), read from ports that name it and its `common/speculative-adaptive.h`: "counters"
    from one, "bucket" from a later one whose climb numbers are 2, 5, 10, 5, 4, 3, 2. The numbers are empirical and have
    changed with every revision; which of them the pull request has now was not checked. `n_min_adaptive` 3 is its
    flag's default, `n_max` 12 what it suggests; both are cut to D. llama.cpp has one depth per slot, here per request.
    """

    confidence: ClassVar[ConfidenceAge] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(
        self,
        config: EngineConfig,
        form: Literal["counters", "bucket"] = "counters",
        n_max: int = 12,
        n_min_adaptive: int = 3,
        climb: list[int] | None = None,
        drop_per_depth: int = 5,
        drop_floor: int = 20,
    ) -> None:
        most = config.max_draft_tokens
        climb = CLIMB[form] if climb is None else climb
        expect(n_max >= 1, NAME, "n_max", n_max, "at least 1")
        expect(n_min_adaptive >= 1, NAME, "n_min_adaptive", n_min_adaptive, "at least 1")
        ok = bool(climb) and all(is_whole(value) and value >= 1 for value in climb)
        expect(ok, NAME, "climb", climb, "a list of whole numbers from 1 up")
        expect(drop_per_depth >= 0, NAME, "drop_per_depth", drop_per_depth, "at least 0")
        expect(drop_floor >= 1, NAME, "drop_floor", drop_floor, "at least 1")
        self.form, self.cap = form, min(n_max, most)
        self.floor = min(n_min_adaptive, self.cap)
        depth = np.arange(self.cap + 1)
        self._climb: IntArray = np.array(climb, dtype=np.int64)[np.clip(depth - 1, 0, len(climb) - 1)]
        self._drop: IntArray = np.maximum(drop_per_depth * depth, drop_floor)
        bucket = int(self._drop[self.floor]) if form == "bucket" else 0
        self._requests = RequestTable(depth=self.floor, accepts=0, pressure=bucket)

    def plan(self, batch: Batch) -> Plan:
        return verify_all(batch, self._requests.read(batch.request_id)[0]["depth"])

    def observe(self, step: Step) -> None:
        rows, _ = self._requests.read(step.request_id)
        self.move(rows, step.num_verify_tokens, step.num_accepted_tokens)
        self._requests.write(step.request_id, rows)

    def move(self, rows: Rows, drafted: IntArray, accepted: IntArray) -> None:
        """Take one verification of each request, all (N,); those that drafted nothing stay as they are."""
        change = self._counters if self.form == "counters" else self._bucket
        moved = change(rows["depth"], rows["accepts"], rows["pressure"], drafted, accepted)
        for name, new in zip(("depth", "accepts", "pressure"), moved, strict=True):
            rows[name] = np.where(drafted > 0, new, rows[name])

    def _counters(
        self, depth: IntArray, accepts: IntArray, pressure: IntArray, drafted: IntArray, accepted: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        full = accepted == drafted
        accepts = np.where(full, accepts + (depth < self.cap), 0)
        climbs = full & (depth < self.cap) & (accepts >= self._climb[depth])
        misses = np.where(depth > self.floor, pressure + drafted - accepted, pressure)
        drops = ~full & (depth > self.floor) & (misses >= self._drop[depth])
        return (
            depth + climbs.astype(np.int64) - drops,
            np.where(climbs, 0, accepts),
            np.where(full | drops, 0, misses),
        )

    def _bucket(
        self, depth: IntArray, accepts: IntArray, pressure: IntArray, drafted: IntArray, accepted: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        short = (accepted == drafted) & (drafted < depth)
        # The source divides towards zero; what is halved is never positive.
        change = np.where(short, -((depth + 1 - accepted) // 2), accepted + 1 - depth)
        bucket, top = pressure + change, self._drop[depth] + self._climb[depth]
        climbs, drops = (bucket >= top) & (depth < self.cap), (bucket <= 0) & (depth > self.floor)
        moved = depth + climbs.astype(np.int64) - drops
        return moved, accepts, np.where(climbs | drops, self._drop[moved], np.clip(bucket, 0, top))
