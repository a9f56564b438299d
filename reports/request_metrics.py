"""Metrics of single requests: TTFT, TPOT, ITL, E2EL and goodput as `vllm bench serve` defines them, speed, acceptance.

Input is `Run.requests` (`REQUEST_COLUMNS`, one entry per finished request) or `Run.steps`. Seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lightspec_bench.core import BenchError, Columns, FloatArray, Run
from lightspec_bench.registry import did_you_mean

PERCENTILES = (50, 90, 99)
SLO_NAMES = ("ttft_s", "tpot_s", "e2el_s")


def quotient(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any]) -> FloatArray:
    """Elementwise quotient, NaN where the denominator is not above zero."""
    result = np.full(np.shape(denominator), np.nan)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) > 0)
    return result


def ttft_s(requests: Columns) -> FloatArray:
    """Time to first token from arrival, (R,); queueing included."""
    return np.asarray(requests["first_token_s"] - requests["arrival_s"], dtype=np.float64)


def e2el_s(requests: Columns) -> FloatArray:
    """End-to-end latency from arrival to the last token, (R,)."""
    return np.asarray(requests["finish_s"] - requests["arrival_s"], dtype=np.float64)


def tpot_s(requests: Columns) -> FloatArray:
    """Time per output token after the first, (E2EL - TTFT) / (output tokens - 1); (R,), NaN for requests of 1 token."""
    more = np.asarray(requests["num_output_tokens"], dtype=np.float64) - 1.0
    return quotient(e2el_s(requests) - ttft_s(requests), more)


def residence_s(requests: Columns) -> FloatArray:
    """Time in the running batch, from admission to the last token, (R,)."""
    return np.asarray(requests["finish_s"] - requests["start_s"], dtype=np.float64)


def acceptance_length(requests: Columns) -> FloatArray:
    """1 + accepted / spec steps of each request, (R,); NaN for a request that verified no draft token."""
    return 1.0 + quotient(requests["num_accepted_tokens"], requests["num_spec_steps"])


def mean_acceptance_length_per_request(requests: Columns) -> float:
    """Mean of the requests' own acceptance lengths (SpecForge's figure).

    Not `mean_acceptance_length`, which pools steps (vLLM): requests with many steps are the hard ones, so the pooled
    figure is usually lower, and the two may order two runs differently (vllm#42508).
    """
    return _mean(acceptance_length(requests))


def request_speed_mean_of_ratios(requests: Columns) -> float:
    """Mean over requests of output tokens / residence: tokens per second of one request (Spec-Bench's speed)."""
    return _mean(quotient(requests["num_output_tokens"], residence_s(requests)))


def request_speed_ratio_of_sums(requests: Columns) -> float:
    """All output tokens / all residence times; times the mean number of running requests this is about `throughput`."""
    seconds = float(residence_s(requests).sum())
    return float(requests["num_output_tokens"].sum()) / seconds if seconds > 0 else float("nan")


def request_goodput(requests: Columns, slo: Mapping[str, float], elapsed_s: float) -> float:
    """Requests per second that meet every bound of `slo` (`ttft_s`, `tpot_s`, `e2el_s`; any of them; inclusive).

    As in vLLM a request of 1 token has TPOT 0 here. `BenchError` on an unknown name or a bound that is not positive.
    """
    values = {
        "ttft_s": ttft_s(requests),
        "tpot_s": np.nan_to_num(tpot_s(requests), nan=0.0),
        "e2el_s": e2el_s(requests),
    }
    good = np.ones(len(requests["request_id"]), dtype=np.bool_)
    for name, bound in slo.items():
        if name not in values:
            raise BenchError(f"slo: unknown bound {name!r}{did_you_mean(name, SLO_NAMES)}")
        if not bound > 0:
            raise BenchError(f"slo: {name} is {bound}, expected seconds above 0")
        good &= values[name] <= bound
    return float(good.sum()) / elapsed_s if elapsed_s > 0 else float("nan")


def itl_percentiles_s(steps: Columns, percentiles: tuple[float, ...]) -> FloatArray:
    """Percentiles of the inter-token latency, shape of `percentiles`.

    As in vLLM a sample is the gap between two outputs of one request, so a step that emits several tokens for it is
    one sample. Every request in a step waits for the whole step; a request admitted in it is counted likewise.
    """
    return weighted_percentiles(steps["duration_s"], steps["num_requests"], percentiles)


def itl_mean_s(steps: Columns) -> float:
    """Mean inter-token latency: step durations weighted by the requests in them."""
    requests = float(steps["num_requests"].sum())
    return float(steps["duration_s"] @ steps["num_requests"]) / requests if requests > 0 else float("nan")


def weighted_percentiles(
    values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], percentiles: tuple[float, ...]
) -> FloatArray:
    """`np.percentile(np.repeat(values, counts), percentiles)` without the repetition; NaN when all counts are 0."""
    ends = np.cumsum(counts[order := np.argsort(values, kind="stable")])
    if not len(ends) or ends[-1] == 0:
        return np.full(len(percentiles), np.nan)
    at = (int(ends[-1]) - 1) * np.asarray(percentiles, dtype=np.float64) / 100.0
    low, high = (values[order][np.searchsorted(ends, side(at), side="right")] for side in (np.floor, np.ceil))
    return np.asarray(low + (high - low) * (at - np.floor(at)), dtype=np.float64)


def summarise_requests(run: Run) -> dict[str, float]:
    """`ttft`, `tpot`, `e2el`, `itl` as mean, p50, p90, p99 (`tpot_p99_s`), then speeds and per-request acceptance.

    ITL is NaN when step records are off.
    """
    requests, result = run.requests, {"request_throughput": float("nan")}
    if run.totals.elapsed_s > 0:
        result["request_throughput"] = len(requests["request_id"]) / run.totals.elapsed_s
    for name, values in (("ttft", ttft_s(requests)), ("tpot", tpot_s(requests)), ("e2el", e2el_s(requests))):
        result |= _statistics(name, _mean(values), _percentiles(values))
    if run.steps is None:
        result |= _statistics("itl", float("nan"), np.full(len(PERCENTILES), np.nan))
    else:
        result |= _statistics("itl", itl_mean_s(run.steps), itl_percentiles_s(run.steps, PERCENTILES))
    result["mean_acceptance_length_per_request"] = mean_acceptance_length_per_request(requests)
    result["request_speed_mean_of_ratios"] = request_speed_mean_of_ratios(requests)
    result["request_speed_ratio_of_sums"] = request_speed_ratio_of_sums(requests)
    return result


def _statistics(name: str, mean: float, percentiles: FloatArray) -> dict[str, float]:
    shown = {f"{name}_p{p}_s": float(value) for p, value in zip(PERCENTILES, percentiles, strict=True)}
    return {f"{name}_mean_s": mean, **shown}


def _percentiles(values: FloatArray) -> FloatArray:
    known = values[~np.isnan(values)]
    return np.percentile(known, PERCENTILES) if len(known) else np.full(len(PERCENTILES), np.nan)


def _mean(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
