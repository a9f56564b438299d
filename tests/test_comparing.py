"""What keeps two folders from being compared, and what is only said of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from lightspec_bench.comparing import Side, differences, warnings_of
from lightspec_bench.measured import Measured
from lightspec_bench.suite import Conditions, Suite, measured_suite, read_suite

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "compare"
HERE = {"platform": "Linux", "processor": "A", "cores": 2}


def side(name: str) -> Side:
    requests = pd.DataFrame({"trace": "chat", "request_id": [0, 1, 1], "num_prompt_tokens": [10, 20, 20]})
    summary = pd.DataFrame({"origin": ["simulated from a recorded trace"]})
    suite = Suite("s", ("chat",), ("h200",), (1,), ("none",), conditions=Conditions(planner_time="off"))
    return Side(Path(name), suite, summary, requests, {"chat": "a"}, {"h200": "b"}, HERE)


BASE, NEW = side("base"), side("new")


def test_the_same_thing_is_compared_in_silence() -> None:
    assert differences(BASE, NEW) == []
    assert warnings_of(BASE, NEW) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"traces": {"chat": "c"}}, "trace chat has other contents in new than in base"),
        ({"latencies": {"h200": "c"}}, "latency model h200 has other contents in new than in base"),
        (
            {"summary": pd.DataFrame({"origin": ["measured"]})},
            "base is simulated from a recorded trace and new is measured",
        ),
        (
            {"suite": replace(NEW.suite, conditions=Conditions(planner_time="off", lag_steps=0))},
            "conditions with h200 differ between base and new: lag_steps 1 and 0",
        ),
    ],
)
def test_what_is_not_the_same_is_named(change: dict[str, object], sentence: str) -> None:
    assert differences(BASE, replace(NEW, **change)) == [sentence]  # type: ignore[arg-type]


def test_without_digests_prompts_are_told_apart_by_their_lengths() -> None:
    older = replace(NEW, traces={}, requests=NEW.requests.assign(num_prompt_tokens=[10, 21, 21]))
    assert differences(BASE, older) == ["request 1 of chat has 20 and 21 prompt tokens in base and new"]
    assert warnings_of(BASE, older) == [
        "Contents of chat were not recorded, so that they are the same was not checked."
    ]


def test_measured_runs_must_have_decoded_the_same() -> None:
    what = Measured("smollm2", "ngram", "humaneval")
    suites = [measured_suite(each, (1,), ("none",)) for each in (what, replace(what, max_tokens=64))]
    base, new = replace(BASE, suite=suites[0]), replace(NEW, suite=suites[1])
    assert differences(base, new) == ["settings differ between base and new: max_tokens 128 and 64"]


def test_another_machine_is_said_where_time_was_measured() -> None:
    there = replace(NEW, environment=HERE | {"cores": 8})
    assert warnings_of(BASE, there) == []
    timed = replace(BASE, suite=replace(BASE.suite, conditions=Conditions()))
    assert warnings_of(timed, there) == ["Measured on different machines: cores 2 and 8."]


@pytest.mark.skipif(not EXAMPLE.exists(), reason="needs a checkout")
def test_the_example_gates_on_a_suite_with_repeats() -> None:
    import yaml

    suite = read_suite(str(EXAMPLE / "suite.yaml"))
    assert len(suite.seeds) >= 5
    assert suite.conditions.planner_time == "off"
    workflow = yaml.safe_load((EXAMPLE / "speculation.yml").read_text("utf-8"))
    commands = [step["run"] for step in workflow["jobs"]["compare"]["steps"] if "run" in step]
    assert any("lightspec-bench compare runs/before runs/after --max-regression 2% --md" in line for line in commands)
