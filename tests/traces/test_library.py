"""Naming traces: shipped names, files, and parts of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.traces.format import write_trace
from lightspec_bench.traces.library import first_requests, load_trace, select, trace_names, without_loops
from lightspec_bench.traces.validate import check_trace
from tests.traces.tiny import assert_same, tiny_trace


def test_five_traces_ship() -> None:
    recorded = [f"smollm2-135m-{name}" for name in ("eagle", "ngram", "parallel", "suffix")]
    names = ["qwen2.5-14b-levvius", *recorded]
    assert trace_names() == names
    assert [load_trace(name).info.name for name in names] == names


def test_select_takes_categories() -> None:
    code = select(tiny_trace(), "code")
    assert code.request_id.tolist() == ["b"]
    assert code.num_accepted.tolist() == [0, 1, 0]
    assert code.offsets.tolist() == [0, 3]
    assert_same(select(tiny_trace(), "code", "chat"), tiny_trace())


def test_without_loops_cuts_and_drops() -> None:
    cut = without_loops(tiny_trace(repeats_from=np.array([3, 1])))
    assert cut.request_id.tolist() == ["a"]  # "b" would be left with 1 token
    assert cut.num_output_tokens.tolist() == [3]
    assert cut.repeats_from.tolist() == [3]
    assert cut.num_accepted.tolist() == [0, 1, 0]  # was 0, 2, 1: accepted tokens end before the new last one
    check_trace(cut, "cut")


def test_first_requests() -> None:
    assert first_requests(tiny_trace(), 1).request_id.tolist() == ["a"]
    assert_same(first_requests(tiny_trace(), 2), tiny_trace())


def test_a_spec_names_a_file_and_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_trace(tiny_trace(), "t.parquet")
    assert_same(load_trace("t.parquet"), tiny_trace())
    part = load_trace("t.parquet:category=[code,chat],loops=drop,requests=1")
    assert part.info.name == "tiny:category=[code,chat],loops=drop,requests=1"
    assert part.request_id.tolist() == ["a"]
    write_trace(tiny_trace(), "smollm2-135m-eagle")  # an existing file wins over a shipped name
    assert load_trace("smollm2-135m-eagle").info.name == "tiny"


def test_a_shipped_part_is_valid_and_says_what_it_is() -> None:
    part = load_trace("smollm2-135m-ngram:category=humaneval,loops=drop,requests=5")
    assert part.info.name == "smollm2-135m-ngram:category=humaneval,loops=drop,requests=5"
    assert part.num_requests == 5
    assert (part.repeats_from == part.num_output_tokens).all()
    check_trace(part, "part")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("smollm2-135m-eagel", "unknown trace 'smollm2-135m-eagel', did you mean 'smollm2-135m-eagle'?"),
        ("missing.parquet", "missing.parquet does not exist, expected a trace file"),
        ("some/missing.parquet:requests=1", "some/missing.parquet does not exist, expected a trace file"),
        ("smollm2-135m-eagle:catgory=a", "smollm2-135m-eagle: unknown option 'catgory', did you mean 'category'?"),
        ("smollm2-135m-eagle:category=gsm", "smollm2-135m-eagle: unknown category 'gsm', did you mean 'gsm8k'?"),
        ("smollm2-135m-eagle:requests=161", "smollm2-135m-eagle: requests is 161, expected 1 to 160"),
        ("synthetic:shape=eagle4", "unknown shape 'eagle4', did you mean 'eagle3'?"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(BenchError) as caught:
        load_trace(spec)
    assert str(caught.value) == sentence


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    write_trace(tiny_trace(num_prompt_tokens=np.array([1, -5])), tmp_path / "t.parquet")
    with pytest.raises(BenchError, match=r"request 1 \('b'\) has num_prompt_tokens -5, expected at least 0"):
        load_trace(str(tmp_path / "t.parquet"))


def test_a_synthetic_trace_by_name() -> None:
    trace = load_trace("synthetic:shape=dspark,workload=[chat,math],num_requests=8,num_output_tokens=40,order=requests")
    assert trace.info.origin == "modelled"
    assert trace.category.tolist() == ["chat"] * 4 + ["math"] * 4
