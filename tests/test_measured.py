"""A measured run on a tiny model, from prompts to report, and the simulator held against it; and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from lightspec_bench import cli_measure, measure
from lightspec_bench.bench import open_bench
from lightspec_bench.cli_measure import asked_suite, is_measured, measure_command, validate_command
from lightspec_bench.core import BenchError
from lightspec_bench.experiment import stored_runs, stored_suite, suite_cells
from lightspec_bench.measure import fitted_to, run_measured
from lightspec_bench.measured import Measured
from lightspec_bench.measured_notes import sameness
from lightspec_bench.results import make_results
from lightspec_bench.store import read_json, write_json
from lightspec_bench.suite import Suite, measured_suite, read_suite
from tests.runners.torch_checkpoint import save_checkpoint, save_prompts
from tests.support import RoundLatency, outcome


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint and prompts for it."""
    folder = tmp_path_factory.mktemp("tiny")
    save_checkpoint(folder / "model")
    save_prompts(folder / "prompts.jsonl")
    return folder


def tiny(place: Path, **changes: Any) -> Measured:
    given: dict[str, Any] = {"max_tokens": 10, "max_draft_tokens": 3, "max_static": 1} | changes
    return Measured(str(place / "model"), "ngram", str(place / "prompts.jsonl"), **given)


