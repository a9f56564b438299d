"""Ties: where outputs part from those of no speculation, and how far apart the target finds the two tokens."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lightspec_bench.measured import Measured
from lightspec_bench.store import write_json
from lightspec_bench.suite import Cell, measured_suite
from lightspec_bench.ties import TIES, look_at_ties, partings, read_ties, steps_apart


def cells() -> list[Cell]:
    suite = measured_suite(Measured("t", "ngram", "p", dtype="bfloat16", max_static=1), (1,), ("static:k=0",))
    return [cell for cell in suite.cells({suite.traces[0]: 1}) if cell.planner in ("none", "static:k=0", "static:k=1")]


def keep(folder: Path, cell: Cell, outputs: dict[str, list[int]]) -> None:
    write_json(folder / "outputs" / f"{cell.key}.json", outputs)


class Target:
    """Prompts of one token each, and logits as given."""

    def __init__(self, logits: list[Any] | None) -> None:
        self.given, self.asked = logits, []  # type: ignore[var-annotated]
        self.engine = self
        self.requests = [SimpleNamespace(tokens=[5]), SimpleNamespace(tokens=[6])]

    def logits(self, texts: Any, tokens: Any) -> list[Any] | None:
        self.asked.append((texts, tokens))
        return self.given


def test_the_logits_are_asked_for_where_outputs_part(tmp_path: Path) -> None:
    none, zero, one = cells()
    keep(tmp_path, none, {"0": [1, 2, 3], "1": [4, 5], "2": [1, 2, 3]})
    keep(tmp_path, zero, {"0": [1, 2, 3], "1": [4, 5], "2": [1, 2, 3]})
    keep(tmp_path, one, {"0": [1, 9, 3], "1": [4, 5, 6], "2": [8, 2, 3]})
    assert [(p.request, p.position, p.plain, p.other) for p in partings(tmp_path, cells())] == [
        (0, 1, 2, 9),
        (1, 2, None, 6),
        (2, 0, 1, 8),
    ]
    target: Any = Target([(20.125, 20.0), None])
    look_at_ties(tmp_path, cells(), target)
    assert target.asked == [([[5, 1], [5]], [(2, 9), (1, 8)])]  # an output that ends leaves nothing to compare
    found = read_ties(tmp_path, "bfloat16")
    assert found is not None
    assert (found.num_partings, found.num_ties, found.steps[0]) == (3, 1, 1.0)
    keep(tmp_path, one, {"0": [1, 2, 3], "1": [4, 5], "2": [1, 2, 3]})
    look_at_ties(tmp_path, cells(), target)
    assert not (tmp_path / TIES).exists()


def test_an_engine_that_shows_no_logits_leaves_nothing(tmp_path: Path) -> None:
    none, _, one = cells()
    keep(tmp_path, none, {"0": [1]})
    keep(tmp_path, one, {"0": [2]})
    target: Any = Target(None)
    look_at_ties(tmp_path, cells(), target)
    assert read_ties(tmp_path, "bfloat16") is None


@pytest.mark.parametrize(
    ("first", "second", "dtype", "steps"),
    [
        (20.125, 20.0, "bfloat16", 1.0),  # 16 to 32 in 128 steps
        (-3.0, -3.03125, "bfloat16", 2.0),
        (20.015625, 20.0, "float16", 1.0),
        (0.0, 0.0, "float32", 0.0),
        (1.0, 1.0 + 2.0**-23, "float32", 1.0),
    ],
)
def test_distances_are_counted_in_steps_of_the_dtype(first: float, second: float, dtype: str, steps: float) -> None:
    assert steps_apart(first, second, dtype) == steps
