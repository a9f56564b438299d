"""The command line as its user meets it: what works, and what one sentence each mistake gets."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from lightspec_bench.traces.format import write_trace
from tests.support import outcome, random_trace

SUITE = """
traces: [TRACE]
latencies: [h200-qwen3-14b]
concurrencies: [2]
planners: [lightspec-reference]
conditions: {planner_time: off}
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "mine.parquet"
    write_trace(random_trace(4, num_requests=5, longest=15), path)
    return str(path)


def suite_file(folder: Path, trace: str, old: str = "", new: str = "") -> str:
    path = folder / "suite.yaml"
    path.write_text(SUITE.replace("TRACE", trace).replace(old, new) if old else SUITE.replace("TRACE", trace), "utf-8")
    return str(path)


def test_run_writes_a_report_and_prints_one_document(trace: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    out = tmp_path / "results"
    code, printed, progress = outcome(
        capsys, "run", suite_file(tmp_path, trace), "--out", str(out), "--jobs", "1", "--json"
    )
    assert (code, progress) == (0, "")  # no bar where stderr is no terminal
    document = json.loads(printed)
    assert document["folder"] == str(out)
    assert {row["planner"] for row in document["cells"]} == {
        "none",
        *(f"static:k={k}" for k in range(4)),
        "best-static",
        "lightspec-reference",
    }
    assert "simulated from a recorded trace" in {row["origin"] for row in document["cells"]}
    assert all(Path(path).stat().st_size for path in document["files"])
    again = outcome(capsys, "report", str(out), "--json")
    assert again[0] == 0
    assert json.loads(again[1])[0]["cells"] == document["cells"]


def test_replay_shows_the_planner_beside_its_references_and_leaves_nothing(
    trace: str,
    tmp_path: Path,
    capsys,  # type: ignore[no-untyped-def]
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    code, printed, _ = outcome(capsys, "replay", trace, "-p", "static:k=1", "-c", "2", "--jobs", "1")
    assert code == 0
    for words in ("best static", "static:k=1", "none", "Simulated from a recorded trace", "h200-qwen3-14b, modelled"):
        assert words in printed
    assert sorted(tmp_path.iterdir()) == before


def test_a_failing_planner_gives_exit_code_1(trace: str, tmp_path: Path, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    source = (
        "from lightspec_bench.planners.static import Static\nfrom lightspec_bench.core import Plan\n"
        "class TooDeep(Static):\n    def plan(self, batch):\n        return Plan(4, batch.num_requests)\n"
    )
    (tmp_path / "too_deep.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = suite_file(tmp_path, trace, "lightspec-reference", '"too_deep:TooDeep"')
    code, printed, _ = outcome(capsys, "run", path, "--out", str(tmp_path / "out"), "--jobs", "1", "--json")
    assert code == 1
    assert json.loads(printed)["notes"] == [
        "1 cells failed: planner too_deep:TooDeep: num_draft_tokens is 4, expected 0 to 3"
    ]
    code, _, message = outcome(capsys, "planners", "check", "too_deep:TooDeep")
    assert code == 1
    assert message.startswith("lightspec-bench: planner too_deep:TooDeep breaks")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("run missing.yaml", "no suite 'missing.yaml'"),
        ("run --resume", "--resume needs --out"),
        ("run --seed -1 --quick", "--seed: seeds has -1, expected at least 0"),
        ("replay TRACE -p statc", "unknown planner 'statc', did you mean 'static'?"),
        ("replay TRACE -p static:kk=1", "static: unknown option 'kk', did you mean 'k'?"),
        ("replay TRACE -p static:k=4", "static: k is 4, expected 0 to 3"),
        ("replay TRACE -p schedule:ranges=[[1,4,2],[3,9,1]]", "schedule: ranges [1, 4, 2] and [3, 9, 1] overlap"),
        ("replay TRACE -p none -l h200", "unknown latency 'h200'"),
        ("replay TRACE -p none --arrivals gamma", "rate is None"),
        ("replay TRACE -p none --prefill late", "prefill is 'late', expected one of off, separate, chunked"),
        ("replay nowhere.parquet -p none", "nowhere.parquet"),
        ("replay TRACE:category=law -p none", "unknown category 'law', expected"),
        ("report nowhere", "nowhere/suite.json: is not there"),
        ("planners show orcale", "unknown planner 'orcale', did you mean 'oracle'?"),
        ("planners check oracle", "planner oracle reads the trace it runs on"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(
    argv: str, message: str, trace: str, capsys, tmp_path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    code, printed, said = outcome(capsys, *argv.replace("TRACE", trace).split())
    assert (code, printed) == (2, "")
    assert len(said.strip().splitlines()) == 1
    assert said.startswith("lightspec-bench: ")
    assert message in said
    assert [path.name for path in tmp_path.iterdir()] == ["mine.parquet"]


def damaged(trace: str, kind: str) -> None:
    """Break a good trace file in one way."""
    path, good = Path(trace), random_trace(4, num_requests=5, longest=15)
    assert good.confidence is not None
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:-200])
    elif kind == "version":
        table = pq.read_table(path)
        meta = table.schema.metadata[b"lightspec_bench"].replace(b'"schema_version": 1', b'"schema_version": 99')
        pq.write_table(table.replace_schema_metadata({b"lightspec_bench": meta}), path)
    elif kind == "negative":
        lengths = good.num_prompt_tokens.copy()
        lengths[2] = -3
        write_trace(replace(good, num_prompt_tokens=lengths), path)
    elif kind == "accepted":
        accepted = good.num_accepted.copy()
        accepted[1] = 9
        write_trace(replace(good, num_accepted=accepted), path)
    else:
        confidence = good.confidence.copy()
        confidence[1, 0] = np.nan
        write_trace(replace(good, confidence=confidence), path)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("truncated", "is not a parquet file, or is truncated or damaged"),
        ("version", "99"),
        ("negative", "-3"),
        ("accepted", "9"),
        ("nan", "nan"),
    ],
)
@pytest.mark.parametrize("command", ["replay TRACE -p none", "traces validate TRACE", "run SUITE"])
def test_a_bad_trace_is_named_by_every_command(kind, message, command, trace, capsys, tmp_path) -> None:  # type: ignore[no-untyped-def]
    suite = suite_file(tmp_path, trace)
    damaged(trace, kind)
    before = sorted(path.name for path in tmp_path.iterdir())
    argv = command.replace("TRACE", trace).replace("SUITE", f"{suite} --out {tmp_path}/out").split()
    code, _, said = outcome(capsys, *argv)
    assert code == 2
    assert len(said.strip().splitlines()) == 1
    assert said.startswith(f"lightspec-bench: {trace}")
    assert message in said.lower()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_misspelt_key_in_a_suite(trace: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    path = suite_file(tmp_path, trace, "planners:", "planer:")
    code, _, said = outcome(capsys, "run", path)
    assert (code, said) == (2, f"lightspec-bench: {path}: unknown key 'planer' in a suite, did you mean 'planners'?\n")


def test_an_unwritable_folder_is_named(trace: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "file").write_text("in the way")
    code, _, said = outcome(
        capsys, "replay", trace, "-p", "none", "-c", "2", "--no-static", "--out", f"{tmp_path}/file/x"
    )
    assert code == 2
    assert f"{tmp_path}/file/x" in said


@pytest.mark.parametrize(
    "command", ["", "run", "replay", "report", "planners", "traces", "planners show", "traces synth"]
)
def test_every_help_has_text(command: str, capsys) -> None:  # type: ignore[no-untyped-def]
    code, printed, _ = outcome(capsys, *command.split(), "--help")
    assert code == 0
    assert "Usage" in printed


def test_the_version_is_printed_by_the_installed_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from lightspec_bench.cli import main; main(['--version'])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "lightspec-bench 0.1.0\n"
