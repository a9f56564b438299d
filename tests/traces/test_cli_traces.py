"""`lightspec-bench traces`: each command prints, writes and fails as it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lightspec_bench.cli_traces import app
from lightspec_bench.core import BenchError
from lightspec_bench.traces.format import read_trace, write_trace
from tests.traces.engine_logs import llama_request, prometheus, sglang_line, vllm_line, vllm_response
from tests.traces.test_importers import LINE_A, LINE_B, METADATA, write_lines
from tests.traces.tiny import assert_same, tiny_trace


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def failing(*arguments: str) -> str:
    with pytest.raises(BenchError) as caught:
        CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    return str(caught.value)


def test_list() -> None:
    assert "smollm2-135m-parallel" in run("list")
    rows = json.loads(run("list", "--json"))
    assert [(row["name"], row["num_requests"]) for row in rows] == [
        ("qwen2.5-14b-levvius", 10),
        ("smollm2-135m-eagle", 160),
        ("smollm2-135m-ngram", 160),
        ("smollm2-135m-parallel", 160),
        ("smollm2-135m-suffix", 160),
    ]


@pytest.mark.parametrize("name", ["smollm2-135m-eagle:category=gsm8k", "smollm2-135m-ngram", "qwen2.5-14b-levvius"])
def test_show(name: str, tmp_path: Path) -> None:
    shown = run("show", name, "--plot", str(tmp_path / "plot.png"))
    assert name in shown
    assert "mean acceptance length" in shown
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads(run("show", name, "--json"))
    assert document["name"] == name
    assert len(document["acceptance_rate_per_pos"]) == document["max_draft_tokens"]


def test_a_step_indexed_trace_is_shown_as_approximate() -> None:
    assert "approximate" in run("show", "qwen2.5-14b-levvius")
    assert "approximate" not in run("show", "smollm2-135m-ngram")


def test_validate(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_trace(tiny_trace(), path)
    assert run("validate", str(path)) == f"{path}: valid, 2 requests, 7 positions\n"
    document = json.loads(run("validate", str(path), "--json"))
    assert document == [{"file": str(path), "num_requests": 2, "num_positions": 7}]
    write_trace(tiny_trace(num_accepted=np.array([0, 9, 1, 0, 0, 1, 5], np.int16)), path)
    assert failing("validate", str(path)) == (
        f"{path}: request 0 ('a') has num_accepted 9 at position 1, expected 0 to 2 (max_draft_tokens 2, "
        "num_draft_tokens there, and tokens left before the last); 2 violations in all (num_accepted 2)"
    )


def test_import(tmp_path: Path) -> None:
    source, out = write_lines(tmp_path / "t.jsonl", METADATA, LINE_A, LINE_B), tmp_path / "tiny.parquet"
    assert run("import", str(source), "-o", str(out)).startswith(f"{out}: 2 requests, 7 positions, 0.0")
    assert_same(read_trace(out), tiny_trace())
    options = ("--target", "Other", "--format", "jsonl", "--name", "mine", "--json")
    document = json.loads(run("import", str(source), "-o", str(out), *options))
    assert (document["name"], document["num_requests"], document["num_bytes"]) == ("mine", 2, out.stat().st_size)
    assert read_trace(out).info.target == "Other"


def test_a_failed_import_writes_nothing(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "t.jsonl", METADATA, {**LINE_A, "num_prompt_tokens": -1}, LINE_B)
    sentence = failing("import", str(source), "-o", str(tmp_path / "out.parquet"))
    assert sentence == f"{source}: request 0 ('a') has num_prompt_tokens -1, expected at least 0"
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


def test_import_without_out_prints_what_was_accepted(tmp_path: Path) -> None:
    """Definitions by name, pooled and as means; what is unknown, and the lines that were skipped."""
    log = tmp_path / "vllm.log"
    log.write_text("\n".join([vllm_line([(3, 3), (3, 0)]), vllm_line([(3, 1)]), "SpecDecoding metrics: Mean acc"]))
    shown = run("import", str(log))
    assert "measured, counted by the engine; vllm-log: 2 windows" in shown
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.strip()}
    assert rows["mean_acceptance_length"] == ["2.333", "2.250"]
    assert rows["target_efficiency"] == ["unknown", "unknown"]
    assert rows["target_efficiency_of_spec_steps"] == ["58.33%", "56.25%"]
    assert rows["verify_acceptance_rate"] == ["44.44%", "41.67%"]
    assert "unknown without number of all steps: mean_tokens_per_step, target_efficiency" in shown
    assert f"skipped 1: is cut off or of an unknown version (first: {log} line 3: it has no accepted tokens)" in shown
    document = json.loads(run("import", str(log), "--json"))
    assert document["pooled"]["draft_acceptance_rate"] == pytest.approx(4 / 9)
    assert document["skipped"][0]["count"] == 1


def test_import_prints_engines_bounds_and_printed_means(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(prometheus([[(3, 2)], [(3, 0)]]))
    assert "engine 1, model_name m" in run("import", str(log))
    log.write_text(llama_request([(3, 1)] * 300, depth=0).replace(", acceptance rate per position = ()", ""))
    assert " to " in run("import", str(log))
    log.write_text(sglang_line([(3, 1)]))
    assert "2.000 as printed" in run("import", str(log))


def test_what_makes_no_trace_or_no_summary_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "v.log").write_text(vllm_line([(3, 3)]))
    assert "no trace can be made" in failing("import", str(tmp_path / "v.log"), "-o", str(tmp_path / "t.parquet"))
    write_lines(tmp_path / "t.jsonl", METADATA, LINE_A)
    assert "expected --out FILE" in failing("import", str(tmp_path / "t.jsonl"))


def test_a_step_indexed_import_says_that_it_is_approximate(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(vllm_response("a", [(3, 3), (2, 1)]))
    options = ["--target", "t", "--drafter", "d", "--drafter-kind", "autoregressive"]
    assert "approximate" in run("import", str(tmp_path / "r.jsonl"), "-o", str(tmp_path / "t.parquet"), *options)


def test_synth(tmp_path: Path) -> None:
    out = str(tmp_path / "s.parquet")
    dials = ("num_requests=6", "num_output_tokens=30", "workload=[chat,code]", "order=requests", "lag_1=0.0")
    document = json.loads(run("synth", "-o", out, *dials, "--json"))
    assert document["num_requests"] == 6
    assert read_trace(out).category.tolist() == ["chat"] * 3 + ["code"] * 3
    assert "request_spread=0.2" in run("synth", "--dials")
    assert failing("synth", "-o", out, "sead=1").startswith("synthetic: unknown option 'sead', did you mean 'seed'?")
    assert CliRunner().invoke(app, ["synth"]).exit_code == 2


@pytest.mark.parametrize("command", ["list", "show", "validate", "import", "synth"])
def test_help_shows_an_example(command: str) -> None:
    assert "lightspec-bench traces" in " ".join(run(command, "--help").split())


def test_the_command_line_loads_nothing_heavy() -> None:
    code = (
        "import sys, lightspec_bench.cli_traces\n"
        "heavy = {'numpy', 'pyarrow', 'pandas', 'matplotlib', 'torch', 'yaml'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout == "[]\n"
