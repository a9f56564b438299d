"""Metrics of finished runs, every formula once: pure functions of `Totals`, and `summarise` for a whole run.

The formulas of acceptance are in `lightspec_bench.acceptance`, which importers of other engines' logs use too.

Shapes: `outcomes` is (D + 1, D + 1), verified by accepted. Seconds and fractions inside. A quotient whose denominator
is zero is NaN ("unknown"), never 0 or 1. "vLLM" is `vllm/v1/spec_decode/metrics.py`; other names: docs/metrics.md.
"""

from __future__ import annotations

import numpy as np

from lightspec_bench import acceptance
from lightspec_bench.acceptance import ratio as ratio
from lightspec_bench.core import FloatArray, IntArray, Run, Totals
from lightspec_bench.reports import request_metrics


def num_request_steps(totals: Totals) -> int:
    """Requests summed over decode steps: each is one target row and one bonus token."""
    return int(totals.outcomes.sum())


def num_spec_steps(totals: Totals) -> int:
    """Request-steps that verified at least one draft token; vLLM's `num_drafts`."""
    return int(totals.outcomes[1:].sum())


def num_verify_tokens(totals: Totals) -> int:
    """Draft tokens the target verified."""
    verified = totals.outcomes.sum(axis=1)
    return int(verified @ np.arange(len(verified)))


def num_accepted_tokens(totals: Totals) -> int:
    """Draft tokens accepted, bonus tokens never counted; vLLM's `num_accepted_tokens`."""
    accepted = totals.outcomes.sum(axis=0)
    return int(accepted @ np.arange(len(accepted)))


def num_decode_tokens(totals: Totals) -> int:
    """Tokens emitted by decode steps: accepted draft tokens and one bonus token per request-step."""
    return num_accepted_tokens(totals) + num_request_steps(totals)


def num_target_tokens(totals: Totals) -> int:
    """Target rows: verified draft tokens and one row per request-step; LightSpec's B, summed over steps."""
    return num_verify_tokens(totals) + num_request_steps(totals)


def decode_s(totals: Totals) -> float:
    """Seconds in the two models, target and drafter, while decoding."""
    return totals.verify_s + totals.draft_s


def busy_s(totals: Totals) -> float:
    """Seconds in steps: verify, draft, host, prefill and the exposed part of the planner; idle waits are left out."""
    return decode_s(totals) + totals.host_s + totals.prefill_s + totals.exposed_planner_s


def throughput(totals: Totals) -> float:
    """Output tokens per second end to end, prefill, host and idle time included; vLLM's output token throughput."""
    return ratio(totals.num_output_tokens, totals.elapsed_s)


def decode_throughput(totals: Totals) -> float:
    """Tokens of decode steps per second in target and drafter: no host, no prefill, no planner."""
    return ratio(num_decode_tokens(totals), decode_s(totals))


def mean_acceptance_length(totals: Totals) -> float:
    """1 + accepted / spec steps, pooled (vLLM). NaN when nothing was verified: skipped drafts are not drafts."""
    return acceptance.mean_acceptance_length(num_accepted_tokens(totals), num_spec_steps(totals))


def mean_tokens_per_step(totals: Totals) -> float:
    """Tokens emitted per request-step, those without a draft included; 1 without speculation."""
    return acceptance.mean_tokens_per_step(num_accepted_tokens(totals), num_request_steps(totals))


def target_efficiency(totals: Totals) -> float:
    """Emitted tokens / target rows, bonus token and target row both counted (DSpark paper, footnote 3)."""
    return acceptance.target_efficiency(
        num_accepted_tokens(totals), num_verify_tokens(totals), num_request_steps(totals)
    )


def verify_acceptance_rate(totals: Totals) -> float:
    """Accepted / verified draft tokens."""
    return acceptance.verify_acceptance_rate(num_accepted_tokens(totals), num_verify_tokens(totals))


def draft_acceptance_rate(totals: Totals) -> float:
    """Accepted / drafted tokens, those never verified included (vLLM and llama.cpp where all drafts are verified)."""
    return acceptance.draft_acceptance_rate(num_accepted_tokens(totals), totals.num_draft_tokens)


def verify_volume(totals: Totals) -> float:
    """Target rows per token emitted by decode steps; 1 / target_efficiency, 1 without speculation."""
    return ratio(num_target_tokens(totals), num_decode_tokens(totals))


def verify_volume_per_step(totals: Totals) -> float:
    """Target rows per step of the whole batch."""
    return ratio(num_target_tokens(totals), totals.num_steps)


def draft_tokens_per_token(totals: Totals) -> float:
    """Draft tokens per token emitted by decode steps."""
    return ratio(totals.num_draft_tokens, num_decode_tokens(totals))


def num_at_risk_per_pos(totals: Totals) -> IntArray:
    """Spec steps that verified draft token k with all before it accepted, k = 1..D; shape (D,)."""
    verified_k_accepted_before = [totals.outcomes[k:, k - 1 :].sum() for k in range(1, len(totals.outcomes))]
    return np.array(verified_k_accepted_before, dtype=np.int64)


