"""The example of a third party's package does what its README says, without being installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lightspec_bench.cli import main
from lightspec_bench.core import Plan
from lightspec_bench.registry import make_planner
from tests.planners.support import batch, engine, step

FOLDER = Path(__file__).parent.parent / "examples" / "plugin"
SPEC = "plausible_planner:Plausible"

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="needs a checkout")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def test_its_decisions() -> None:
    planner = make_planner(f"{SPEC}:survival=0.5,headroom=1", engine(4))
    confidence = [[0.9, 0.8, 0.7, 0.9], [0.4, 0.9, 0.9, 0.9], [0.9, 0.9, 0.9, np.nan]]
    plan = planner.plan(batch([4, 4, 2], confidence=confidence))
    assert plan.num_verify_tokens is not None
    # Survival 0.9, 0.72, 0.504, 0.45; 0.4, ...; three likely ones, of which two are pending.
    assert (plan.num_draft_tokens, plan.num_verify_tokens.tolist()) == (4, [3, 0, 2])
    for _ in range(100):
        planner.observe(step(Plan(4, 9), [4, 0], [3, 0], [1, 0]))
    assert planner.plan(batch([0, 0], confidence=np.full((2, 4), np.nan).tolist())).num_draft_tokens == 2


def test_its_own_test_passes() -> None:
    path = os.pathsep.join([str(FOLDER), str(FOLDER.parent.parent)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_plausible.py"]
    done = subprocess.run(command, cwd=FOLDER, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [["planners", "check", SPEC], ["planners", "show", SPEC]])
def test_the_command_line_takes_it_by_its_path(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert not ended.value.code
    assert SPEC in capsys.readouterr().out


def test_its_entry_point_is_its_class() -> None:
    text = (FOLDER / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'\[project\.entry-points\."lightspec_bench\.planners"\]\nplausible = "(.*)"\n', text)[1] == SPEC  # type: ignore[index]
    assert 'py-modules = ["plausible_planner"]' in text


def test_it_is_short() -> None:
    source = (FOLDER / "plausible_planner.py").read_text(encoding="utf-8").partition("class Plausible")[2]
    assert len([line for line in source.splitlines() if line.strip()]) <= 30
