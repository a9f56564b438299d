"""`tune` on the command line: what is printed and written, and what one sentence each mistake gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightspec_bench.traces.format import write_trace
from tests.support import outcome, random_trace

COMMON = ("-l", "h200-qwen3-14b", "--jobs", "1", "--num-requests", "5", "--quick")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "mine.parquet"
    write_trace(random_trace(4, num_requests=5, longest=15), path)
    return str(path)


def test_what_is_printed_written_and_explained(trace: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    out = tmp_path / "config.yaml"
    code, printed, progress = outcome(
        capsys, "tune", trace, *COMMON, "-e", "tensorrt-llm", "--engine-version", "1.2.0", "-c", "1,4",
        "--out", str(out), "--explain", "--current", "static:k=1", "--slo", "tpot_ms=900",
    )  # fmt: skip
    assert (code, progress) == (0, "")
    text = out.read_text(encoding="utf-8")
    assert text.startswith("speculative_config:\n  max_draft_len: ")
    assert text in printed
    for words in (
        f"trtllm-serve MODEL --extra_llm_api_options {out}",
        "against the default, K=3",
        "against no speculation",
        "against yours, K=1",
        "Best K by concurrency",
        "It keeps TPOT P99 ≤ 900 ms at concurrency 1, 4, on every trace.",
        "Settings tried",
        "Simulated from a recorded trace; latency: h200-qwen3-14b, modelled",
    ):
        assert words in printed


def test_one_document(trace: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    code, printed, _ = outcome(capsys, "tune", trace, *COMMON, "-e", "vllm", "-c", "1-4", "--json")
    document = json.loads(printed)
    assert code == 0
    assert document["concurrencies"] == [1, 4]
    assert document["origin"] == "Simulated from a recorded trace; latency: h200-qwen3-14b, modelled"
    assert set(document["gain"]) == {"default", "none", "best_static"}
    assert [row["concurrency"] for row in document["by_load"]] == [1, 4]
    assert json.loads(document["text"])["num_speculative_tokens"] >= 1


def test_bounds_nobody_keeps_are_exit_code_1_and_write_nothing(trace: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    out = tmp_path / "config.json"
    code, printed, _ = outcome(
        capsys, "tune", trace, *COMMON, "-e", "vllm", "-c", "1", "--slo", "tpot_ms=0.01", "-o", str(out)
    )
    assert code == 1
    assert "No setting keeps TPOT P99 ≤ 0.01 ms at any load, no speculation included: nothing to deploy." in printed
    assert not out.exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-e", "vlllm"], "unknown engine 'vlllm', did you mean 'vllm'?"),
        (["-e", "tensorrt-llm"], "--engine-version is missing"),
        (["-e", "hf", "-c", "4"], "transformers runs assisted generation with one sequence"),
        (["-e", "vllm", "--slo", "tpot=3"], "'tpot=3' is no bound, did you mean 'tpot_ms'"),
        (["-e", "vllm", "-c", "0"], "--concurrency has '0', expected a number, or first-last, from 1 up"),
        (["-e", "vllm", "--current", "statc"], "unknown planner 'statc', did you mean 'static'?"),
    ],
)
def test_mistakes(trace: str, capsys, argv: list[str], message: str) -> None:  # type: ignore[no-untyped-def]
    code, printed, error = outcome(capsys, "tune", trace, *COMMON, *argv)
    assert (code, printed) == (2, "")
    assert message in error
    assert len(error.strip().splitlines()) == 1