def _num_survived_per_pos(totals: Totals) -> IntArray:
    at_least = totals.outcomes.sum(axis=0)[::-1].cumsum()[::-1]
    return np.asarray(at_least[1:], dtype=np.int64)


def acceptance_rate_per_pos(totals: Totals) -> FloatArray:
    """Prefix survival over spec steps, (D,): share that accepted at least k draft tokens.

    vLLM's per-position acceptance rate. A spec step that verified fewer than k counts as not accepted at k, so with
    trimmed drafts this falls below the drafter's own survival; the conditional rate does not.
    """
    survived = _num_survived_per_pos(totals)
    return request_metrics.quotient(survived, np.full(len(survived), num_spec_steps(totals)))


def conditional_acceptance_rate_per_pos(totals: Totals) -> FloatArray:
    """Share accepted at k among steps that verified k with all before it accepted, (D,); NaN where none did."""
    return request_metrics.quotient(_num_survived_per_pos(totals), num_at_risk_per_pos(totals))


def step_time_s(totals: Totals) -> float:
    """Mean seconds of a step, idle time between steps left out."""
    return ratio(busy_s(totals), totals.num_steps)


def planner_time_s(totals: Totals) -> float:
    """Mean seconds per step spent in the planner, hidden or exposed."""
    return ratio(totals.planner_s, totals.num_steps)


def exposed_planner_share(totals: Totals) -> float:
    """Share of the planner's time that lengthened steps."""
    return ratio(totals.exposed_planner_s, totals.planner_s)


def num_switches(run: Run) -> float:
    """Steps of the measured window that plan another draft depth than the step before them in it.

    The depth is `planned_depth`: what the plan asks of the request it lets draft deepest. A shorter draft by an early
    exit, by a drafter that found less or at a request's end is no switch, nor is another verify budget. Unknown (NaN)
    without step records, or with records that lack the planned depth.
    """
    depth = (run.steps or {}).get("planned_depth")
    if depth is None:
        return float("nan")
    measured = depth[len(depth) - run.totals.num_steps :]
    return float(np.count_nonzero(np.diff(measured)))


def switches_per_1000_steps(run: Run) -> float:
    """1000 * switches / steps: 0 for a fixed depth, near 1000 where every step changes it."""
    return ratio(1000.0 * num_switches(run), run.totals.num_steps)


def time_shares(totals: Totals) -> dict[str, float]:
    """Shares of the busy time: verify, draft, host, prefill, exposed planner; they sum to 1."""
    parts = {
        "verify_share": totals.verify_s,
        "draft_share": totals.draft_s,
        "host_share": totals.host_s,
        "prefill_share": totals.prefill_s,
        "planner_share": totals.exposed_planner_s,
    }
    return {name: ratio(seconds, busy_s(totals)) for name, seconds in parts.items()}


def summarise(run: Run) -> dict[str, float]:
    """Every metric of a run under its name, flat and in a fixed order: counts, seconds, rates, latencies, positions.

    Positions are columns `acceptance_rate_pos_1` .. `_D`, `conditional_acceptance_rate_pos_k`, `num_at_risk_pos_k`.
    The counts and seconds are the weights with which `comparison.pool_seeds` pools the other columns.
    """
    totals = run.totals
    counts = {
        "num_requests": len(run.requests["request_id"]),
        "num_steps": totals.num_steps,
        "num_request_steps": num_request_steps(totals),
        "num_spec_steps": num_spec_steps(totals),
        "num_output_tokens": totals.num_output_tokens,
        "num_prefill_tokens": totals.num_prefill_tokens,
        "num_decode_tokens": num_decode_tokens(totals),
        "num_target_tokens": num_target_tokens(totals),
        "num_draft_tokens": totals.num_draft_tokens,
        "num_verify_tokens": num_verify_tokens(totals),
        "num_accepted_tokens": num_accepted_tokens(totals),
        "elapsed_s": totals.elapsed_s,
        "busy_s": busy_s(totals),
        "decode_s": decode_s(totals),
        "planner_s": totals.planner_s,
        "num_switches": num_switches(run),
    }
    formulas = (
        throughput, decode_throughput, mean_acceptance_length, mean_tokens_per_step, target_efficiency,
        verify_acceptance_rate, draft_acceptance_rate, verify_volume, verify_volume_per_step,
        draft_tokens_per_token, step_time_s, planner_time_s, exposed_planner_share,
    )  # fmt: skip
    return {
        **{name: float(value) for name, value in counts.items()},
        **{formula.__name__: formula(totals) for formula in formulas},
        "switches_per_1000_steps": switches_per_1000_steps(run),
        **time_shares(totals),
        **request_metrics.summarise_requests(run),
        **_by_position("acceptance_rate_pos", acceptance_rate_per_pos(totals)),
        **_by_position("conditional_acceptance_rate_pos", conditional_acceptance_rate_per_pos(totals)),
        **_by_position("num_at_risk_pos", num_at_risk_per_pos(totals)),
    }


def _by_position(name: str, values: FloatArray | IntArray) -> dict[str, float]:
    return {f"{name}_{k}": float(value) for k, value in enumerate(values, start=1)}
