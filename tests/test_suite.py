"""Suites: what a YAML file means, and what a mistake in it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.suite import Conditions, Suite, read_suite, suite_names

TEXT = """
traces: [a, b]
latencies: [h]
concurrencies: [1, 8]
planners: [none, "static:k=2"]
seeds: [0, 1]
conditions: {prefill: off, rate: 3, arrivals: poisson}
"""


def written(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_becomes_a_suite(tmp_path: Path) -> None:
    assert read_suite(written(tmp_path, TEXT)) == Suite(
        name="mine",
        traces=("a", "b"),
        latencies=("h",),
        concurrencies=(1, 8),
        planners=("none", "static:k=2"),
        seeds=(0, 1),
        every_static=True,
        conditions=Conditions(prefill="off", rate=3.0, arrivals="poisson"),
    )


def test_cells_add_no_speculation_and_every_static_k(tmp_path: Path) -> None:
    suite = read_suite(written(tmp_path, TEXT))
    cells = list(suite.cells({"a": 2, "b": 1}))
    assert [c.planner for c in cells if (c.trace, c.concurrency, c.seed) == ("a", 1, 0)] == [
        "none",
        "static:k=0",
        "static:k=1",
        "static:k=2",
    ]
    assert len(cells) == (4 + 4) * 2 * 2  # b: K 0 and 1, and the named static:k=2
    assert len({cell.key for cell in cells}) == len(cells)


@pytest.mark.parametrize("name", suite_names())
def test_shipped_suites_are_read(name: str) -> None:
    assert read_suite(name).name == name


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds:", "seed:", r"mine.yaml: unknown key 'seed' in a suite, did you mean 'seeds'\?"),
        ("prefill:", "prefil:", r"mine.yaml: unknown key 'prefil' in conditions, did you mean 'prefill'\?"),
        ("latencies: [h]", "", "mine.yaml: key 'latencies' is missing, expected a list"),
        ("[1, 8]", "[1, x]", "mine.yaml: concurrencies has 'x', expected int"),
        ("[1, 8]", "[0]", "mine.yaml: concurrencies has 0, expected at least 1"),
        ("[1, 8]", "[]", r"mine.yaml: concurrencies is \[\], expected a list that is not empty"),
        ("[1, 8]", "[8, 8]", "mine.yaml: concurrencies names 8 twice, expected once"),
        ("[0, 1]", "[-1]", "mine.yaml: seeds has -1, expected at least 0"),
        ("rate: 3", "rate: fast", "mine.yaml: rate has 'fast', expected float or nothing"),
        ("static:k=2", "sttic:k=2", r"unknown planner 'sttic', did you mean 'static'\?"),
        ("static:k=2", "static:kk=2", r"static: unknown option 'kk', did you mean 'k'\?"),
        ("traces: [a, b]", "traces: [a", "mine.yaml line [0-9]+: is not YAML"),
        (TEXT, "- a", "mine.yaml: a suite is list, expected keys and values"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        read_suite(written(tmp_path, TEXT.replace(old, new)))


def test_an_unknown_suite_is_named() -> None:
    with pytest.raises(BenchError, match="no suite 'defalt': neither a file nor a shipped one, did you mean 'default'"):
        read_suite("defalt")
