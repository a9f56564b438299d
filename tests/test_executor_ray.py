"""A suite on a local Ray of two workers, one of them killed in the middle of a cell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lightspec_bench.cli import main
from lightspec_bench.core import BenchError
from lightspec_bench.executor_ray import RayExecutor, _remote_cell
from lightspec_bench.experiment import run_suite, stored_suite
from lightspec_bench.inputs import simulator_digest
from lightspec_bench.suite import Cell, Conditions
from tests.support import RoundLatency, random_trace
from tests.test_executor import assert_same_runs, suite_of

pytest.importorskip("ray")

# In a process of its own: Ray leaves threads and open files behind, which the tests take for mistakes.
PROGRAM = """
import json, sys
from pathlib import Path
from lightspec_bench.executor_ray import RayExecutor
from lightspec_bench.experiment import run_suite, stored_suite

if __name__ == "__main__":
    like, out, seen = Path(sys.argv[1]), Path(sys.argv[2]), []
    suite = stored_suite(like)
    outcomes = run_suite(suite, out, jobs=2, resume=False, progress=lambda *n: seen.append(n), executor=RayExecutor)
    again = run_suite(suite, out, jobs=2, resume=True, progress=lambda *n: seen.append(n), executor=RayExecutor)
    print(json.dumps([[[o.key, o.status, o.reason] for o in outcomes], len(again), seen]))
"""


def test_a_killed_worker_loses_no_cell_and_repeats_no_other(tmp_path: Path) -> None:
    (tmp_path / "death-0").touch()  # the comparison run is not killed
    suite = suite_of(tmp_path, "dspark", f"tests.dying_planners:Dies:folder={tmp_path}")
    run_suite(suite, tmp_path / "alone", jobs=1, resume=False)
    for left in ("death-0", "started"):
        (tmp_path / left).unlink()
    arguments = [str(tmp_path / "alone"), str(tmp_path / "ray")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr
    outcomes, num_again, seen = json.loads(done.stdout.strip().splitlines()[-1])
    assert (tmp_path / "death-0").exists()
    assert {status for _, status, _ in outcomes} == {"done"}
    assert len({key for key, _, _ in outcomes}) == len(outcomes) == num_again == 14
    assert seen == [[number, 14] for number in range(1, 15)]  # nothing is run again
    assert len((tmp_path / "started").read_text().splitlines()) == 3  # one of its two cells twice
    assert stored_suite(tmp_path / "ray") == suite
    assert_same_runs(suite, tmp_path / "alone", tmp_path / "ray")
    command = json.loads(next((tmp_path / "ray" / "cells").glob("*.json")).read_text())["environment"]["command"]
    assert "redis" not in command


def test_a_node_with_other_code_is_named() -> None:
    cell = Cell("trace", "round", 1, "none", 0, Conditions())
    arguments = cell, random_trace(1), RoundLatency()
    error, files = _remote_cell(*arguments, ("other", "code"), [])
    assert "has other code of lightspec-bench than this process, expected the same" in str(error)
    assert files == {}
    error, _ = _remote_cell(*arguments, (simulator_digest(), "other"), [])
    assert "has other code of planner none than this process" in str(error)


def test_ray_is_asked_for_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BenchError, match=r"needs the package ray: pip install 'lightspec-bench\[ray\]'"):
        run_suite(suite_of(tmp_path, "none"), tmp_path / "out", jobs=1, resume=False, executor=RayExecutor)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--executor", "slurm"], "--executor is 'slurm', expected process or ray"),
        (["--ray-address", "auto"], "--ray-address is for a Ray cluster, expected --executor ray with it"),
        (["--trials", "3"], "--trials is 3, expected --search bayes or random with it"),
        (["--search", "grid", "--trials", "3"], "--trials is 3, expected none: a grid has as many trials as points"),
    ],
)
def test_options_that_do_not_go_together_are_one_sentence(argv: list[str], message: str, capsys) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as ended:
        main(["run", "--quick", *argv])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
