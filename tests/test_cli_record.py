"""`record` and `profile` on the command line, with a tiny model in a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from lightspec_bench.cli_profile import profile
from lightspec_bench.cli_record import record
from lightspec_bench.errors import BenchError
from lightspec_bench.latency_file import load_latency
from lightspec_bench.recording_prompts import PromptChoice, read_prompts
from lightspec_bench.traces.format import read_trace

app = typer.Typer()
app.command()(record)
app.command()(profile)

WORDS = ["<unk>", "<end>", *(f"w{number}" for number in range(48))]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model and a tokenizer of 50 words in a folder."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from tests.runners.torch_tiny import llama

    folder = tmp_path_factory.mktemp("tiny") / "tiny-model"
    llama().save_pretrained(folder)
    words = Tokenizer(models.WordLevel({word: row for row, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(folder)
    return str(folder)


def prompts(folder: Path, *sizes: int) -> str:
    rng = np.random.default_rng(2)
    texts = [" ".join(f"w{word}" for word in rng.integers(0, 48, size)) for size in sizes]
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps({"id": f"q{row}", "prompt": text}) + "\n" for row, text in enumerate(texts)))
    return str(path)


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return json.loads(done.stdout.splitlines()[-1]) if "--json" in arguments else done.stdout


def test_record_writes_a_trace(model: str, tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    said = run(
        "record", "--target", model, "--drafter", "layer-skip:first=1,last=1", "--prompts",
        prompts(tmp_path, 5, 9, 200, 3), "--no-chat-template", "--max-tokens", "12", "-k", "3",
        "-o", str(out), "--json",
    )  # fmt: skip
    trace = read_trace(out)
    assert said["num_requests"] == trace.num_requests == 3
    assert said["num_prompts_too_long"] == 1  # the model takes 128 positions
    assert trace.request_id.tolist() == ["q0", "q1", "q3"]
    assert trace.num_prompt_tokens.tolist() == [5, 9, 3]
    assert said["num_positions"] == trace.num_positions
    assert said["info"]["target"] == "tiny-model"
    assert (trace.info.name, trace.info.sampling, trace.max_draft_tokens) == ("t", "greedy, no chat template", 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.jsonl", "t.parquet"]


def test_outputs_are_kept_for_the_next_drafter(model: str, tmp_path: Path) -> None:
    given = ("record", "-t", model, "-p", prompts(tmp_path, 5, 9), "--no-chat-template", "--max-tokens", "12")
    own = tmp_path / "own.jsonl"
    for spec in ("layer-skip:first=1,last=1", "ngram"):
        run(*given, "-d", spec, "-o", str(tmp_path / f"{spec[:5]}.parquet"), "--outputs", str(own))
    lines = own.read_text().splitlines()
    assert len(lines) == 3
    first, second = (read_trace(tmp_path / name) for name in ("layer.parquet", "ngram.parquet"))
    assert first.num_output_tokens.tolist() == second.num_output_tokens.tolist()
    assert first.num_draft_tokens is None
    assert second.num_draft_tokens is not None
    with pytest.raises(BenchError, match="was begun with max_tokens 12, expected 11"):
        run(*given[:-1], "11", "-d", "ngram", "-o", str(tmp_path / "n.parquet"), "--outputs", str(own))


def test_the_requests_of_a_trace_can_be_asked_for(model: str, tmp_path: Path) -> None:
    source = prompts(tmp_path, 5, 9, 7)
    given = ("record", "-t", model, "-d", "ngram", "-p", source, "--no-chat-template", "--max-tokens", "6")
    first, again = str(tmp_path / "first.parquet"), str(tmp_path / "again.parquet")
    run(*given, "-n", "2", "--seed", "1", "-o", first)
    run(*given, "--same-prompts", first, "-o", again)
    assert read_trace(again).request_id.tolist() == read_trace(first).request_id.tolist()
    (tmp_path / "mine.jsonl").write_text('{"id": "other", "prompt": "w1"}\n')
    with pytest.raises(BenchError, match=r"2 of the 2 requests of trace .* are in none of .*, the first is 'q"):
        run(*given, "--same-prompts", first, "-o", again)


def test_ids_of_several_sources_must_differ(tmp_path: Path) -> None:
    source = prompts(tmp_path, 5)
    with pytest.raises(BenchError, match="request 'q0' comes from two of the sources"):
        read_prompts(PromptChoice((source, source), chat_template=False), Words(), None)
    with pytest.raises(BenchError, match="1 requests have more than 4 prompt tokens each"):
        read_prompts(PromptChoice((source,), chat_template=False, max_prompt_tokens=4), Words(), None)
    with pytest.raises(BenchError, match="no prompts are named"):
        read_prompts(PromptChoice(()), Words(), None)


class Words:
    """A tokenizer of words."""

    chat_template = None

    def __call__(self, text: str, *, add_special_tokens: bool, verbose: bool) -> dict[str, list[int]]:
        return {"input_ids": [WORDS.index(word) for word in text.split()]}


def test_profile_writes_a_table_that_loads(model: str, tmp_path: Path) -> None:
    out = tmp_path / "mine.csv"
    shape = ("--rows", "1-2,4", "--requests", "1,2", "--contexts", "8", "--repeats", "1", "-k", "2", "-o", str(out))
    said = run("profile", "-t", model, "-d", "layer-skip:first=1,last=1", *shape, "--json")
    assert load_latency(str(out)).name == "mine"
    shapes = {(found["part"], found["rows"], found["requests"]) for found in said["timings"]}
    assert shapes == {
        *(("verify", *shape) for shape in [(1, 1), (2, 1), (2, 2), (4, 2)]),
        *(("first", *shape) for shape in [(1, 1), (2, 1), (2, 2), (4, 2)]),
        *(("later", *shape) for shape in [(1, 1), (2, 2)]),
    }
    shown = run("profile", "--architecture", "tiny", "--dummy-weights", "-d", "parallel", *shape)
    assert "tiny, random weights in float32 on" in shown
    for wrong in (("--architecture", "tiny"), ("--dummy-weights",)):
        with pytest.raises(BenchError, match="--dummy-weights"):
            run("profile", *wrong, *shape)


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys, typer\nfrom lightspec_bench.cli_profile import profile\n"
        "from lightspec_bench.cli_record import record\n"
        "app = typer.Typer()\napp.command()(record)\napp.command()(profile)\n"
        "try:\n    app([sys.argv[1], '--help'])\nexcept SystemExit:\n    pass\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    for command in ("record", "profile"):
        done = subprocess.run([sys.executable, "-c", program, command], capture_output=True, text=True, check=True)
        assert "--drafter" in done.stdout
        loaded = set(done.stderr.split())
        assert not loaded & {"torch", "transformers", "datasets", "pandas", "matplotlib", "pyarrow", "numpy"}
