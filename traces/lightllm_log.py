"""Importer of LightLLM's log line per finished request, with its MTP counters."""

from __future__ import annotations

import math
import re
from pathlib import Path

from lightspec_bench.acceptance import Counts, ratio
from lightspec_bench.acceptance_summary import AcceptanceSummary, Sample
from lightspec_bench.skipped import Malformed
from lightspec_bench.traces.log_lines import check_accepted, scan, sniffs_log, summary_of

NAME = "lightllm-log"
_FIELD = re.compile(r"\b(lightllm_req_id|out_token_counter|mtp_\w+):\s*(-?[\w.+-]+)")
_ROWS = (
    "LightLLM counts rows it verified, the target's own included, and every decode step; drafted tokens that were not "
    "verified, and which steps had a draft, are unknown"
)
_OLD = (
    "lines of older versions have only tokens per step: accepted tokens follow from it, verified and drafted ones are "
    "unknown"
)


class LightLLMLog:
    """One sample per request. `mtp_total_verify_tokens` are rows: verified tokens and one row per step.

    Older lines have `mtp_avg_token_per_step` = output / (output - accepted), which gives accepted. The first output
    token comes from prefill and is no step.
    """

    def sniffs(self, path: Path) -> bool:
        return sniffs_log(path, NAME)

    def summarise(self, path: Path) -> AcceptanceSummary:
        samples: list[Sample] = []
        left_out = {"health probes": 0, "requests without MTP": 0}
        old: list[bool] = []

        def take(number: int, line: str) -> None:
            fields = dict(_FIELD.findall(line))
            if fields.get("lightllm_req_id", "").startswith("-"):
                left_out["health probes"] += 1
                return
            is_old = "mtp_accepted_token_num" not in fields
            counts = _old_counts(fields) if is_old else _counts(fields)
            if counts is None:
                left_out["requests without MTP"] += 1
                return
            old.append(is_old)
            samples.append(Sample(f"request {fields.get('lightllm_req_id', f'line {number}')}", counts))

        tally = scan(path, NAME, take)
        notes = [_ROWS] if not all(old) or not old else []
        notes += [_OLD] if any(old) else []
        notes += [f"{what}: {count} left out" for what, count in left_out.items() if count]
        return summary_of(path, NAME, "request", samples, notes, tally.skipped)


def _counts(fields: dict[str, str]) -> Counts | None:
    out, accepted, steps, rows = (
        _whole(fields, name)
        for name in ("out_token_counter", "mtp_accepted_token_num", "mtp_total_verify_steps", "mtp_total_verify_tokens")
    )
    average = _number(fields, "mtp_avg_token_per_step")
    _number(fields, "mtp_avg_verify_tokens_per_step")  # the last field: a line without it is cut off
    if rows == 0:
        return None
    if rows < steps:
        raise Malformed("contradicts itself", f"{rows} rows in {steps} steps, expected at least one per step")
    check_accepted(accepted, rows - steps, "verified")
    if not math.isclose(average, ratio(out, max(steps, 1)), rel_tol=1e-6):
        raise Malformed("contradicts itself", f"{average:g} tokens per step for {out} tokens in {steps} steps")
    return Counts(num_request_steps=steps, num_verify_tokens=rows - steps, num_accepted_tokens=accepted)


def _old_counts(fields: dict[str, str]) -> Counts:
    out, average = _whole(fields, "out_token_counter"), _number(fields, "mtp_avg_token_per_step")
    if average < 1 or not math.isfinite(average):
        raise Malformed("contradicts itself", f"{average:g} tokens per step, expected at least 1")
    forwards = round(out / average)  # prefill and decode steps
    if not math.isclose(out / average, forwards, rel_tol=1e-6):
        raise Malformed("is cut off or of an unknown version", f"{average:g} tokens per step for {out} tokens")
    return Counts(num_request_steps=forwards - 1, num_accepted_tokens=out - forwards)


def _number(fields: dict[str, str], name: str) -> float:
    try:
        return float(fields[name])
    except KeyError:
        raise Malformed("is cut off or of an unknown version", f"it has no {name}") from None
    except ValueError:
        raise Malformed("is no count", f"{name} is {fields[name]!r}") from None


def _whole(fields: dict[str, str], name: str) -> int:
    value = _number(fields, name)
    if not value >= 0 or value != int(value):
        raise Malformed("is no count", f"{name} is {fields[name]}, expected a whole number of at least 0")
    return int(value)
