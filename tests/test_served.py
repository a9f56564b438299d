"""Latency tables from served steps: exact where steps follow the model, and careful where they are few."""

from __future__ import annotations

import numpy as np
import pytest

from lightspec_bench.core import STEP_COLUMNS, BenchError, Columns, Drafter, DrafterKind
from lightspec_bench.drafting import draft_s
from lightspec_bench.latency import AffineCurve, LinearLatency
from lightspec_bench.latency_file import build_latency
from lightspec_bench.served import fit_served, prefill_s_per_token, sizes

TRUE = LinearLatency(
    name="true", origin="modelled", source="made up", target=AffineCurve(0.02, 0.001), draft=AffineCurve(0.004, 0.0005)
)
LABELS = {
    "name": "fitted", "device": "d", "model": "m", "dtype": "float32", "engine": "e", "source": "s", "licence": "l"
}  # fmt: skip


def steps(depth: int, drafter: Drafter | None, number: int = 40, num_requests: int = 4) -> Columns:
    """Steps of `num_requests` that verify anything up to the depth and draft to it, priced by `TRUE`."""
    rng = np.random.default_rng(depth)
    rows = num_requests * (1 + rng.integers(0, depth + 1, number))
    found: Columns = {name: np.zeros(number, dtype=np.int64) for name in STEP_COLUMNS}
    context = np.full(number, 400)
    found |= {"num_target_tokens": rows, "num_requests": np.full(number, num_requests), "num_context_tokens": context}
    found |= {"draft_depth": np.full(number, depth), "verify_s": TRUE.verify_s(rows, num_requests, context)}
    found["host_s"] = np.full(number, 0.003 if drafter is None else 0.005)
    found["draft_s"] = np.zeros(number)
    if drafter is not None and depth:
        found["draft_s"] = draft_s(TRUE, drafter, rows, num_requests, depth, context)
    return found


@pytest.mark.parametrize("kind", ["autoregressive", "autoregressive_no_attention", "parallel"])
@pytest.mark.parametrize("centre", ["mean", "median"])
def test_steps_that_follow_the_model_give_it_back(kind: DrafterKind, centre: str) -> None:
    drafter = Drafter(kind, 8)
    file = fit_served([steps(0, None)], [steps(k, drafter) for k in (1, 2, 4, 8)], drafter, LABELS, centre)  # type: ignore[arg-type]
    latency = build_latency(file)
    for rows in (4, 10, 20, 36):
        assert float(latency.verify_s(rows, 4, 400)) == pytest.approx(float(TRUE.verify_s(rows, 4, 400)), rel=0.01)
    for rows in (4,) if kind == "autoregressive_no_attention" else (4, 32):  # which has passes of 4 rows only
        assert float(latency.draft_pass_s(rows, 400)) == pytest.approx(float(TRUE.draft_pass_s(rows, 400)))
    assert float(latency.host_s(4, speculating=False)) == pytest.approx(0.003)
    assert float(latency.host_s(4, speculating=True)) == pytest.approx(0.005)


def test_the_time_of_a_lookup_is_host_time() -> None:
    drafter = Drafter("ngram", 4)
    looked_up = steps(4, drafter) | {"draft_s": np.full(40, 0.002)}
    latency = build_latency(fit_served([steps(0, None)], [looked_up], drafter, LABELS))
    assert float(latency.host_s(4, speculating=True)) == pytest.approx(0.007)


def test_context_costs_something_only_where_it_is_plain_to_see() -> None:
    rng = np.random.default_rng(0)
    run = steps(0, None, 200)
    run["num_context_tokens"] = rng.integers(100, 2000, 200)
    clear = run | {"verify_s": 0.02 + 1e-6 * run["num_context_tokens"] + rng.normal(0, 1e-4, 200)}
    noise = run | {"verify_s": 0.02 + rng.normal(0, 1e-3, 200)}
    found = [
        float(fit_served([each], [], Drafter("ngram", 4), LABELS).header["context_cost"]) for each in (clear, noise)
    ]
    assert found[0] == pytest.approx(1.0, rel=0.1)  # microseconds
    assert found[1] == 0.0


def test_rare_sizes_are_put_together_with_their_neighbours() -> None:
    rows = np.array([4] * 6 + [5, 6, 7, 8, 9, 9, 10, 12])
    assert sizes(rows).tolist() == [0] * 6 + [1] * 8
    assert sizes(np.array([3, 3])).tolist() == [0, 0]


def test_there_must_be_a_step() -> None:
    nothing = {name: np.zeros(0) for name in STEP_COLUMNS}
    with pytest.raises(BenchError, match="no decode step was recorded"):
        fit_served([nothing], [], Drafter("ngram", 4), LABELS)


def test_prefill_is_priced_per_prompt_token() -> None:
    run = steps(0, None, 4) | {
        "prefill_s": np.array([0.2, 0.0, 0.1, 0.0]),
        "num_prefill_tokens": np.array([50, 0, 10, 0]),
    }
    assert prefill_s_per_token([run]) == pytest.approx(0.005)
    assert np.isnan(prefill_s_per_token([steps(0, None)]))
