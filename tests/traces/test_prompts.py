"""Prompts: every shape of row and file people store, what is skipped and why."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightspec_bench.traces.prompts import Prompt, PromptSet, Skipped, load_prompts
from lightspec_bench.traces.prompts_rows import Malformed, prompt_of
from tests.traces.prompt_rows import gpt, human, prompt, refused, write

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
