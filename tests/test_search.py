"""The search: what it tries, what it gives up early, what it finds on requests it never saw; and that it goes on."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lightspec_bench.cell_run import Outcome
from lightspec_bench.cli import main
from lightspec_bench.core import BenchError
from lightspec_bench.executor_process import ProcessExecutor
from lightspec_bench.experiment import run_cell
from lightspec_bench.reports.metrics import throughput
from lightspec_bench.search import Found, search
from lightspec_bench.search_space import Choice, Range, default_options, grid, num_points, read_search
from lightspec_bench.store import read_json
from lightspec_bench.suite import Cell, Conditions, Suite
from lightspec_bench.traces.format import write_trace
from lightspec_bench.traces.library import load_trace
from tests.support import random_trace

pytest.importorskip("optuna")

SCALE = Path(__file__).parent.parent / "docs" / "scale.md"
LATENCY = "h100-llama-3.1-8b"
EXACT = Conditions(planner_time="off")
DEPTHS = {"static": {"k": Range(1, 3)}}
WEIGHTS = {"request-ema": {"weight": Range(0.01, 1.0, log=True), "min_k": Choice((0, 1))}}


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    write_trace(random_trace(5, num_requests=16, longest=16), tmp_path / "trace.parquet")
    return Suite("tiny", (str(tmp_path / "trace.parquet"),), (LATENCY,), (1, 2), ("none",), conditions=EXACT)


def searched(suite: Suite, planner: str, concurrency: int) -> float:
    """Throughput of a planner on the half of the requests that is searched."""
    trace = suite.traces[0]
    return throughput(
        run_cell(Cell(trace, LATENCY, concurrency, planner, 0, EXACT, trace_spec=f"{trace}:part=1/2")).totals
    )


def states(found: Found) -> list[str]:
    return [trial.state for trial in found.trials]


def test_a_grid_tries_every_point_and_compares_the_best_on_the_other_half(suite: Suite, tmp_path: Path) -> None:
    (found,) = search(suite, DEPTHS, "grid", 99, tmp_path / "out", jobs=1)
    assert sorted(trial.options["k"] for trial in found.trials) == [1, 2, 3]
    for trial in found.trials:
        logs = [math.log(searched(suite, trial.spec, c) / searched(suite, "static", c)) for c in (1, 2)]
        if trial.state == "complete":
            assert trial.scores[1.0] == pytest.approx(math.exp(sum(logs) / 2))
    assert found.best.scores[1.0] == max(t.scores[1.0] for t in found.trials if t.state == "complete")
    finals = [read_json(path)["settings"] for path in (tmp_path / "out" / "final" / "cells").glob("*.json")]
    assert {(cell["trace_spec"], cell["seed"]) for cell in finals} == {(f"{suite.traces[0]}:part=2/2", 1)}
    assert {cell["planner"] for cell in finals} == {"none", "static", *(f"static:k={k}" for k in range(4))}
    assert set(found.ratios) == {"default", "none", "best-static"}
    assert found.ratios["best-static"].value <= 1.0  # hindsight, on the half that is compared


def test_the_halves_have_no_request_in_common(suite: Suite) -> None:
    whole, one, other = (load_trace(suite.traces[0] + part).request_id for part in ("", ":part=1/2", ":part=2/2"))
    assert set(one) | set(other) == set(whole)
    assert len(one) == len(other) == len(whole) / 2
    assert not set(one) & set(other)
    with pytest.raises(BenchError, match="part is '3/2', expected a number of parts such as 1/2, of 16 requests"):
        load_trace(suite.traces[0] + ":part=3/2")


def test_what_falls_behind_on_few_requests_is_given_up(suite: Suite, tmp_path: Path) -> None:
    (found,) = search(suite, WEIGHTS, "bayes", 8, tmp_path / "out", jobs=1)
    assert len(found.trials) == 8
    assert found.trials[0].options == {"weight": 0.3, "min_k": 1}  # the defaults come first, and are no gain
    assert found.trials[0].scores[0.25] == 1.0
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned
    for trial in pruned:
        last = max(trial.scores)
        assert last < 1.0
        assert trial.scores[last] <= max(other.scores.get(last, 0.0) for other in found.trials)
    assert all(set(trial.scores) == {0.25, 0.5, 1.0} for trial in found.trials if trial.state == "complete")


def test_options_that_cannot_be_built_are_failed_trials_with_the_reason(suite: Suite, tmp_path: Path) -> None:
    (found,) = search(suite, {"static": {"k": Range(3, 4)}}, "grid", 9, tmp_path / "out", jobs=1)
    assert [(t.options["k"], t.state, t.reason) for t in found.trials] == [
        (3, "complete", ""),
        (4, "failed", "static: k is 4, expected 0 to 3 (the drafter's max_draft_tokens)"),
    ]


class Interrupted(ProcessExecutor):
    """Is interrupted after some cells."""

    left = 5

    def run(self, cells: Sequence[Cell]) -> Iterator[Outcome]:
        for outcome in super().run(cells):
            yield outcome
            type(self).left -= 1
            if type(self).left == 0:
                raise KeyboardInterrupt


def test_an_interrupted_search_goes_on_where_it_was(suite: Suite, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        search(suite, WEIGHTS, "random", 6, folder, jobs=1, executor=Interrupted)
    with (folder / "search.journal").open("ab") as file:
        file.write(b'{"op_code": 5, "wor')  # as a killed run leaves it
    kept = {path: path.stat().st_mtime_ns for path in (folder / "cells").iterdir()}
    (found,) = search(suite, WEIGHTS, "random", 6, folder, jobs=1, resume=True)
    assert len(found.trials) == 6
    assert "failed" not in states(found)
    assert len({json.dumps(trial.options) for trial in found.trials}) == 6
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in (folder / "cells").iterdir()}.items()
    (again,) = search(suite, WEIGHTS, "random", 6, folder, jobs=1, resume=True)
    assert again.trials == found.trials
    with pytest.raises(BenchError, match="is not empty, expected a new folder, or --resume"):
        search(suite, WEIGHTS, "random", 6, folder, jobs=1)


def test_the_command_reads_ranges_and_prints_one_document(suite: Suite, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    text = (
        f"traces: ['{suite.traces[0]}']\nlatencies: [{LATENCY}]\nconcurrencies: [2]\n"
        "planners: [none, static: {k: {range: [1, 2]}}]\nconditions: {planner_time: off}\n"
    )
    (tmp_path / "ranges.yaml").write_text(text, encoding="utf-8")
    argv = ["run", str(tmp_path / "ranges.yaml"), "--out", str(tmp_path / "out"), "--jobs", "1"]
    with pytest.raises(SystemExit) as ended:
        main([*argv, "--search", "grid", "--json"])
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert document == read_json(tmp_path / "out" / "search.json")
    (entry,) = document["planners"]
    assert (entry["planner"], entry["num_trials"]) == ("static", 2)
    assert set(entry["ratios"]) == {"default", "none", "best-static"}
    assert "never saw" in document["held_out"]
    assert (tmp_path / "out" / "final" / "report.html").exists()
    assert len((tmp_path / "out" / "trials.csv").read_text().splitlines()) == 3
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "static has ranges, expected --search bayes, grid or random" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        ("static: {k: {range: [3, 1]}}", r"static: k has range \[3, 1\], expected two numbers, the lower one first"),
        ("static: {k: {range: [1, x]}}", r"static: k has range \[1, 'x'\]"),
        ("static: {k: {rnge: [1, 2]}}", "unknown key 'rnge' in static: k, did you mean 'range'"),
        ("static: {k: {log: true}}", "static: k is {'log': True}, expected a range or a choice"),
        ("static: {k: {range: [0, 3], log: true}}", "static: k has log True, expected true only above 0"),
        ("static: {k: {range: [1, 3], step: 5}}", "static: k has step 5, expected a number above 0 within the range"),
        ("static: {k: {choice: []}}", r"static: k has choice \[\], expected a list of numbers or words"),
        ("static: {k: {range: [0.5, 2.5]}}", "static: option k is 0.5, expected int"),
        ("static: {kk: {range: [1, 3]}}", "static: unknown option 'kk', did you mean 'k'"),
        ("static: 3", "planner static has 3, expected options with a range or a choice each"),
    ],
)
def test_mistakes_in_spaces_are_one_sentence(suite: Suite, tmp_path: Path, planner: str, message: str) -> None:
    text = f"traces: ['{suite.traces[0]}']\nlatencies: [{LATENCY}]\nconcurrencies: [2]\nplanners: [{planner}]\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(BenchError, match=f"mine.yaml: .*{message}|mine.yaml: {message}"):
        read_search(str(tmp_path / "mine.yaml"))


def test_mistakes_of_a_search_are_one_sentence(suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError, match="--search is 'luck', expected one of bayes, grid, random"):
        search(suite, DEPTHS, "luck", 1, tmp_path / "out")  # type: ignore[arg-type]
    with pytest.raises(BenchError, match="suite tiny gives no planner a range or a choice"):
        search(suite, {}, "grid", 1, tmp_path / "out")
    halved = replace(suite, traces=(f"{suite.traces[0]}:part=1/2",))
    with pytest.raises(BenchError, match="part is '1/2', expected none: the search takes a half of it"):
        search(halved, DEPTHS, "grid", 1, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(BenchError, match=r"--search needs the package optuna: pip install 'lightspec-bench\[search\]'"):
        search(suite, DEPTHS, "grid", 1, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_spaces_have_grids_and_defaults() -> None:
    assert Range(1, 4).grid() == (1, 2, 3, 4)
    assert Range(8, 32, step=8).grid() == (8, 16, 24, 32)
    assert Range(0.0, 1.0).grid() == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert Range(1, 16, log=True).grid() == (1, 2, 4, 8, 16)
    assert Range(0.0, 0.3, step=0.1).grid() == (0.0, 0.1, 0.2, pytest.approx(0.3))
    both = {"weight": Range(0.1, 0.5, step=0.1), "min_k": Choice((0, 1))}
    assert len(grid(both)) == num_points(both) == 10
    assert num_points(WEIGHTS["request-ema"]) == math.inf
    assert default_options("request-ema", both) == {"weight": 0.3, "min_k": 1}
    assert default_options("request-ema:weight=0.7", both) is None


@pytest.mark.skipif(not SCALE.exists(), reason="needs a checkout")
def test_the_ranges_of_the_docs_are_read(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", SCALE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "ranges.yaml").write_text(next(b for b in blocks if "range:" in b), encoding="utf-8")
    suite, spaces = read_search(str(tmp_path / "ranges.yaml"))
    assert suite.planners == ("lightspec-reference", "request-ema", "confidence-exit")
    assert spaces["request-ema"]["weight"] == Range(0.02, 0.9, log=True)
    assert spaces["confidence-exit"] == {"threshold": Range(0.1, 0.9, step=0.1), "scope": Choice(("request", "mean"))}
