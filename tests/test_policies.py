"""Every shipped planner is in the suite that compares them and in the documentation's table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lightspec_bench.describe import Description, describe
from lightspec_bench.names import PLANNERS, SECTIONS
from lightspec_bench.registry import parse_spec
from lightspec_bench.suite import read_suite
from lightspec_bench.traces.library import trace_names

DOCS = Path(__file__).parent.parent / "docs" / "policies.md"
REQUIRED = {"trtllm-schedule": "trtllm-schedule:meaning=upper"}


def test_the_suite_runs_every_shipped_planner_on_every_shipped_trace() -> None:
    suite = read_suite("policies")
    named = {parse_spec(spec)[0] for spec in suite.planners}
    assert suite.every_static  # adds `none` and `static`
    assert named | {"none", "static", "stock"} == set(PLANNERS)  # `stock` is what it wraps, in a simulator
    assert {trace.partition(":")[0] for trace in suite.traces} == set(trace_names())
    assert (len(suite.concurrencies), len(suite.latencies)) == (4, 2)


@pytest.mark.parametrize("spec", read_suite("policies").planners)
def test_every_planner_of_the_suite_can_be_described(spec: str) -> None:
    assert describe(spec).name == spec


@pytest.mark.skipif(not DOCS.exists(), reason="needs a checkout")
def test_the_table_names_every_planner_with_what_it_needs() -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE))
    shown = {name: [cell.strip() for cell in row.split(" | ")] for name, row in rows.items() if name in PLANNERS}
    assert list(shown) == list(PLANNERS)
    for section, names in SECTIONS.items():
        for name in names:
            family, source, *needs = shown[name]
            assert family == section
            assert source
            expected = ["as inside"] * 2 if section == "wrappers" else needs_of(describe(REQUIRED.get(name, name)))
            assert needs == expected, f"docs/policies.md: {name} has {needs}, expected {expected}"


def needs_of(description: Description) -> list[str]:
    """The last two columns: what a trace must hold, and the age of confidences."""
    needed = "the trace" if description.reads_trace else ", ".join(description.requires)
    return [needed or "–", description.confidence]
