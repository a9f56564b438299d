"""Suites and options of the vLLM runner: what they mean, and what is wrong with them. vLLM itself is not needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lightspec_bench.cli_measure import asked_suite, is_measured
from lightspec_bench.core import BenchError
from lightspec_bench.measured import Measured
from lightspec_bench.suite import STOCK, measured_suite, read_suite
from tests.support import outcome


def test_vllms_own_rules_run_beside_ours_where_every_static_k_does() -> None:
    asked = asked_suite(
        None, {"runner": "vllm", "drafter": "ngram", "prompts": "gsm8k"}, "1,32", ["dspark"], 2, None, {}, None
    )
    assert asked.planners == (*STOCK, "dspark")
    assert (asked.concurrencies, asked.seeds, asked.every_static) == ((1, 32), (0, 1), True)
    conditions = asked.conditions
    assert (conditions.prefill, conditions.catch_up, conditions.lag_steps) == ("chunked", "each_step", 0)
    assert asked.latencies == ("vLLM, cpu float32",)
    without = asked_suite(
        None, {"runner": "vllm", "drafter": "ngram", "prompts": "gsm8k"}, None, ["dspark"], None, None, {}, False
    )
    assert without.planners == ("dspark",)


def test_a_yaml_suite_may_name_the_vllm_runner(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    lines = [
        "runner: vllm", "target: smollm2", "drafter: ngram", "prompts: gsm8k", "concurrencies: [1]",
        "planners: [dspark]", "engine: '{\"seed\": 3}'",
    ]  # fmt: skip
    path.write_text("\n".join(lines), encoding="utf-8")
    assert is_measured(str(path), None)
    suite = read_suite(str(path))
    assert suite.measured is not None
    assert (suite.measured.runner, suite.measured.engine_arguments) == ("vllm", {"seed": 3})
    assert suite.planners == (*STOCK, "dspark")
    changed = asked_suite(str(path), {"max_tokens": 5}, None, None, None, None, {"lag_steps": 1}, False)
    assert (changed.planners, changed.conditions.lag_steps) == (("dspark",), 1)
    with pytest.raises(BenchError, match="is a suite for runner vllm"):
        asked_suite(str(path), {"runner": "torch"}, None, None, None, None, {}, None)


def test_the_runner_is_part_of_what_a_cell_is_of() -> None:
    ours, theirs = (Measured("t", "ngram", "p", runner=runner) for runner in ("torch", "vllm"))
    assert json.loads(theirs.spec).keys() - json.loads(ours.spec).keys() == {"runner", "engine"}
    keys = [next(iter(measured_suite(what, (1,), ()).cells({what.workload: 0}))).key for what in (ours, theirs)]
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--runner", "vllm", "--prompts", "gsm8k"], "--runner vllm needs --drafter"),
        (
            ["run", "--runner", "torch", "-d", "ngram", "--prompts", "gsm8k", "--engine", "{}"],
            "engine arguments are for the vllm runner, expected none",
        ),
        (
            ["run", "--runner", "vllm", "-d", "ngram", "--prompts", "gsm8k", "--engine", "[1]"],
            "engine arguments are '[1]', expected a JSON object",
        ),
        (["record", "--runner", "gpu", "-d", "a", "-p", "b", "-o", "x"], "--runner is 'gpu', expected torch or vllm"),
        (
            ["record", "-d", "ngram", "-p", "gsm8k", "-o", "x", "--engine", "{}"],
            "--engine has vLLM's arguments, expected --runner vllm with it",
        ),
        (
            ["profile", "--runner", "vllm", "--rows", "1", "-o", "x"],
            "--rows is for the torch runner, expected --runner torch with it",
        ),
    ],
)  # fmt: skip
def test_the_command_line_says_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = outcome(capsys, *arguments)
    assert code == 2
    assert message in said


def test_without_vllm_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.runners.torch_checkpoint import save_checkpoint, save_prompts

    model, prompts = save_checkpoint(tmp_path / "model"), save_prompts(tmp_path / "prompts.jsonl")
    program = (
        "import sys\nsys.modules['vllm'] = None\nfrom lightspec_bench.cli import main\n"
        f"main(['run', '--runner', 'vllm', '-d', 'ngram', '--prompts', {str(prompts)!r}, '-t', {str(model)!r}, "
        f"'--out', {str(tmp_path / 'run')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "lightspec-bench: the vllm runner needs the package vllm: pip install 'lightspec-bench[vllm]'\n"
    )
    assert not (tmp_path / "run").exists()
