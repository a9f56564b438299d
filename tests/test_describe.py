"""What planners say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.describe import describe
from lightspec_bench.names import PLANNERS


def test_a_description_is_read_off_the_class() -> None:
    found = describe("static:k=2")
    assert (found.name, found.target) == ("static:k=2", "lightspec_bench.planners.static:Static")
    assert (found.confidence, found.requires, found.uses_drafter, found.reads_trace) == ("none", (), True, False)
    assert [(option.name, option.default) for option in found.options] == [("k", None)]
    assert found.given == {"k": 2}
    assert found.module == (
        "Static K: verify everything that is pending, draft the same number of tokens at every step."
    )
    assert found.rule.startswith("What an engine does with a fixed `num_speculative_tokens`")
    assert found.needs == "nothing of the trace"


def test_the_oracle_needs_the_trace() -> None:
    assert describe("oracle").needs == "the trace it runs on"


@pytest.mark.parametrize("name", PLANNERS)
def test_every_shipped_planner_has_a_page(name: str) -> None:
    found = describe(name)
    assert found.module
    assert found.summary
    assert {"name", "class", "summary", "rule", "confidence", "requires", "options"} <= set(found.document)


def test_a_class_that_declares_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "declares_nothing.py").write_text("class Bare:\n    pass\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BenchError, match="planner 'declares_nothing:Bare' does not declare 'confidence', expected"):
        describe("declares_nothing:Bare")
