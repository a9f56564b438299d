"""Planners of third parties that are broken: each ends its own cells, with a sentence that names it and the value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightspec_bench.cli import main
from lightspec_bench.core import BenchError
from lightspec_bench.experiment import run_suite
from lightspec_bench.suite import Conditions, Suite, suite_from
from lightspec_bench.traces.format import write_trace
from tests.support import random_trace

LATENCY = "h100-llama-3.1-8b"
MODULE = """
import numpy as np
from lightspec_bench.core import BenchError, EarlyExit, Plan
from lightspec_bench.planners.static import Static

class WrongPlan(Static):
    def plan(self, batch):
        return Plan(99, batch.num_requests)

class NoPlan(Static):
    def plan(self, batch):
        return None

class NoExit(Static):
    def plan(self, batch):
        return Plan(1, batch.num_requests, early_exit="soon")

class BadExit(Static):
    def plan(self, batch):
        return Plan(1, batch.num_requests, early_exit=EarlyExit("confidence", 1.5))

class Refuses(Static):
    def plan(self, batch):
        raise BenchError("the batch has 3 moons, expected 4")

class Raises(Static):
    def observe(self, step):
        raise KeyError("gone")

class NotBuilt(Static):
    def __init__(self, config):
        raise RuntimeError("no luck")
"""
REASONS = {
    "{}:WrongPlan": "planner {}:WrongPlan: num_draft_tokens is 99, expected 0 to 3",
    "{}:NoPlan": "planner {}:NoPlan: plan() returned None, expected a Plan",
    "{}:NoExit": "planner {}:NoExit: early_exit is 'soon', expected an EarlyExit or None",
    "{}:BadExit": "{}:BadExit: early_exit.threshold is 1.5, expected 0 to 1",
    "{}:Refuses:k=2": "{}:Refuses:k=2: the batch has 3 moons, expected 4",
    "{}:Raises": "{}:Raises: KeyError: 'gone'",
    "{}:NotBuilt": "planner '{}:NotBuilt' cannot be built: RuntimeError: no luck",
    "clamp:planner=({}:NotBuilt)": "clamp:planner=({0}:NotBuilt): planner '{0}:NotBuilt' cannot be built: "
    "RuntimeError: no luck",
    "dwell:planner=({}:WrongPlan)": "dwell:planner=({0}:WrongPlan): planner {0}:WrongPlan: num_draft_tokens is 99, "
    "expected 0 to 3",
    "{}_import:Mine": "planner '{}_import:Mine' cannot be imported: ZeroDivisionError: division by zero",
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with one planner for each way of being broken, and one that does not import."""
    name = f"broken_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / f"{name}_import.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    write_trace(random_trace(5, longest=12), tmp_path / "trace.parquet")
    return name


def test_each_ends_its_own_cells_and_no_others(module: str, tmp_path: Path) -> None:
    reasons = {spec.format(module): reason.format(module) for spec, reason in REASONS.items()}
    suite = Suite(
        "broken",
        (str(tmp_path / "trace.parquet"),),
        (LATENCY,),
        (2,),
        (*reasons, "lightspec-reference"),
        every_static=False,
        conditions=Conditions(planner_time="off"),
    )
    outcomes = run_suite(suite, tmp_path / "out", jobs=1, resume=False)
    assert [o.reason for o in outcomes if o.status == "failed"] == list(reasons.values())
    assert [o.status for o in outcomes if o.status != "failed"] == ["done"]


def test_a_suite_file_may_name_a_plug_in_that_does_not_import_but_no_unknown_one(module: str) -> None:
    document = {"traces": ["t"], "latencies": ["l"], "concurrencies": [1], "planners": [f"{module}_import:Mine"]}
    assert suite_from(document, "mine.yaml", "mine").planners == (f"{module}_import:Mine",)
    with pytest.raises(BenchError, match="planner 'no_such_module:Mine' cannot be imported: No module named"):
        suite_from({**document, "planners": ["no_such_module:Mine"]}, "mine.yaml", "mine")
    with pytest.raises(BenchError, match="clamp: unknown option 'mots', did you mean 'most'"):
        suite_from({**document, "planners": ["clamp:mots=3"]}, "mine.yaml", "mine")


def test_the_report_is_made_and_the_exit_code_is_1(module: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "suite.yaml"
    planners = [f"{module}_import:Mine", f"{module}:NotBuilt", f"clamp:most=1,planner=({module}:WrongPlan)", "schedule"]
    document = {"traces": [str(tmp_path / "trace.parquet")], "latencies": [LATENCY], "concurrencies": [2]}
    path.write_text(json.dumps({**document, "planners": planners, "every_static": False}), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), "--out", str(tmp_path / "out"), "--jobs", "1", "--json"])
    assert ended.value.code == 1
    printed = json.loads(capsys.readouterr().out)
    assert {row["planner"] for row in printed["cells"]} == {"schedule"}
    notes = " ".join(printed["notes"])
    for said in ("division by zero", "cannot be built: RuntimeError: no luck", "num_draft_tokens is 99"):
        assert said in notes
    assert (tmp_path / "out" / "report.html").stat().st_size


def test_replay_of_a_broken_one_is_one_sentence(module: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    for spec, said in ((f"{module}:NotBuilt", "no luck"), (f"{module}_import:Mine", "division by zero")):
        with pytest.raises(SystemExit) as ended:
            main(["replay", str(tmp_path / "trace.parquet"), "-p", spec, "--no-static", "--jobs", "1", "-c", "2"])
        assert ended.value.code == 2
        message = capsys.readouterr().err
        assert len(message.splitlines()) == 1
        assert spec in message
        assert said in message
