"""Kinds of odd prompt rows, in every layout they are stored in."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightspec_bench.traces.prompts import PromptSet, load_prompts
from tests.traces.prompt_rows import gpt, human, refused

Write = Callable[[Path, list[Any]], Path]


def _json_lines(folder: Path, rows: list[Any]) -> Path:
    path = folder / "p.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def _packed_lines(folder: Path, rows: list[Any]) -> Path:
    path = folder / "p.jsonl.gz"
    path.write_bytes(gzip.compress(_json_lines(folder, rows).read_bytes()))
    (folder / "p.jsonl").unlink()
    return path


def _list(folder: Path, rows: list[Any]) -> Path:
    path = folder / "p.json"
    path.write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    return path


def _document(folder: Path, rows: list[Any]) -> Path:
    path = folder / "p.json"
    path.write_text(json.dumps({"version": 1, "data": rows}, ensure_ascii=False), "utf-8")
    return path


def _folder(folder: Path, rows: list[Any]) -> Path:
    for at, row in enumerate(rows):
        (folder / f"part-{at}.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", "utf-8")
    return folder


def _parquet(folder: Path, rows: list[Any]) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows), folder / "p.parquet")
    return folder / "p.parquet"


TEXT = {"lines": _json_lines, "gzip": _packed_lines, "list": _list, "document": _document, "folder": _folder}
every = pytest.mark.parametrize("write", [*TEXT.values(), _parquet], ids=[*TEXT, "parquet"])
text = pytest.mark.parametrize("write", TEXT.values(), ids=TEXT)


def loaded(folder: Path, write: Write, rows: list[Any]) -> PromptSet:
    return load_prompts(str(write(folder, rows)))


def turns(found: PromptSet) -> list[tuple[str, ...]]:
    return [prompt.turns for prompt in found.prompts]


@every
def test_separators_inside_a_text_end_no_row(write: Write, tmp_path: Path) -> None:
    """A row of arena-hard holds U+2028; U+2029, U+0085, form feeds and carriage returns are of its kind."""
    odd = [f"a{mark}b" for mark in ("\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\r", "\n")]
    assert turns(loaded(tmp_path, write, [{"turns": [prompt]} for prompt in odd])) == [(prompt,) for prompt in odd]


@every
def test_rows_of_turns_alone_have_no_reference_and_no_answer(write: Write, tmp_path: Path) -> None:
    found = loaded(tmp_path, write, [{"turns": ["a", "b"]}, {"turns": ["```python\ndef f():\n```"]}])
    assert turns(found) == [("a", "b"), ("```python\ndef f():\n```",)]  # a code fence is text
    assert [(prompt.references, prompt.answers) for prompt in found.prompts] == [((), (None, None)), ((), (None,))]


@every
def test_missing_and_empty_references_are_none_not_texts(write: Write, tmp_path: Path) -> None:
    rows = [{"prompt": "a", "reference": "x"}, {"prompt": "b", "reference": None}, {"prompt": "c", "reference": ""}]
    assert [prompt.references for prompt in loaded(tmp_path, write, rows).prompts] == [("x",), (), ()]


@every
def test_duplicates_are_skipped_and_counted(write: Write, tmp_path: Path) -> None:
    """mbpp has 257 rows, of which one repeats another."""
    rows = [{"turns": [f"task {number}"]} for number in range(256)]
    found = loaded(tmp_path, write, [*rows[:9], rows[3], *rows[9:]] if write is not _folder else [*rows, rows[3]])
    assert (len(found.prompts), found.reasons) == (256, {"repeats an earlier row": 1})


@text
def test_conversations_of_odd_shape_are_skipped_and_counted(write: Write, tmp_path: Path) -> None:
    """ShareGPT rows: an item that is no object, no human turn, an unknown speaker, no text, nothing at all."""
    rows = [
        {"conversations": [human("a"), gpt("A")]},
        {"conversations": [human("b"), "B"]},
        {"conversations": [gpt("only an answer")]},
        {"conversations": [human("c"), {"from": "tool", "value": "C"}]},
        {"conversations": [human(None), gpt("D")]},
        {"conversations": []},
        {"conversations": [human("e"), gpt("E"), human("f"), gpt("F")]},
    ]
    found = loaded(tmp_path, write, rows)
    assert turns(found) == [("a",), ("e", "f")]
    assert found.num_skipped == 5


@every
def test_a_system_message_first_and_an_answer_first(write: Write, tmp_path: Path) -> None:
    """Every human turn that an assistant answers right behind it is a pair, not the first two messages alone."""
    rows = [
        {"conversations": [{"from": "system", "value": "s"}, human("a"), gpt("A"), human("b"), gpt("B")]},
        {"conversations": [gpt("0"), human("c"), human("d"), gpt("D")]},
    ]
    found = loaded(tmp_path, write, rows)
    assert [(p.system, p.turns, p.answers) for p in found.prompts] == [
        ("s", ("a", "b"), ("A", "B")), (None, ("c", "d"), (None, "D")),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["alpaca.jsonl", "alpaca.json", "alpaca.parquet", "alpaca.jsonl.gz"])
def test_an_empty_file_says_so(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"") if name.endswith(".gz") else b"")
    assert "is empty" in refused(str(tmp_path / name))
    (tmp_path / "good.jsonl").write_text('{"turns": ["a"]}\n')
    found = load_prompts(str(tmp_path))  # in a folder it is noted, and the others are read
    assert (turns(found), found.notes) == ([("a",)], (f"{tmp_path / name} is empty",))
