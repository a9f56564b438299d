"""`lightspec-bench planners`: what list and show say of planners, ours and installed ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightspec_bench.names import PLANNERS, SECTIONS
from tests.support import outcome

MODULE = '''"""Mine: a planner of a third party."""
from lightspec_bench.planners.static import Static

class Mine(Static):
    """Drafts a number. Source: nowhere."""

    def __init__(self, config, *, depth: int, lazy: bool = False):
        super().__init__(config, depth)
        self.requires = frozenset({"entropy"}) if lazy else frozenset()
        self.confidence = "current" if lazy else "none"
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with one sound planner and one that does not import."""
    folder = tmp_path / "mine-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n", encoding="utf-8")
    entries = "[lightspec_bench.planners]\nmine = cli_mine:Mine\nzz-broken = cli_mine_broken:Mine\n"
    (folder / "entry_points.txt").write_text(entries, encoding="utf-8")
    (tmp_path / "cli_mine.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "cli_mine_broken.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_list_groups_all_planners_and_survives_a_broken_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = outcome(capsys, "planners", "list", "--json")
    rows = json.loads(printed)
    assert code == 0
    assert [row["name"] for row in rows] == [*PLANNERS, "mine", "zz-broken"]
    assert {row["section"] for row in rows} == {*SECTIONS, "installed"}
    assert rows[-1]["error"] == "planner 'zz-broken' cannot be imported: ZeroDivisionError: division by zero"
    code, printed, _ = outcome(capsys, "planners", "list")
    lines = [line.strip() for line in printed.splitlines()]
    assert code == 0
    assert [line for line in lines if line in (*SECTIONS, "installed")] == [*SECTIONS, "installed"]
    assert any(line.startswith("zz-broken") and "division by zero" in line for line in lines)


@pytest.mark.usefixtures("installed")
def test_show_prints_rule_options_and_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(capsys, "planners", "show", "mine:depth=2,lazy=true") == (
        0,
        "mine:depth=2,lazy=true\n\n"
        "Mine: a planner of a third party.\n\nDrafts a number. Source: nowhere.\n\n"
        "class        cli_mine:Mine\n"
        "confidences  waits for those of the pending proposals\n"
        "requires     entropy\n"
        "drafter      loaded\n"
        "options\n"
        "  depth: int, required, given 2\n"
        "  lazy: bool, default False, given True\n",
        "",
    )


@pytest.mark.usefixtures("installed")
def test_show_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = outcome(capsys, "planners", "show", "mine", "--json")
    assert code == 0
    assert json.loads(printed) == {
        "name": "mine",
        "class": "cli_mine:Mine",
        "summary": "Drafts a number. Source: nowhere.",
        "rule": "Drafts a number. Source: nowhere.",
        "module": "Mine: a planner of a third party.",
        "confidence": "none",
        "confidence_words": "reads none",
        "requires": [],
        "needs": "nothing of the trace",
        "uses_drafter": True,
        "given": {},
        "options": [
            {"name": "depth", "type": "int", "default": None, "required": True},
            {"name": "lazy", "type": "bool", "default": False, "required": False},
        ],
    }


def test_a_wrapper_shows_what_the_planner_inside_needs(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = outcome(capsys, "planners", "show", "clamp:most=4,planner=(dwell:planner=dspark)", "--json")
    shown = json.loads(printed)
    assert code == 0
    assert (shown["confidence"], shown["requires"]) == ("lagged", ["confidence"])
    assert shown["given"] == {"most": 4, "planner": "dwell:planner=dspark"}
    assert "oracle" not in printed
    assert json.loads(outcome(capsys, "planners", "show", "oracle", "--json")[1])["needs"] == "the trace it runs on"
    assert "drafter      none is loaded\n" in outcome(capsys, "planners", "show", "none")[1]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("clmp", "unknown planner 'clmp', did you mean 'clamp'?"),
        ("clamp:mots=3", "clamp: unknown option 'mots', did you mean 'most'?"),
        ("clamp:planner=(statik)", "unknown planner 'statik', did you mean 'static'?"),
        ("clamp:planner=oracle", "clamp: planner oracle reads the trace it runs on"),
        ("zz-broken", "planner 'zz-broken' cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.usefixtures("installed")
def test_mistakes(command: str, spec: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, said = outcome(capsys, "planners", command, spec)
    assert (code, printed) == (2, "")
    assert said.startswith("lightspec-bench: ")
    assert message in said
    assert len(said.splitlines()) == 1
