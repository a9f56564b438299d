"""The shipped suite that sets the LightSpec article beside our runs: its inputs agree with what it quotes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lightspec_bench.experiment import run_cell
from lightspec_bench.registry import parse_spec
from lightspec_bench.reports.metrics import target_efficiency, throughput
from lightspec_bench.reports.published import Claim, Published
from lightspec_bench.suite import Suite, read_suite

SUITE = read_suite("headline")
assert SUITE.published
PUBLISHED: Published = SUITE.published
IN_FULL = [claim for claim in PUBLISHED.claims if claim.verify_volume_ratio]


def implied(claim: Claim) -> float:
    """Static target efficiency from the quoted pair: volume per token is its inverse, so gain = (ratio - 1) static."""
    assert claim.target_efficiency_gain
    assert claim.verify_volume_ratio
    return claim.target_efficiency_gain / (claim.verify_volume_ratio - 1.0)


def small(claim: Claim, latency: str, planner: str) -> tuple[float, float]:
    """(target efficiency, throughput) of a short run at the claim's place."""
    cell = SUITE.cell(claim.trace, latency, 256, planner, 0)
    conditions = replace(cell.conditions, num_requests=1, warmup_steps=10)
    spec = cell.trace_spec.replace("num_requests=1024", "num_requests=256")
    totals = run_cell(replace(cell, trace_spec=spec, conditions=conditions), keep_steps=False).totals
    return target_efficiency(totals), throughput(totals)


@pytest.mark.parametrize("claim", IN_FULL, ids=lambda claim: claim.trace)
def test_traces_have_the_acceptance_that_the_quoted_pair_implies(claim: Claim) -> None:
    dials = parse_spec(SUITE.spec(claim.trace))[1]
    assert dials["mean_acceptance_length"] == pytest.approx(12 * implied(claim), abs=0.01)
    static, slow = small(claim, "end to end", "static:k=11")
    assert static == pytest.approx(implied(claim), abs=0.015)  # a request's last window is cut
    assert small(claim, "end to end", "none")[1] > slow


def test_decode_only_leaves_prompts_and_host_out() -> None:
    assert SUITE.conditions_at["decode only"] == replace(SUITE.conditions_at["end to end"], prefill="off")
    claim = IN_FULL[0]
    gains = [
        small(claim, latency, "static:k=1")[1] / small(claim, latency, "static:k=11")[1] for latency in SUITE.latencies
    ]
    assert 1.0 < gains[0] < gains[1]


def test_a_claim_is_against_static_speculation_at_the_traces_own_depth() -> None:
    for claim in PUBLISHED.claims:
        assert claim.against == f"static:k={parse_spec(SUITE.spec(claim.trace))[1]['max_draft_tokens']}"
    assert [claim.trace for claim in PUBLISHED.claims] == list(SUITE.traces)


def test_every_kind_of_input_is_named() -> None:
    assert {each.origin for each in PUBLISHED.inputs} == {"published", "modelled", "fitted"}


def test_a_suite_comes_back_from_its_folder(tmp_path: Path) -> None:
    from dataclasses import asdict

    from lightspec_bench.experiment import stored_suite
    from lightspec_bench.store import write_json

    write_json(tmp_path / "suite.json", asdict(SUITE))
    assert stored_suite(tmp_path) == SUITE
    assert isinstance(stored_suite(tmp_path), Suite)
