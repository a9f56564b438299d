"""Small records that tests share: traces written by hand, random ones, and a latency model with round prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from lightspec_bench.core import (
    Drafter,
    DrafterKind,
    EngineConfig,
    FloatArray,
    IntArray,
    LatencyModel,
    Number,
    Trace,
    TraceInfo,
)


@dataclass(frozen=True, slots=True)
class RoundLatency:
    """Verify: 10 s a step and 1 s a row. Draft: 2 s a pass and 0.1 s a row. Host: 0.5 s, 0.25 s more with a drafter."""

    name: str = "round"
    origin: str = "modelled"
    source: str = "written for a test"

    @property
    def graph_sizes(self) -> IntArray:
        return np.zeros(0, dtype=np.int64)

    def verify_s(self, num_target_tokens: Number, num_requests: Number, num_context_tokens: Number) -> FloatArray:
        return np.asarray(10.0 + 1.0 * np.asarray(num_target_tokens))

    def draft_pass_s(self, num_rows: Number, num_context_tokens: Number) -> FloatArray:
        return np.asarray(2.0 + 0.1 * np.asarray(num_rows))

    def host_s(self, num_requests: Number, speculating: bool) -> FloatArray:
        return np.asarray(0.75 if speculating else 0.5)


def hand_trace(
    num_accepted: Sequence[Sequence[int]],
    max_draft_tokens: int = 3,
    *,
    kind: DrafterKind = "autoregressive",
    num_prompt_tokens: int = 10,
    arrival_s: Sequence[float] | None = None,
) -> Trace:
    """A trace of one list per request, an entry per output position, entry 0 the placeholder."""
    lengths = np.array([len(entries) for entries in num_accepted], dtype=np.int64)
    info = TraceInfo(
        name="hand",
        target="target",
        drafter="drafter",
        drafter_kind=kind,
        max_draft_tokens=max_draft_tokens,
        dataset="none",
        sampling="greedy",
        indexing="position",
        origin="recorded",
        made_by="hand",
        licence="Apache-2.0",
    )
    count = len(lengths)
    return Trace(
        info=info,
        request_id=np.array([f"r{i}" for i in range(count)]),
        category=np.array(["hand"] * count),
        arrival_s=np.zeros(count) if arrival_s is None else np.array(arrival_s, dtype=np.float64),
        num_prompt_tokens=np.full(count, num_prompt_tokens, dtype=np.int64),
        num_output_tokens=lengths,
        repeats_from=lengths.copy(),
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        num_accepted=np.array([a for entries in num_accepted for a in entries], dtype=np.int16),
    )


def random_trace(
    seed: int,
    num_requests: int = 6,
    longest: int = 20,
    max_draft_tokens: int = 3,
    *,
    kind: DrafterKind = "autoregressive",
    confidences: bool = True,
    short_proposals: bool = False,
) -> Trace:
    """A valid trace of random outcomes; confidences are random too, so that nothing follows from them."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, size=num_requests)
    outcomes = []
    for length in lengths:
        left = length - 1 - np.arange(length)
        outcomes.append(np.minimum(rng.integers(0, max_draft_tokens + 1, size=length), left))
    trace = hand_trace([list(o) for o in outcomes], max_draft_tokens, kind=kind)
    shape = (trace.num_positions, max_draft_tokens)
    if short_proposals:
        proposed = rng.integers(0, max_draft_tokens + 1, size=shape[0]).astype(np.int16)
        trace = replace(trace, num_draft_tokens=proposed, num_accepted=np.minimum(trace.num_accepted, proposed))
    if confidences:
        trace = replace(
            trace,
            confidence=rng.random(shape, dtype=np.float32),
            entropy=rng.random(shape, dtype=np.float32),
        )
    return trace


def config_for(
    trace: Trace, max_num_seqs: int, lag_steps: int = 0, latency: LatencyModel | None = None
) -> EngineConfig:
    """The engine that the trace's drafter runs in."""
    drafter = Drafter(trace.info.drafter_kind, trace.max_draft_tokens)
    return EngineConfig(drafter, latency or RoundLatency(), max_num_seqs, lag_steps)


def outcome(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command."""
    from lightspec_bench.cli import main

    with pytest.raises(SystemExit) as ended:
        main(list(argv))
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err