def run_here(suite: Suite, folder: Path, resume: bool = False, progress: Any = None) -> list[Any]:
    assert suite.measured is not None
    bench = open_bench(suite.measured)
    return run_measured(
        fitted_to(suite, bench), bench, folder, resume=resume, progress=progress,
        make_latencies=lambda bench, numbers: dict.fromkeys(numbers, RoundLatency()),
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the command: two loads, two repeats, every static K up to 1, and a dynamic planner."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    suite = measured_suite(tiny(place), (1, 3), ("lightspec",), (0, 1))
    assert measure_command(suite, folder, resume=False, all_static=False, json_output=True) == 0
    return folder


def test_a_run_leaves_the_same_folder_as_the_simulator_labelled_measured(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert {"suite.json", "summary.csv", "summary.parquet", "report.html", "repeats.csv", "cells"} <= names
    assert {"latency-1.csv", "latency-3.csv"} <= names
    summary = pd.read_parquet(finished / "summary.parquet")
    assert set(summary["planner"]) == {"none", "static:k=0", "static:k=1", "lightspec"}
    assert len(summary) == 16
    assert set(summary["origin"]) == set(summary["latency_origin"]) == {"measured"}
    assert (summary["throughput"] > 0).all()
    page = (finished / "report.html").read_text(encoding="utf-8")
    assert "Measured; latency: cpu float32, measured" in page


def test_every_planner_puts_out_what_the_target_alone_does(finished: Path) -> None:
    cells = suite_cells(stored_suite(finished))
    found = sameness(finished, cells)
    assert (found.num_compared, found.num_different, found.planners) == (2 * 3 * (6 + 12), 0, ())
    assert make_results(finished).notes[0] == "All 108 outputs are identical to no speculation's (greedy, float32)."


def test_a_different_output_is_counted_and_its_planner_named(finished: Path, tmp_path: Path) -> None:
    cells = suite_cells(stored_suite(finished))
    for cell in cells[:3]:
        write_json(tmp_path / "outputs" / f"{cell.key}.json", {"0": [1, 2], "1": [3]})
    different = next(cell for cell in cells[:3] if cell.planner == "static:k=0")
    assert (cells[0].planner, different.seed) == ("none", 0)
    write_json(tmp_path / "outputs" / f"{different.key}.json", {"0": [1, 2], "1": [4]})
    found = sameness(tmp_path, cells[:3])
    assert (found.num_compared, found.num_different, found.planners) == (2, 1, ("static:k=0",))


def test_static_cells_are_predicted_to_the_token(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Greedy, float32, a trace by position and the same requests: only time can differ."""
    validate_command(finished, None, None, json_output=True)
    found = json.loads(capsys.readouterr().out)
    by_cell = {(cell["concurrency"], cell["planner"]): cell for cell in found["cells"]}
    assert len(by_cell) == 8
    for load in (1, 3):
        cell = by_cell[load, "static:k=1"]
        assert cell["mean_acceptance_length_predicted"] == cell["mean_acceptance_length_measured"] > 1.0
        assert not cell["held_out"]
        assert by_cell[load, "lightspec"]["held_out"]
        assert by_cell[load, "none"]["mean_acceptance_length_predicted"] is None
    assert {path.name for path in finished.glob("validation.*")} == {
        "validation.csv", "validation.html", "validation.png"
    }  # fmt: skip
    assert (finished / "trace.parquet").exists()
    assert found["targets"] == {"throughput": 0.05, "mean_acceptance_length": 0.01}
    validate_command(finished, str(finished / "trace.parquet"), str(finished / "latency-3.csv"), json_output=False)
    assert "held out" in capsys.readouterr().out


def test_a_trace_of_something_else_is_refused(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BenchError, match=r"smollm2-135m-eagle: max_draft_tokens is 11, expected 3, as in the run"):
        validate_command(finished, "smollm2-135m-eagle", None, json_output=True)


def test_an_interrupt_loses_no_finished_cell_and_resume_goes_on(place: Path, tmp_path: Path) -> None:
    suite = measured_suite(tiny(place, num_prompts=2), (1,), ("dspark",))

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_here(suite, tmp_path / "run", progress=stop)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "cells").glob("*.json")}
    assert len(kept) == 2
    with pytest.raises(BenchError, match="is not empty, expected a new folder, or --resume"):
        run_here(suite, tmp_path / "run")
    outcomes = run_here(suite, tmp_path / "run", resume=True)
    assert [outcome.status for outcome in outcomes] == ["done"] * 4
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len(list(stored_runs(suite_cells(stored_suite(tmp_path / "run")), tmp_path / "run"))) == 4


def test_an_interrupt_inside_a_cell_does_not_count_it_as_finished(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lightspec_bench.runners.torch_runner import TorchRunner

    whole = TorchRunner.run
    monkeypatch.setattr(
        TorchRunner, "run", lambda self, planner: replace(whole(self, planner), settings={"interrupted": True})
    )
    with pytest.raises(KeyboardInterrupt):
        run_here(measured_suite(tiny(place, num_prompts=2), (1,), ("dspark",)), tmp_path / "run")
    assert not (tmp_path / "run" / "cells").exists()


def test_a_planner_that_the_drafter_has_not_enough_for_is_skipped_with_the_reason(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "from lightspec_bench.planners.static import Static\n"
        "class Needy(Static):\n    requires = frozenset({'kl_divergence'})\n"
    )
    (tmp_path / "needy_planner.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    suite = measured_suite(tiny(place, num_prompts=2), (1,), ("needy_planner:Needy",), every_static=False)
    outcomes = run_here(suite, tmp_path / "run")
    reason = "needy_planner:Needy needs kl_divergence, which drafter ngram 1-4 does not give"
    assert [(outcome.status, outcome.reason) for outcome in outcomes] == [("skipped", reason)]


@pytest.mark.parametrize(
    ("changes", "planners", "message"),
    [
        ({"drafter": "ngramm"}, ("dspark",), "unknown drafter 'ngramm', did you mean 'ngram'"),
        ({"target": "./nowhere"}, ("dspark",), "model ./nowhere: no config.json"),
        ({"prompts": "nothing.jsonl"}, ("dspark",), "no such file or folder"),
        ({"max_static": 4}, ("dspark",), "max_static is 4, expected 0 to 3, as deep as ngram drafts"),
        ({"dtype": "int8"}, ("dspark",), "dtype is 'int8'"),
        ({"latency": "h201"}, ("dspark",), "unknown latency 'h201'"),
        ({}, ("static:k=9",), "k is 9, expected 0 to 3"),
        ({}, ("oracle",), "reads the trace it runs on, which this runner does not have"),
    ],
)
def test_mistakes_stop_before_anything_is_written(
    place: Path, tmp_path: Path, changes: dict[str, Any], planners: tuple[str, ...], message: str
) -> None:
    suite = measured_suite(replace(tiny(place), **changes), (1,), planners)
    with pytest.raises(BenchError, match=message):
        run_here(suite, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_empty_prompts_file_is_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(BenchError, match=r"empty.jsonl: 0 rows, expected at least one usable prompt"):
        open_bench(
            tiny(place, num_prompts=None).__class__(str(place / "model"), "ngram", str(tmp_path / "empty.jsonl"))
        )


def test_without_torch_one_sentence_says_what_to_install() -> None:
    program = (
        "import sys\nsys.modules['torch'] = None\nfrom lightspec_bench.cli import main\n"
        "main(['run', '--runner', 'torch', '--drafter', 'ngram', '--prompts', 'gsm8k'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "lightspec-bench: a measured run needs the package torch: pip install 'lightspec-bench[torch]'\n"
    )


def test_a_yaml_suite_may_name_the_torch_runner(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    lines = [
        "runner: torch", f"target: {place / 'model'}", "drafter: ngram", f"prompts: {place / 'prompts.jsonl'}",
        "max_tokens: 8", "concurrencies: [1, 2]", "planners: [dspark]", "seeds: [0, 1, 2]",
    ]  # fmt: skip
    path.write_text("\n".join(lines), encoding="utf-8")
    assert is_measured(str(path), None)
    assert read_suite(str(path)).measured == Measured(
        str(place / "model"), "ngram", str(place / "prompts.jsonl"), max_tokens=8
    )
    changed = asked_suite(str(path), {"max_tokens": 5}, "4", None, 2, None, {"num_requests": 7}, False)
    assert (changed.concurrencies, changed.seeds, changed.every_static) == ((4,), (0, 1), False)
    assert (changed.measured and changed.measured.max_tokens, changed.conditions.num_requests) == (5, 7)
    assert (changed.conditions.prefill, changed.conditions.catch_up) == ("separate", "on_resume")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runner: cuda\n", "runner is 'cuda', expected simulated, torch or vllm"),
        ("runner: torch\ntarget: a\ndrafter: ngram\n", "a measured suite has no key 'prompts'"),
        ("runner: torch\ntraces: [a]\n", "unknown key 'traces' in a measured suite"),
        ("runner: torch\ntarget: a\ndrafter: b\nprompts: c\nplanners: [dspark]\n", "key 'concurrencies' is missing"),
    ],
)
def test_mistakes_in_a_yaml_suite_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BenchError, match=message):
        read_suite(str(path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--drafter", "ngram"], "--drafter is for measured runs, expected --runner torch or vllm"),
        (["run", "--runner", "torch", "--prompts", "gsm8k"], "--runner torch needs --drafter"),
        (["run", "--runner", "gpu"], "--runner is 'gpu', expected simulated, torch or vllm"),
        (["run", "--runner", "torch", "-d", "ngram", "--prompts", "gsm8k", "-c", "x"], "--concurrency is 'x'"),
        (["run", "--runner", "vllm", "-d", "ngram", "--prompts", "a", "--graph-sizes", "1"], "graph sizes are for the"),
        (["run", "--runner", "torch", "-d", "ngram", "--jobs", "2"], "--jobs is for simulated runs"),
        (["validate", "nowhere"], "nowhere/suite.json: is not there"),
    ],
)
def test_the_command_line_says_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = outcome(capsys, *arguments)
    assert code == 2
    assert message in said


def test_a_simulated_run_is_not_validated(tmp_path: Path) -> None:
    suite = replace(measured_suite(Measured("a", "b", "c"), (1,), ("dspark",)), measured=None)
    from dataclasses import asdict

    write_json(tmp_path / "suite.json", asdict(suite))
    with pytest.raises(BenchError, match="is a simulated run, expected one of `run --runner torch` or `vllm`"):
        validate_command(tmp_path, None, None, json_output=True)


def test_what_is_stored_comes_back(finished: Path) -> None:
    suite = stored_suite(finished)
    assert suite.measured is not None
    assert suite.measured.max_static == 1
    cell, run = next(iter(stored_runs(suite_cells(suite), finished)))
    assert run.settings["request_names"] == [f"p{row}" for row in range(6)]
    assert run.settings["drafter"] == {"name": "ngram 1-4", "kind": "ngram", "max_draft_tokens": 3}
    assert run.settings["planners_were_told"]["name"] == "served-1"
    assert set(read_json(finished / measure.OUTPUTS / f"{cell.key}.json")) == {str(row) for row in range(6)}
    assert cli_measure.DEFAULT_PLANNERS
