"""Importer of vLLM's per-request acceptance metrics: responses with `metrics.speculative_decoding`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.acceptance import Counts, from_steps, pooled
from lightspec_bench.acceptance_summary import AcceptanceSummary, Sample
from lightspec_bench.core import BenchError, Trace
from lightspec_bench.skipped import Malformed, Tally, sentence
from lightspec_bench.traces.importer import Recorded, build_trace, complete_info
from lightspec_bench.traces.json_records import counts_in, records_of, sniffed_record, whole_in
from lightspec_bench.traces.log_lines import check_accepted, summary_of
from lightspec_bench.traces.steps import positions_from_steps

NAME = "vllm-requests"
_STEPS = ("per_step_accepted", "per_step_drafted")
_SPEC_ONLY = "vLLM counts steps that verified a draft; steps without one are in no figure here"


@dataclass(frozen=True, slots=True)
class _Request:
    """One response: its counts, and its steps where the level was `detailed`."""

    label: str
    counts: Counts
    depth: int
    steps: tuple[list[int], list[int]] | None  # drafted, accepted
    num_prompt_tokens: int | None
    num_output_tokens: int | None


class VllmRequests:
    """JSON or JSON lines of responses, of their `metrics`, or of the bare objects (vLLM's `summary` and `detailed`).

    `detailed` has the steps, so a step-indexed trace can be made: it holds what the engine visited, censored at what
    was verified there. Steps without a draft are not logged; a request that had some gets no tokens for them. Without
    `usage` a prompt has 0 tokens.
    """

    def sniffs(self, path: Path) -> bool:
        first = sniffed_record(path)
        return first is not None and _metrics(first) is not None

    def summarise(self, path: Path) -> AcceptanceSummary:
        tally = Tally()
        samples = [Sample(request.label, request.counts) for request in _requests(path, tally)]
        idle = sum(sample.counts.num_spec_steps == 0 for sample in samples)
        notes = [_SPEC_ONLY]
        notes += [f"requests that drafted nothing, without a rate of their own: {idle}"] if idle else []
        return summary_of(path, NAME, "request", samples, notes, tally.skipped)

    def read(self, path: Path, given: Mapping[str, Any]) -> Trace:
        tally = Tally()
        requests = list(_requests(path, tally))
        detailed = [(r, r.steps) for r in requests if r.steps is not None]
        if not detailed:
            why = sentence(tally.skipped) or "the level was summary"
            raise BenchError(f"{path}: no request has per_step_accepted and per_step_drafted, so no trace: {why}")
        left_out = len(requests) - len(detailed) + sum(part.count for part in tally.skipped)
        gaps = sum((r.num_output_tokens or 0) > _emitted(*steps) for r, steps in detailed)
        found = {
            "indexing": "step",
            "max_draft_tokens": max(1, *(r.depth for r, _ in detailed)),
            "made_by": f"vLLM per-request metrics in {path.name}, imported by lightspec-bench ({left_out} records left "
            f"out; {gaps} requests had steps without a draft, which are not logged)",
        }
        info = complete_info(found, given, path)
        return build_trace(info, [_recorded(r, *steps) for r, steps in detailed], path)


def _emitted(drafted: list[int], accepted: list[int]) -> int:
    """Output tokens that the steps account for: the first one, from prefill, and accepted + 1 of each step."""
    return 1 + sum(accepted) + len(drafted)


def _recorded(request: _Request, drafted: list[int], accepted: list[int]) -> Recorded:
    verified, taken = np.array(drafted, np.int64), np.array(accepted, np.int64)
    emitted = _emitted(drafted, accepted)
    length = emitted if request.num_output_tokens is None else max(1, min(emitted, request.num_output_tokens))
    positions = positions_from_steps(verified, taken, length)
    return Recorded(
        request_id=request.label,
        category="all",
        num_prompt_tokens=request.num_prompt_tokens or 0,
        num_accepted=positions.num_accepted,
        num_draft_tokens=positions.num_draft_tokens,
    )


def _requests(path: Path, tally: Tally) -> Iterator[_Request]:
    seen: set[str] = set()
    for where, record in records_of(path, tally):
        request = tally.tried(where, partial(_request, record, f"request {len(seen)}"))
        if request is None:
            continue
        if request.label in seen:
            tally.add(where, Malformed("repeats an earlier request", request.label))
            continue
        seen.add(request.label)
        yield request


def _metrics(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The speculative part of a response, of its `metrics`, or itself; a response may lie under `data`."""
    for outer in (record, record.get("data")):
        if not isinstance(outer, Mapping):
            continue
        for holder in (outer.get("metrics"), outer, {"speculative_decoding": outer}):
            found = holder.get("speculative_decoding") if isinstance(holder, Mapping) else None
            if isinstance(found, Mapping) and ("acceptance_histogram" in found or "per_step_accepted" in found):
                return found
    return None


def _request(record: Mapping[str, Any], fallback: str) -> _Request:
    metrics = _metrics(record)
    if metrics is None:
        raise Malformed("has no metrics.speculative_decoding", "null for n > 1, or another version's response")
    response = record["data"] if isinstance(record.get("data"), Mapping) else record
    usage = response.get("usage")
    label = response.get("id") or response.get("request_id") or fallback
    counts, steps, depth = _counts(metrics)
    told = usage if isinstance(usage, Mapping) else {}
    prompt, output = (told.get(key) for key in ("prompt_tokens", "completion_tokens"))
    known = [value if type(value) is int else None for value in (prompt, output)]
    return _Request(str(label), counts, depth, steps, *known)


def _counts(metrics: Mapping[str, Any]) -> tuple[Counts, tuple[list[int], list[int]] | None, int]:
    """(counts, steps as drafted and accepted, deepest draft). The lists and sums of an object must agree."""
    by_length = metrics.get("acceptance_histogram_by_draft_length")
    steps = None
    if any(name in metrics and metrics[name] is not None for name in _STEPS):
        accepted, drafted = (counts_in(metrics, name) for name in _STEPS)
        if len(accepted) != len(drafted):
            raise Malformed("contradicts itself", f"{len(accepted)} steps accepted and {len(drafted)} drafted")
        for a, d in zip(accepted, drafted, strict=True):
            check_accepted(a, d)
        steps = (drafted, accepted)
        counts = from_steps(drafted, accepted)
    elif isinstance(by_length, Mapping):
        counts = _from_lengths(by_length)
    else:
        counts = _from_histogram(counts_in(metrics, "acceptance_histogram"), whole_in(metrics, "num_draft_tokens"))
    _check_sums(metrics, counts)
    stated = metrics.get("num_spec_tokens")
    depth = len(counts.num_survived_per_pos or ())
    return counts, steps, max(depth, stated if type(stated) is int else 0)


def _from_histogram(histogram: list[int], drafted: int) -> Counts:
    steps = sum(histogram)
    accepted = sum(j * count for j, count in enumerate(histogram))
    check_accepted(accepted, drafted)
    return Counts(
        num_spec_steps=steps,
        num_draft_tokens=drafted,
        num_verify_tokens=drafted,
        num_accepted_tokens=accepted,
        num_survived_per_pos=tuple(sum(histogram[k:]) for k in range(1, len(histogram))),
    )


def _from_lengths(by_length: Mapping[str, Any]) -> Counts:
    """Histograms by draft length, whose keys are texts in JSON: {"3": [39, 1, 0, 3]}."""
    parts = []
    for key in by_length:
        if not str(key).isdigit():
            raise Malformed("has a draft length that is no number", repr(key))
        length, histogram = int(key), counts_in(by_length, key)
        if len(histogram) != length + 1:
            raise Malformed("contradicts itself", f"{len(histogram)} buckets for drafts of {length}")
        steps = sum(histogram)
        part = _from_histogram(histogram, steps * length)
        at_risk = (steps, *(part.num_survived_per_pos or ())[:-1]) if length else ()
        parts.append(replace(part, num_at_risk_per_pos=at_risk))
    return pooled(parts) if parts else _from_histogram([0], 0)


def _check_sums(metrics: Mapping[str, Any], counts: Counts) -> None:
    """What the object states itself agrees with its lists."""
    stated = {
        "num_spec_steps": counts.num_spec_steps,
        "num_accepted_draft_tokens": counts.num_accepted_tokens,
        "num_draft_tokens": counts.num_draft_tokens,
    }
    for name, found in stated.items():
        if name in metrics and whole_in(metrics, name) != found:
            raise Malformed("contradicts itself", f"{name} is {metrics[name]}, its lists give {found}")
