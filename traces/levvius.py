"""Importer of the state logs of levvius/adaptive-speculative-decoding (Qwen2.5-14B with a 0.5B drafter, GSM8K)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightspec_bench.core import BenchError, IntArray, Trace
from lightspec_bench.traces.importer import Recorded, build_trace, complete_info

if TYPE_CHECKING:
    import pandas as pd

_PARQUET = ("trace_idx", "rollout_step", "action_length", "threshold", "accepted", "H", "K", "next_H", "next_K")
_CSV = ("trace_idx", "rollout_step", "draft_entropy_H", "KL_q_p", "accepted")


class Levvius:
    """One draft token per visited state: entropy of its distribution and whether exact verification accepts it.

    State s of a rollout has s tokens out and is position s here, one state per token. Only the action "continue at
    threshold 1.0", which is exact speculative sampling, is read; the others are relaxed verification. Its outcome at
    s is followed by the outcome at s + 1 only where the rollout really went on with the token it emitted (both
    divergences equal to the last bit), so `num_draft_tokens` is the length of that chain: 1 where the rollout went
    elsewhere. The CSV has no next state, so there every chain is 1. A rollout of S states becomes a request of S + 1
    tokens: the last one is the bonus of the last recorded verification. Prompts were not logged: 0 tokens.
    """

    def sniffs(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                start = file.read(4096)
            if start.startswith(b"PAR1"):
                import pyarrow.parquet as pq

                return set(_PARQUET) <= set(pq.read_schema(path).names)
            return set(_CSV) <= set(start.split(b"\n", 1)[0].decode(errors="replace").strip().split(","))
        except (OSError, ValueError):
            return False

    def read(self, path: Path, given: Mapping[str, Any]) -> Trace:
        states = _states(path)
        rollouts = [group for _, group in states.groupby("trace_idx", sort=True)]
        known = [_known(group) for group in rollouts]
        depth = max((int(k.max()) for k in known), default=1)
        found = {
            "target": "Qwen2.5-14B-Instruct",
            "drafter": "Qwen2.5-0.5B-Instruct",
            "drafter_kind": "autoregressive",
            "max_draft_tokens": depth,
            "dataset": "gsm8k",
            "sampling": "exact speculative sampling",
            "indexing": "step",
            "made_by": f"levvius/adaptive-speculative-decoding {path.name}, imported by lightspec-bench",
            "licence": "MIT",
        }
        info = complete_info(found, given, path)
        pairs = zip(rollouts, known, strict=True)
        return build_trace(info, [_request(group, k, info.max_draft_tokens) for group, k in pairs], path)


def _states(path: Path) -> pd.DataFrame:
    """Exact-verification rows in order: trace_idx, rollout_step, accepted, H, and `joined`: s + 1 follows s's token."""
    import pandas as pd

    try:
        with path.open("rb") as file:
            is_parquet = file.read(4) == b"PAR1"
        table = pd.read_parquet(path) if is_parquet else pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} is neither a Parquet file nor a CSV file ({str(error).splitlines()[0]})") from None
    for name in _PARQUET if is_parquet else _CSV:
        if name not in table.columns:
            raise BenchError(f"{path}: column {name} is missing")
    if is_parquet:
        table = table[(table["action_length"] == "continue") & (table["threshold"] == 1.0)]
    else:
        table = table.rename(columns={"draft_entropy_H": "H", "KL_q_p": "K"}).assign(next_H=np.nan, next_K=np.nan)
    table = table.sort_values(["trace_idx", "rollout_step"], ignore_index=True)
    expected = table.groupby("trace_idx").cumcount()
    if table.empty or not table["rollout_step"].eq(expected).all() or not table["accepted"].isin([0, 1]).all():
        raise BenchError(f"{path} has no rollouts of exact verification with steps 0, 1, 2, ... and accepted 0 or 1")
    after = table.shift(-1)
    joined = (table["next_H"] == after["H"]) & (table["next_K"] == after["K"])
    return table.assign(joined=joined & (table["trace_idx"] == after["trace_idx"]))


def _known(group: pd.DataFrame) -> IntArray:
    """Draft tokens whose outcome is known at each state: on while the state before was joined."""
    known = np.ones(len(group), np.int64)
    joined = group["joined"].to_numpy()
    for state in range(len(group) - 2, -1, -1):  # ten states
        if joined[state]:
            known[state] += known[state + 1]
    return known


def _request(group: pd.DataFrame, known: IntArray, depth: int) -> Recorded:
    hits, entropy = group["accepted"].to_numpy(), group["H"].to_numpy()
    states = len(group)
    accepted, drafted = np.zeros(states + 1, np.int64), np.zeros(states + 1, np.int64)
    signals = np.full((states + 1, depth), np.nan, np.float32)
    drafted[:states] = np.minimum(known, depth)
    for state in range(1, states):
        count = int(drafted[state])
        signals[state, :count] = entropy[state : state + count]
        accepted[state] = int(np.cumprod(hits[state : state + count]).sum())
    drafted[0] = 0
    name = f"rollout-{int(group['trace_idx'].iloc[0])}"
    return Recorded(name, "gsm8k", 0, accepted, num_draft_tokens=drafted, entropy=signals)
