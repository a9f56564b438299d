"""The documentation's own examples work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import Planner
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.suite import Suite, read_suite
from tests.support import config_for, random_trace

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(not (ROOT / "CONTRIBUTING.md").exists(), reason="needs a checkout")


def block(document: str, language: str) -> str:
    """The first fenced block of a language in a document."""
    found = re.search(rf"```{language}\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def test_the_planner_of_contributing_is_sound_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = block("CONTRIBUTING.md", "python")
    assert len([line for line in source.splitlines() if line.strip()]) <= 15
    (tmp_path / "half.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert check_planner("half:HalfBudget") == []
    trace = random_trace(1)
    config = config_for(trace, 4)
    planner: Planner = make_planner("half:HalfBudget:k=3", config)
    totals = SimulatedRunner(trace, config, Load(4)).run(planner).totals
    assert totals.outcomes[1:].sum() > 0


def test_the_suite_of_the_docs_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(block("docs/suites.md", "yaml"), encoding="utf-8")
    suite = read_suite(str(tmp_path / "mine.yaml"))
    assert isinstance(suite, Suite)
    assert suite.seeds == (0, 1, 2)


def test_documents_link_to_what_exists() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"
