"""Importers against vLLM's own logger and per-request metrics, where vLLM is installed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from lightspec_bench.traces.importer import import_summary

DEPTH = 5


def steps_of_windows() -> list[list[list[tuple[int, int]]]]:
    """20 windows of engine steps of (drafted, accepted); every other window drafts in full."""
    rng = random.Random(1)
    windows = []
    for window in range(20):
        least = DEPTH if window % 2 else 1
        drafts = [[rng.randint(least, DEPTH) for _ in range(rng.randint(1, 8))] for _ in range(rng.randint(1, 60))]
        windows.append([[(k, min(k, int(rng.expovariate(0.5)))) for k in step] for step in drafts])
    return windows


@pytest.mark.vllm
def test_what_vllm_logs_is_read_as_it_was_counted(tmp_path: Path) -> None:
    metrics: Any = pytest.importorskip("vllm.v1.spec_decode.metrics")
    stats: Any = pytest.importorskip("vllm.v1.metrics.stats")
    windows, lines, requests = steps_of_windows(), [], []
    for window in windows:
        log, request = metrics.SpecDecodingLogging(), stats.RequestSpecDecodeMetrics.new(DEPTH)
        for step in window:
            counted = metrics.SpecDecodingStats.new(DEPTH)
            for drafted, accepted in step:
                counted.observe_draft(drafted, accepted)
                request.observe(drafted, accepted, detailed=True)
            log.observe(counted)
        log.log(lambda text, *values: lines.append(text % values))
        requests.append(json.dumps({"metrics": {"speculative_decoding": request.to_dict()}}))
    (tmp_path / "v.log").write_text("\n".join(lines))
    (tmp_path / "r.jsonl").write_text("\n".join(requests))
    logged, asked = import_summary(tmp_path / "v.log"), import_summary(tmp_path / "r.jsonl")
    assert (logged.skipped, asked.skipped) == ((), ())
    for window, sample, request in zip(windows, logged.samples, asked.samples, strict=True):
        drafts = [draft for step in window for draft in step]
        assert sample.counts.num_draft_tokens == request.counts.num_draft_tokens == sum(d for d, _ in drafts)
        assert sample.counts.num_accepted_tokens == request.counts.num_accepted_tokens == sum(a for _, a in drafts)
        least, most = sample.counts.bounds or (0, 0)
        assert least <= len(drafts) <= most
        assert request.counts.num_spec_steps == len(drafts)
