"""Importers: what each format's lines become, and one sentence for each kind of bad line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightspec_bench.core import BenchError, Trace
from lightspec_bench.traces.importer import import_trace
from tests.traces.tiny import INFO, NAN, assert_same, tiny_trace

GIVEN = {"target": "T", "drafter": "d", "drafter_kind": "autoregressive", "max_draft_tokens": 2}
METADATA = {"lightspec_bench": 1, **INFO}
LINE_A = {
    "request_id": "a", "category": "chat", "arrival_s": 0.0, "num_prompt_tokens": 10, "num_output_tokens": 4,
    "repeats_from": None, "num_accepted": [0, 2, 1, 0], "num_draft_tokens": [0, 2, 2, 2],
    "confidence": [None, [0.9, 0.8], [0.7, 0.25], [0.5, 0.125]],
    "entropy": [None, [1.4, 1.3], [1.2, 0.75], [1.0, 0.625]],
}  # fmt: skip
LINE_B = {
    "request_id": "b", "category": "code", "arrival_s": 1.5, "num_prompt_tokens": 20, "num_output_tokens": 3,
    "repeats_from": 2, "num_accepted": [0, 1, 0], "num_draft_tokens": [0, 2, 2],
    "confidence": [None, [0.75, 0.5], [1.0, 0.0]], "entropy": [None, [1.25, 1.0], [1.5, 0.5]],
}  # fmt: skip


def write_lines(path: Path, *lines: Mapping[str, Any]) -> Path:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_our_json_lines(tmp_path: Path, name: str) -> None:
    assert_same(import_trace(write_lines(tmp_path / name, METADATA, LINE_A, LINE_B)), tiny_trace())


def test_metadata_as_options_and_the_recorders_own_keys(tmp_path: Path) -> None:
    recorded = {"id": 7, "num_prompt_tokens": 5, "num_output_tokens": 4, "finish": "eos", "num_accepted": [0, 2, 2, 1]}
    path = write_lines(tmp_path / "mine.jsonl", recorded)
    trace = import_trace(path, None, GIVEN)
    assert trace.request_id.tolist() == ["7"]
    assert trace.category.tolist() == ["all"]
    assert trace.num_accepted.tolist() == [0, 2, 1, 0]  # a token in the bonus token's place is the bonus token
    assert (trace.info.name, trace.info.dataset, trace.info.target) == ("mine", "not stated", "T")
    assert import_trace(path, "jsonl", {**GIVEN, "name": "n"}).info.name == "n"


def test_a_text_may_hold_any_separator(tmp_path: Path) -> None:
    ids = {"request_id": "line\u2028para\u2029next\x85end"}
    path = write_lines(tmp_path / "t.jsonl", METADATA, {**LINE_A, **ids}, LINE_B)
    assert import_trace(path).request_id.tolist() == [ids["request_id"], "b"]


def test_short_lists_of_confidences_leave_nan(tmp_path: Path) -> None:
    line = {
        **LINE_A,
        "num_draft_tokens": [0, 2, 1, 0],
        "num_accepted": [0, 2, 1, 0],
        "confidence": [None, [1, 1], [1], []],
    }
    del line["entropy"]
    trace = import_trace(write_lines(tmp_path / "t.jsonl", line), None, GIVEN)
    np.testing.assert_array_equal(trace.confidence, np.array([[NAN, NAN], [1, 1], [1, NAN], [NAN, NAN]], np.float32))


def test_a_log_of_steps_becomes_a_step_indexed_trace(tmp_path: Path) -> None:
    line = {
        "request_id": "s", "num_prompt_tokens": 3, "num_verify_tokens": [2, 1], "num_accepted_tokens": [1, 0],
        "confidence": [[0.75, 0.5], [0.25]],
    }  # fmt: skip
    trace = import_trace(write_lines(tmp_path / "t.jsonl", line), None, GIVEN)
    assert trace.info.indexing == "step"
    assert trace.num_accepted.tolist() == [0, 1, 0, 0]
    assert trace.num_draft_tokens is not None
    assert trace.num_draft_tokens.tolist() == [0, 2, 1, 1]
    expected = [[NAN, NAN], [0.75, 0.5], [0.5, NAN], [0.25, NAN]]
    np.testing.assert_array_equal(trace.confidence, np.array(expected, np.float32))
    with pytest.raises(BenchError, match="indexing is 'position', expected 'step' for lines with a list per step"):
        import_trace(tmp_path / "t.jsonl", None, {**GIVEN, "indexing": "position"})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"num_acepted": [1]}, "line 2: unknown key 'num_acepted', did you mean 'num_accepted'?"),
        ({"num_accepted": ...}, "line 2: num_accepted is missing"),
        ({"request_id": ...}, "line 2: request_id is missing"),
        ({"num_accepted": [0, 2, 1]}, "line 2: num_accepted has 3 entries, expected 4 (num_output_tokens)"),
        ({"num_accepted": [0, 2, 1.5, 0]}, "line 2: num_accepted is not a list of whole numbers"),
        ({"num_accepted": [0, 2, None, 0]}, "line 2: num_accepted is not a list of whole numbers"),
        ({"num_accepted": [0, 2, [1], 0]}, "line 2: num_accepted is not a list of whole numbers"),
        ({"num_accepted": [0, 2, 70000, 0]}, "line 2: num_accepted has the entry 70000, expected at most 32767"),
        ({"num_output_tokens": -3}, "line 2: num_output_tokens is -3, expected at least 1"),
        ({"num_output_tokens": "4"}, "line 2: num_output_tokens is '4', expected a whole number"),
        ({"arrival_s": "now"}, "line 2: arrival_s is 'now', expected a number"),
        ({"confidence": [None]}, "line 2: confidence is not a list of 4 lists"),
        (
            {"confidence": [None, [1, 1, 1], [1, 1], [1, 1]]},
            "line 2: confidence[1] is [1, 1, 1], expected null or at most 2 numbers",
        ),
        (
            {"confidence": [None, ["a", 1], [1, 1], [1, 1]]},
            "line 2: confidence[1] is ['a', 1], expected null or at most 2 numbers",
        ),
        ({"confidence": ...}, ": request 0 has no confidence, expected it in every request or in none"),
        ({"num_accepted": [0, 3, 0, 0]}, ": request 0 ('a') has num_accepted 3 at position 1, expected 0 to 2"),
        (
            {"confidence": [None, None, [0.7, 0.25], [0.5, 0.125]]},
            ": request 0 ('a') has confidence[0] nan at position 1, expected 0 to 1; 2 violations in all",
        ),
        ({"request_id": "b"}, ": request 1 ('b') has request_id b, expected an id that no request before it has"),
    ],
)
def test_a_bad_line_is_one_sentence(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    line = {key: value for key, value in {**LINE_A, **change}.items() if value is not ...}
    path = write_lines(tmp_path / "t.jsonl", METADATA, line, LINE_B)
    with pytest.raises(BenchError) as caught:
        import_trace(path)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"num_accepted": [0]}\n{"id": 1,\n', "line 2 is not JSON ("),
        (b'{"num_accepted": [0]}\n\xff\xfe\n', "line 2 is not JSON ("),
        (b'{"num_accepted": [0]}\n[1]\n', "line 2 is list in JSON, expected an object"),
        (b'{"lightspec_bench": 9}\n', "line 1: schema version is 9, expected 1"),
        (b'{"num_accepted": [0]}\n', "metadata target, drafter, drafter_kind, max_draft_tokens missing"),
        (json.dumps(METADATA).encode(), "has no requests, expected at least 1"),
        (gzip.compress(b'{"num_accepted": [0]}\n' * 9, mtime=0)[:-9], "is a truncated or damaged gzip file"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "t.jsonl").write_bytes(content)
    with pytest.raises(BenchError) as caught:
        import_trace(tmp_path / "t.jsonl", "jsonl")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_option_that_is_missing_is_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", LINE_A)
    with pytest.raises(BenchError, match=r"missing, expected in the file or as --target, --drafter, --drafter-kind"):
        import_trace(path)


def test_an_unknown_format_and_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\x00\x01")
    with pytest.raises(BenchError, match=r"is in no known format, expected one of jsonl, .*, lightllm-log"):
        import_trace(tmp_path / "x.bin")
    with pytest.raises(BenchError, match="does not exist, expected a file to import"):
        import_trace(tmp_path / "y.bin")
    with pytest.raises(BenchError, match="unknown importer 'jsnol', did you mean 'jsonl'"):
        import_trace(tmp_path / "x.bin", "jsnol")


# SpecDecode-Bench: acc_len[p] is accepted + 1 when p tokens are out; the last may count a bonus behind the end.
PROFILE = {
    "id": "9", "prompt_token_ids": [1, 2, 3], "generated_token_ids": [11, 12, 13, 14, 15],
    "acc_eagle": {"acc_len": [1, 4, 3, 3, 2]}, "acc_ngram": {"acc_len": [1, 1, 1, 2, 1]},
}  # fmt: skip
LLAMA = {"target": "Llama-3.1-8B-Instruct"}


def test_specdecode_bench_eagle_and_ngram(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "combined.jsonl", PROFILE)
    eagle = import_trace(path, None, LLAMA)
    assert eagle.num_accepted.tolist() == [0, 3, 2, 1, 0]
    assert (eagle.num_prompt_tokens.tolist(), eagle.num_output_tokens.tolist()) == ([3], [5])
    assert (eagle.info.drafter, eagle.info.drafter_kind, eagle.max_draft_tokens) == ("eagle", "autoregressive", 3)
    assert eagle.confidence is None
    ngram = import_trace(path, "specdecode-bench:drafter=ngram,category=maths", {**LLAMA, "max_draft_tokens": 7})
    assert ngram.num_accepted.tolist() == [0, 0, 0, 1, 0]
    assert (ngram.info.drafter_kind, ngram.max_draft_tokens) == ("ngram", 7)
    assert ngram.category.tolist() == ["maths"]


def test_specdecode_bench_caps_the_depth(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "combined.jsonl", PROFILE)
    assert import_trace(path, None, {**LLAMA, "max_draft_tokens": 2}).num_accepted.tolist() == [0, 2, 2, 1, 0]


def test_specdecode_bench_cuts_a_request_to_what_was_profiled(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "combined.jsonl", {**PROFILE, "acc_eagle": {"acc_len": [1, 4, 3]}})
    assert import_trace(path, None, LLAMA).num_accepted.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"acc_eagle": None}, "line 1: acc_eagle.acc_len is not a list of whole numbers"),
        (
            {"acc_eagle": {"acc_len": [1, 0, 1, 1, 1]}},
            "line 1: acc_eagle.acc_len is not a list of numbers of at least 1",
        ),
        ({"generated_token_ids": []}, "line 1: prompt_token_ids and generated_token_ids are not lists of token ids"),
        ({"id": ...}, "line 1: id is missing"),
    ],
)
def test_specdecode_bench_bad_lines(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    line = {key: value for key, value in {**PROFILE, **change}.items() if value is not ...}
    with pytest.raises(BenchError) as caught:
        import_trace(write_lines(tmp_path / "combined.jsonl", line), "specdecode-bench", LLAMA)
    assert sentence in str(caught.value)


LOG = """trace_idx,rollout_step,k,draft_entropy_H,KL_q_p,accepted,proposed,step_time_ms
0,0,0,2.5,8.0,1,1,57.3
0,1,0,1.5,7.0,0,1,55.5
0,2,0,0.5,0.1,1,1,55.5
"""


def test_levvius_csv_knows_one_token_per_state(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    trace = import_trace(tmp_path / "log.csv")
    assert trace.request_id.tolist() == ["rollout-0"]
    assert trace.num_accepted.tolist() == [0, 0, 1, 0]
    assert trace.num_draft_tokens is not None
    assert trace.num_draft_tokens.tolist() == [0, 1, 1, 0]
    np.testing.assert_array_equal(trace.entropy, np.array([[NAN], [1.5], [0.5], [NAN]], np.float32))
    assert (trace.info.indexing, trace.info.licence, trace.max_draft_tokens) == ("step", "MIT", 1)


def test_levvius_parquet_follows_the_chain_a_rollout_took(tmp_path: Path) -> None:
    import pandas as pd

    # state 1's token was the one the rollout went on with (next_H, next_K are state 2's), state 2's was not
    exact = pd.DataFrame(
        {
            "trace_idx": 0, "rollout_step": [0, 1, 2, 3], "action_length": "continue", "threshold": 1.0,
            "accepted": [0, 1, 1, 1], "H": [2.5, 1.5, 0.5, 0.25], "K": [8.0, 7.0, 6.0, 5.0],
            "next_H": [1.5, 0.5, 0.125, 9.0], "next_K": [7.0, 6.0, 5.0, 9.0],
        }
    )  # fmt: skip
    relaxed = exact.assign(threshold=4.0, accepted=1)
    pd.concat([relaxed, exact]).to_parquet(tmp_path / "log.parquet")
    trace = import_trace(tmp_path / "log.parquet")
    assert trace.num_draft_tokens is not None
    assert trace.num_draft_tokens.tolist() == [0, 2, 1, 1, 0]
    assert trace.num_accepted.tolist() == [0, 2, 1, 1, 0]
    assert trace.max_draft_tokens == 3


def test_levvius_without_exact_verification(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG.replace("0,1,0,1.5", "0,5,0,1.5"))
    with pytest.raises(BenchError, match="has no rollouts of exact verification with steps 0, 1, 2"):
        import_trace(tmp_path / "log.csv")


class OneLiner:
    """An importer of a third party: a file holds accepted counts, separated by spaces."""

    def __init__(self, category: str = "all") -> None:
        self.category = category

    def sniffs(self, path: Path) -> bool:
        return path.suffix == ".counts"

    def read(self, path: Path, given: Mapping[str, Any]) -> Trace:
        from lightspec_bench.traces.importer import Recorded, build_trace, complete_info

        accepted = np.array(path.read_text().split(), np.int64)
        info = complete_info({"made_by": "a test"}, given, path)
        return build_trace(info, [Recorded("only", self.category, 1, accepted)], path)


def test_an_importer_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "t.counts").write_text("0 2 1 0")
    trace = import_trace(tmp_path / "t.counts", f"{__name__}:OneLiner:category=mine", GIVEN)
    assert trace.num_accepted.tolist() == [0, 2, 1, 0]
    assert trace.category.tolist() == ["mine"]
