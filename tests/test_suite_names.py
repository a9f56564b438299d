"""Suites with names of their own for traces and latency models, and published figures: meaning and mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lightspec_bench.cli import main
from lightspec_bench.core import BenchError
from lightspec_bench.reports.published import Claim, Input, Published
from lightspec_bench.suite import Cell, Conditions, Suite, read_suite
from lightspec_bench.traces.format import write_trace
from tests.support import random_trace

SUITES_DOC = Path(__file__).parent.parent / "docs" / "suites.md"
TEXT = """
traces: {short: "a:requests=2"}
latencies:
  served: {latency: "h100-llama-3.1-8b:host_step_ms=9", prefill: separate}
  ideal: h100-llama-3.1-8b
concurrencies: [2]
planners: [lightspec-reference]
conditions: {planner_time: off, num_requests: 4}
published:
  name: Paper
  source: a paper
  claims: [{trace: short, against: "static:k=3", throughput_ratio: 2}]
  inputs: [{what: host, value: 9 ms, origin: fitted, how: by hand}]
  notes: [one sentence]
"""


def written(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_names_stand_for_specs_and_conditions(tmp_path: Path) -> None:
    base = Conditions(planner_time="off", num_requests=4)
    served = Conditions(planner_time="off", num_requests=4, prefill="separate")
    suite = read_suite(written(tmp_path, TEXT))
    assert suite == Suite(
        name="mine",
        traces=("short",),
        latencies=("served", "ideal"),
        concurrencies=(2,),
        planners=("lightspec-reference",),
        conditions=base,
        specs={
            "short": "a:requests=2",
            "served": "h100-llama-3.1-8b:host_step_ms=9",
            "ideal": "h100-llama-3.1-8b",
        },
        conditions_at={"served": served},
        published=Published(
            "Paper",
            "a paper",
            (Claim("short", "static:k=3", throughput_ratio=2.0),),
            (Input("host", "9 ms", "fitted", "by hand"),),
            ("one sentence",),
        ),
    )
    first, *_, last = suite.cells({"short": 3})
    assert first == Cell("short", "served", 2, "none", 0, served, "a:requests=2", "h100-llama-3.1-8b:host_step_ms=9")
    assert (last.latency, last.conditions, last.latency_spec) == ("ideal", base, "h100-llama-3.1-8b")


@pytest.mark.skipif(not SUITES_DOC.exists(), reason="needs a checkout")
def test_the_examples_of_the_docs_are_read(tmp_path: Path) -> None:
    _, names, published = re.findall(r"```yaml\n(.*?)```", SUITES_DOC.read_text(encoding="utf-8"), re.DOTALL)
    suite = read_suite(written(tmp_path, f"{names}{published}concurrencies: [1]\nplanners: [dspark]\n"))
    assert suite.conditions_at["end to end"].prefill == "separate"
    assert suite.published
    assert suite.published.claims == (Claim("chat", "static:k=7", throughput_ratio=1.2),)


def test_the_command_line_shows_published_figures_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "mine.parquet"
    write_trace(random_trace(4, num_requests=5, longest=15), trace)
    suite = written(tmp_path, TEXT.replace("a:requests=2", str(trace)))
    out = tmp_path / "results"
    with pytest.raises(SystemExit):
        main(["run", suite, "--out", str(out), "--jobs", "1"])
    printed = capsys.readouterr().out
    shown = ("Paper", "short · 2 requests, against static:k=3", "quoted", "+100.0 %", "- one sentence")
    assert [words for words in shown if words not in printed] == []
    assert "Dynamic planning" not in printed  # the usual answers are on the page
    with pytest.raises(SystemExit):
        main(["report", str(out), "--json"])
    (document,) = json.loads(capsys.readouterr().out)
    (group,) = document["published"]
    assert group["rows"][0]["quoted"]["throughput_ratio"] == 2.0
    assert set(group["rows"][1]["at"]) == {"served", "ideal"}
    text = (out / "report.html").read_text(encoding="utf-8")
    assert "Beside the published figures" in text
    assert sorted(path.name for path in out.glob("*.png")) == ["acceptance.png", "timeline_1.png", "waterfall.png"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{short:", "{served:", "mine.yaml: 'served' names a trace and a latency model, expected one of them"),
        ('{short: "a:requests=2"}', "{}", r"mine.yaml: traces is \{\}, expected entries"),
        ('"a:requests=2"', "3", "mine.yaml: traces, 'short', has 3, expected str"),
        ("{latency:", "{latenci:", "mine.yaml: latency model 'served' has no key 'latency', expected its spec"),
        ("prefill:", "prefil:", "unknown key 'prefil' in latency model 'served', did you mean 'prefill'"),
        ("  name: Paper\n", "", "mine.yaml: published has no key 'name', expected one"),
        ("against:", "vs:", "mine.yaml: unknown key 'vs' in a claim"),
        (', against: "static:k=3"', "", "mine.yaml: a claim has no key 'against', expected one"),
        (
            "throughput_ratio: 2",
            "throughput_ratio: x",
            "mine.yaml: throughput_ratio has 'x', expected float or nothing",
        ),
        ("[one sentence]", "one sentence", "mine.yaml: notes is 'one sentence', expected a list"),
        ("trace: short,", "trace: shrt,", "mine.yaml: a claim is on trace 'shrt', did you mean 'short'"),
        ("static:k=3", "dspark", "mine.yaml: a claim is against 'dspark', expected a planner of the suite"),
        ("fitted", "guessed", "input 'host': origin is 'guessed'"),
        ("[one sentence]", "[3]", "mine.yaml: notes has 3, expected str"),
        ("[{trace", "{trace", "mine.yaml line"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(BenchError, match=message):
        read_suite(written(tmp_path, TEXT.replace(old, new)))
