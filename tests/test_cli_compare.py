"""`lightspec-bench compare` and `report` as their user meets them: exit codes, documents, one sentence each mistake."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lightspec_bench.cli_compare import fraction_of
from lightspec_bench.comparing import compare_folders
from lightspec_bench.core import BenchError
from lightspec_bench.experiment import run_suite
from lightspec_bench.suite import Conditions, Suite
from lightspec_bench.traces.format import write_trace
from tests.support import outcome, random_trace

LATENCY = "h100-llama-3.1-8b"


def suite_of(trace: Path, num_requests: int | None = None) -> Suite:
    conditions = Conditions(planner_time="off", num_requests=num_requests)
    return Suite("tiny", ("mine",), (LATENCY,), (2,), ("schedule",), (0, 1), False, conditions, {"mine": str(trace)})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders: `base`; `slow`, a tenth slower under one planner; `trace` and `load`, which ran something else."""
    home = tmp_path_factory.mktemp("runs")
    write_trace(random_trace(3, num_requests=4, longest=12), home / "mine.parquet")
    write_trace(random_trace(4, num_requests=4, longest=12), home / "other.parquet")
    run_suite(suite_of(home / "mine.parquet"), home / "base", jobs=1, resume=False)
    run_suite(suite_of(home / "other.parquet"), home / "trace", jobs=1, resume=False)
    run_suite(suite_of(home / "mine.parquet", 5), home / "load", jobs=1, resume=False)
    shutil.copytree(home / "base", home / "slow")
    for path in (home / "slow" / "cells").glob("*.json"):
        document = json.loads(path.read_text("utf-8"))
        if "totals" in document:
            document["totals"]["elapsed_s"] *= 1.1
            path.write_text(json.dumps(document), "utf-8")
    return home


def test_a_run_against_itself_passes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(
        capsys, "compare", str(home / "base"), str(home / "base"), "--max-regression", "0%", "--json"
    )
    document = json.loads(out.splitlines()[-1])
    assert (code, document["passed"], document["failing"]) == (0, True, [])
    assert document["overall"]["word"] == "no difference shown"
    assert [(cell["planner"], cell["num_pairs"], cell["ratio"]) for cell in document["cells"]] == [("schedule", 2, 1.0)]
    assert document["origin"].startswith("Simulated from a recorded trace; latency: h100-llama-3.1-8b, ")


def test_a_slower_run_fails_the_gate_and_says_by_how_much(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = str(home / "base"), str(home / "slow")
    code, out, _ = outcome(capsys, "compare", *both, "--max-regression", "2%")
    assert code == 1
    assert "Over 1 cells: worse, -9.1 % [" in out
    assert "Gate failed: slower by more than 2 %: all cells (-9.1 %); " in out
    assert outcome(capsys, "compare", *both, "--max-regression", "0.1")[0] == 0
    assert outcome(capsys, "compare", *both)[0] == 0
    assert outcome(capsys, "compare", *reversed(both), "--max-regression", "2%")[0] == 0


def test_markdown_goes_into_a_jobs_summary(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = outcome(capsys, "compare", str(home / "base"), str(home / "slow"), "--md")
    assert out.startswith("- Over 1 cells: worse, -9.1 % [")
    assert "| 2 | schedule | " in out


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("trace", "trace mine has other contents in {new} than in {base}; --force compares them all the same"),
        (
            "load",
            "conditions with h100-llama-3.1-8b differ between {base} and {new}: num_requests None and 5; "
            "--force compares them all the same",
        ),
        ("nowhere", "{new}/suite.json: is not there, expected a finished run's file"),
    ],
)
def test_what_ran_something_else_is_refused(
    other: str, message: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, new = home / "base", home / other
    code, _, err = outcome(capsys, "compare", str(base), str(new))
    assert (code, err) == (2, f"lightspec-bench: {message.format(base=base, new=new)}\n")


def test_by_force_the_difference_is_a_warning(home: Path) -> None:
    compared = compare_folders(home / "base", home / "trace", is_forced=True)
    assert compared.warnings[0].startswith("trace mine has other contents in ")
    assert len(compared.found.changes) == 1


@pytest.mark.parametrize(("text", "value"), [("2%", 0.02), ("2 %", 0.02), ("0.02", 0.02), ("0%", 0.0)])
def test_a_bound_is_a_share(text: str, value: float) -> None:
    assert fraction_of(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["2", "-1%", "100%", "two", "2%%", ""])
def test_a_bound_that_could_mean_anything_is_refused(text: str) -> None:
    with pytest.raises(BenchError, match="expected a share below 100 %"):
        fraction_of(text)


def test_report_prints_markdown_csv_or_latex(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "report", str(home / "base"), "--md", "--theme", "paper")
    assert (code, out.splitlines()[0]) == (0, "### mine · h100-llama-3.1-8b")
    assert (home / "base" / "acceptance.svg").exists()
    _, out, _ = outcome(capsys, "report", str(home / "base"), "--csv")
    assert out.startswith("trace,latency,concurrency,planner,")
    _, out, _ = outcome(capsys, "report", str(home / "base"), "--latex")
    assert out.startswith("\\begin{table}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--md", "--json"], "--md and --json were given, expected one of them"),
        (["--theme", "drak"], "unknown theme 'drak', did you mean 'dark'?"),
        (["--current", "7"], "--current is '7', which this run does not have, expected one of schedule"),
    ],
)
def test_mistakes_are_one_sentence(
    options: list[str], message: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = outcome(capsys, "report", str(home / "base"), *options)
    assert (code, err) == (2, f"lightspec-bench: {message}\n")
