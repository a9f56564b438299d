"""Importer of `vllm bench serve` results: the speculative counters between its first and last scrape."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lightspec_bench.acceptance import Counts, ratio
from lightspec_bench.acceptance_summary import AcceptanceSummary, Sample
from lightspec_bench.skipped import Malformed, Tally
from lightspec_bench.traces.json_records import records_of, sniffed_record, whole_in
from lightspec_bench.traces.log_lines import check_accepted, check_rate, summary_of

NAME = "vllm-bench"
_PER_POS = "spec_decode_per_position_acceptance_rates"
_WHOLE_SERVER = "differences of the server's counters: requests of other clients in that time are in them"
_SPEC_ONLY = "steps without a draft are not counted: their number, and target_efficiency over all steps, are unknown"


class VllmBench:
    """The JSON that `--save-result` writes, or the JSON lines of `--append-result`: one sample per benchmark."""

    def sniffs(self, path: Path) -> bool:
        first = sniffed_record(path) or {}
        return "spec_decode_num_drafts" in first or {"request_throughput", "total_token_throughput"} <= set(first)

    def summarise(self, path: Path) -> AcceptanceSummary:
        tally = Tally()
        samples = []
        for where, record in records_of(path, tally):
            counts = tally.tried(where, partial(_counts, record))
            if counts is not None:
                samples.append(Sample(_label(record, where, path), counts))
        return summary_of(path, NAME, "benchmark", samples, [_WHOLE_SERVER, _SPEC_ONLY], tally.skipped)


def _label(record: Mapping[str, Any], where: str, path: Path) -> str:
    parts = [where.removeprefix(f"{path} ")]
    for key, words in (("model_id", ""), ("max_concurrency", "concurrency "), ("request_rate", "rate ")):
        value = record.get(key)
        if value is not None and value != "inf":
            parts.append(f"{words}{value}")
    return ", ".join(parts)


def _counts(record: Mapping[str, Any]) -> Counts:
    if not any(key.startswith("spec_decode_") for key in record):
        raise Malformed(
            "has no speculative counters", "the server drafted nothing, or its version does not export them"
        )
    drafts, drafted, accepted = (
        whole_in(record, f"spec_decode_{name}") for name in ("num_drafts", "draft_tokens", "accepted_tokens")
    )
    check_accepted(accepted, drafted)
    _check_rate(record, accepted, drafted)
    if drafts > drafted:
        raise Malformed("contradicts itself", f"{drafts} drafts have {drafted} draft tokens")
    return Counts(
        num_spec_steps=drafts,
        num_draft_tokens=drafted,
        num_verify_tokens=drafted,
        num_accepted_tokens=accepted,
        num_survived_per_pos=_survived(record, drafts, accepted),
    )


def _check_rate(record: Mapping[str, Any], accepted: int, drafted: int) -> None:
    percent = record.get("spec_decode_acceptance_rate")
    if not isinstance(percent, int | float) or drafted == 0:
        return
    check_rate(percent / 100.0, "spec_decode_acceptance_rate / 100 is")
    if not math.isclose(percent / 100.0, ratio(accepted, drafted), rel_tol=1e-3, abs_tol=1e-3):
        raise Malformed("contradicts itself", f"rate {percent:g} % for {accepted} accepted of {drafted} drafted")


def _survived(record: Mapping[str, Any], drafts: int, accepted: int) -> tuple[int, ...] | None:
    """Counts per position from its unrounded rates; None where there are none or their sum is another."""
    rates = record.get(_PER_POS)
    if not isinstance(rates, list) or not rates or not all(isinstance(rate, int | float) for rate in rates):
        return None
    for rate in rates:
        check_rate(rate, "per-position acceptance rate")
    counts = tuple(round(rate * drafts) for rate in rates)
    return counts if sum(counts) == accepted else None
