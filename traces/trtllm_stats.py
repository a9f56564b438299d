"""Importer of TensorRT-LLM iteration statistics (`/metrics` of trtllm-serve, `get_stats()`, `--iteration_log`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lightspec_bench.acceptance import Counts, mean_acceptance_length
from lightspec_bench.acceptance_summary import AcceptanceSummary, Sample
from lightspec_bench.skipped import Malformed, Tally
from lightspec_bench.traces.json_records import records_of, sniffed_record, whole_in
from lightspec_bench.traces.log_lines import check_accepted, summary_of

NAME = "trtllm-stats"
_SPEC = ("specDecodingStats", "spec_decoding_stats")
_DRAFTED = (
    "TensorRT-LLM may fill in drafted tokens from the configured maximum (issue 14724): where drafts are shorter, they "
    "are too many and the rates over them too low"
)


class TrtLlmStats:
    """One sample per iteration that verified a draft; JSON lines, a list, or an object that holds the list.

    Under attention data parallelism each rank repeats rank 0's counts, so only those are read.
    """

    def sniffs(self, path: Path) -> bool:
        first = sniffed_record(path)
        if first is None:
            return False
        return any({"iterLatencyMS", *_SPEC} & set(record) for record in _unpacked(first))

    def summarise(self, path: Path) -> AcceptanceSummary:
        tally, read = Tally(), _Iterations()
        for where, outer in records_of(path, tally):
            for record in _unpacked(outer):
                tally.tried(where, partial(read.take, record))
        return summary_of(path, NAME, "iteration", read.samples, read.notes(), tally.skipped)


class _Iterations:
    """What was read so far, and what was left out of it."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._num_idle = self._num_copies = self._num_other = 0

    def take(self, record: Mapping[str, Any]) -> None:
        if record.get("attentionDpRank") or record.get("rank"):
            self._num_copies += 1
            return
        sample = _sample(record, f"iteration {record.get('iter', len(self.samples))}")
        if sample is None:
            self._num_idle += 1
            return
        self.samples.append(sample)
        self._num_other += _other_length(record, sample.counts)

    def notes(self) -> list[str]:
        left_out = {
            "iterations that verified no draft, left out": self._num_idle,
            "rows of further ranks, which repeat rank 0's counts, left out": self._num_copies,
            "iterations whose acceptanceLength is not 1 + accepted / requests": self._num_other,
        }
        return [_DRAFTED, *(f"{what}: {count}" for what, count in left_out.items() if count)]


def _unpacked(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The iterations in an object: those of its only list, or itself."""
    lists = [value for value in record.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    if len(lists) == 1 and not {"iter", "iterLatencyMS", *_SPEC} & set(record):
        yield from (entry for entry in lists[0] if isinstance(entry, Mapping))
    else:
        yield record


def _spec(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((record[name] for name in _SPEC if isinstance(record.get(name), Mapping)), None)


def _sample(record: Mapping[str, Any], label: str) -> Sample | None:
    """An iteration's counts, None where it verified nothing."""
    if not {"iter", "iterLatencyMS", *_SPEC} & set(record):
        raise Malformed("is of an unknown version", "it is no iteration's statistics")
    spec = _spec(record)
    if spec is None or whole_in(spec, "numDraftTokens") == 0:
        return None
    drafted, accepted, requests = (
        whole_in(spec, name) for name in ("numDraftTokens", "numAcceptedTokens", "numRequestsWithDraftTokens")
    )
    check_accepted(accepted, drafted)
    if not 1 <= requests <= drafted:
        raise Malformed("contradicts itself", f"{requests} requests have {drafted} draft tokens")
    batching = record.get("inflightBatchingStats")
    running = batching.get("numGenRequests") if isinstance(batching, Mapping) else None
    if type(running) is int and running < requests:
        raise Malformed("contradicts itself", f"{requests} of {running} generating requests have draft tokens")
    counts = Counts(
        num_request_steps=running if type(running) is int else None,
        num_spec_steps=requests,
        num_draft_tokens=drafted,
        num_verify_tokens=drafted,
        num_accepted_tokens=accepted,
    )
    return Sample(label, counts)


def _other_length(record: Mapping[str, Any], counts: Counts) -> bool:
    """Whether the logged acceptance length is not that of the counts."""
    spec = _spec(record) or {}
    logged, steps, accepted = spec.get("acceptanceLength"), counts.num_spec_steps, counts.num_accepted_tokens
    if not isinstance(logged, int | float) or steps is None or accepted is None:
        return False
    return not math.isclose(logged, mean_acceptance_length(accepted, steps), abs_tol=1e-3)
