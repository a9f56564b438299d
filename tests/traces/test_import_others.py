"""SGLang, llama.cpp, TensorRT-LLM and LightLLM: what their own figures mean, and what cannot be of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightspec_bench.acceptance import rates
from lightspec_bench.acceptance_summary import means
from lightspec_bench.core import BenchError
from lightspec_bench.skipped import Skipped
from tests.traces.engine_logs import (
    Steps,
    imported,
    lightllm,
    llama_request,
    llama_statistics,
    sglang_line,
    trtllm,
)

STEPS: Steps = [(3, 3), (3, 1), (3, 0)]
MORE: Steps = [(3, 2), (3, 2), (3, 3), (3, 1)]


# SGLang


def test_an_accept_rate_with_the_bonus_token_is_no_draft_acceptance_rate(tmp_path: Path) -> None:
    """mit-han-lab/fastrl#4: a rate of 0.11 at a length of 1.00 is the bonus token of 8 drafts and a root."""
    line = "#running-req: 48, accept len: 1.00, accept rate: 0.11, cuda graph: False, gen throughput 5452.63"
    summary = imported(tmp_path, f"Decode batch, {line}\n")
    assert summary.samples[0].printed == {
        "mean_acceptance_length": 1.0, "target_efficiency_of_spec_steps": 0.11, "draft_acceptance_rate": 0.0,
        "verify_acceptance_rate": 0.0,
    }  # fmt: skip
    assert "counts the bonus token and the target's row here, with 8 draft tokens per step" in summary.notes[1]


@pytest.mark.parametrize("with_bonus", [True, False])
def test_the_file_tells_which_accept_rate_it_has_and_the_depth(with_bonus: bool, tmp_path: Path) -> None:
    lines = [sglang_line(steps, depth=3, with_bonus=with_bonus) for steps in (STEPS, MORE, [(3, 0)])]
    summary = imported(tmp_path, "\n".join(lines))
    assert f"with {3} draft tokens per step" in summary.notes[1]
    printed = [round(sample.printed["draft_acceptance_rate"], 2) for sample in summary.samples]
    assert printed == [0.44, 0.67, 0.0]
    assert [round(s.printed["target_efficiency_of_spec_steps"], 2) for s in summary.samples] == [0.58, 0.75, 0.25]


def test_where_the_definition_cannot_be_told_the_rate_is_not_used(tmp_path: Path) -> None:
    """Everything accepted is 1.00 by either definition; an adaptive depth fits neither."""
    for lines in ([sglang_line([(3, 3)])], [sglang_line(STEPS), sglang_line(MORE, depth=7)]):
        summary = imported(tmp_path, "\n".join(lines))
        assert {*summary.samples[0].printed} == {"mean_acceptance_length"}
        assert "cannot be told from the file" in summary.notes[1]
    stated = imported(tmp_path, sglang_line([(3, 3)]), "sglang-log:num_draft_tokens=4")
    assert stated.samples[0].printed["draft_acceptance_rate"] == 1.0


def test_a_rate_above_one_is_flagged_and_the_length_kept(tmp_path: Path) -> None:
    """sglang pull request 11572."""
    text = "\n".join([sglang_line(STEPS), sglang_line(STEPS).replace("rate: 0.44", "rate: 1.30"), sglang_line(MORE)])
    summary = imported(tmp_path, text)
    assert [sample.printed["mean_acceptance_length"] for sample in summary.samples] == [2.33, 2.33, 3.0]
    assert "accept rate above 1 in 1 lines (first: line 2): an invalid definition" in summary.notes[2]


def test_sglang_pools_nothing_and_weighs_windows_alike(tmp_path: Path) -> None:
    summary = imported(tmp_path, "\n".join(sglang_line(s, rank=f" DP{i}") for i, s in enumerate((STEPS, MORE))))
    assert set(rates(summary.counts).values()) == {None}
    mean = means(summary.samples)["mean_acceptance_length"]
    assert mean is not None
    assert (round(mean.value, 3), mean.num, mean.printed) == (2.665, 2, True)
    assert list(summary.engines) == ["DP0", "DP1"]


def test_old_lines_without_an_accept_rate(tmp_path: Path) -> None:
    summary = imported(tmp_path, sglang_line(STEPS).replace("accept rate: 0.44, ", ""))
    assert summary.samples[0].printed == {"mean_acceptance_length": 2.33}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (sglang_line(STEPS).partition(", accept rate")[0][:-1], "is cut off or of an unknown version"),
        (sglang_line(STEPS).partition(", cuda")[0][:-2], "is cut off or of an unknown version"),
        (sglang_line(STEPS).replace("2.33", "0.33"), "has an acceptance length below 1"),
    ],
)
def test_bad_sglang_lines(bad: str, reason: str, tmp_path: Path) -> None:
    summary = imported(tmp_path, "\n".join([sglang_line(STEPS), bad, sglang_line(MORE)]))
    assert [(part.reason, part.count) for part in summary.skipped] == [(reason, 1)]
    assert summary.skipped[0].first.startswith(f"{tmp_path / 'engine.log'} line 2")
    assert len(summary.samples) == 2


def test_a_stated_depth_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="num_draft_tokens is 1, expected at least 2"):
        imported(tmp_path, sglang_line(STEPS), "sglang-log:num_draft_tokens=1")


# llama.cpp


def test_a_request_line_with_short_drafts(tmp_path: Path) -> None:
    """llama.cpp pull request 24536: 259 of the 261 tokens that 87 drafts of 3 would have."""
    line = (
        "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 "
        "generated), mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)"
    )
    counts = imported(tmp_path, line).counts
    assert (counts.num_spec_steps, counts.num_survived_per_pos) == (87, (70, 55, 42))
    assert rates(counts)["draft_acceptance_rate"] == pytest.approx(0.64479, abs=5e-6)
    assert rates(counts)["mean_acceptance_length"] == pytest.approx(2.9195, abs=5e-5)


DOCUMENTED = """slot print_timing: id  3 | task 0 |
draft acceptance rate = 0.57576 (  171 accepted /   297 generated)
statistics ngram_simple: #calls = 15, #gen drafts = 5, #acc drafts = 5, #gen tokens = 187, #acc tokens = 73
statistics draft: #calls = 10, #gen drafts = 10, #acc drafts = 10, #gen tokens = 110, #acc tokens = 98
"""


def test_statistics_of_several_implementations_add_up_to_the_request(tmp_path: Path) -> None:
    """docs/speculative.md: 73 + 98 = 171 of 187 + 110 = 297, in 15 drafts."""
    summary = imported(tmp_path, DOCUMENTED)
    assert rates(summary.counts)["draft_acceptance_rate"] == pytest.approx(0.57576, abs=5e-6)
    assert summary.counts.num_spec_steps == 15
    assert summary.notes[-1].endswith("ngram_simple 73 of 187, draft 98 of 110")


def test_running_totals_give_the_drafts_of_each_request(tmp_path: Path) -> None:
    """Of the server in new builds, of the slot in old ones; where another request's tokens are in it, unknown."""
    old = {"modern": False}
    text = [
        llama_request(STEPS, **old), llama_statistics("mtp", STEPS),
        llama_request(MORE, **old, task=1), llama_statistics("mtp", STEPS + MORE),
        llama_request(MORE, **old, slot=2, task=2), llama_statistics("mtp", MORE),
        llama_request(STEPS, **old, slot=2, task=3), llama_statistics("mtp", MORE * 3),
    ]  # fmt: skip
    summary = imported(tmp_path, "\n".join(text))
    assert [sample.counts.num_spec_steps for sample in summary.samples] == [3, 4, 4, None]
    assert summary.samples[2].label.startswith("slot 2 task 2, ")


def test_a_log_with_statistics_alone(tmp_path: Path) -> None:
    summary = imported(tmp_path, "\n".join(llama_statistics("mtp", STEPS * n) for n in (1, 2)))
    assert (summary.unit, [sample.label for sample in summary.samples]) == ("engine", ["mtp"])
    assert rates(summary.counts)["mean_acceptance_length"] == pytest.approx(1 + 8 / 6)


def test_the_block_of_the_older_example(tmp_path: Path) -> None:
    text = "n_draft   = 16\nn_predict = 100\nn_drafted = 120\nn_accept  = 60\naccept    = 50.000%\n"
    counts = imported(tmp_path, text, "llamacpp-log").counts
    assert {name: value for name, value in rates(counts).items() if value is not None} == {"draft_acceptance_rate": 0.5}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (llama_request(STEPS).replace("    4 accepted", "   14 accepted"), "accepts more than was drafted"),
        (llama_request(STEPS).replace("0.44444", "1.44444"), "has a rate above 1"),
        (llama_request(STEPS).replace("0.44444", "0.54444"), "contradicts itself"),
        (llama_request(STEPS).replace("(0.667", "(1.667"), "has a rate above 1"),
        (llama_request(STEPS)[:-5], "is cut off or of an unknown version"),
        (llama_request(STEPS, modern=False)[:-8], "is cut off or of an unknown version"),
        (llama_statistics("mtp", STEPS).partition("#acc tokens")[0], "is cut off or of an unknown version"),
        (llama_statistics("mtp", STEPS).replace("tokens = 4", "tokens = 44"), "accepts more than was drafted"),
        ("n_accept  = 4", "is cut off or of an unknown version"),
        ("n_drafted = 4\nn_accept  = 5", "accepts more than was drafted"),
    ],
)
def test_bad_llamacpp_lines(bad: str, reason: str, tmp_path: Path) -> None:
    summary = imported(tmp_path, "\n".join([llama_request(STEPS), bad, llama_request(MORE, task=1)]))
    assert [(part.reason, part.count) for part in summary.skipped] == [(reason, 1)]
    assert summary.counts.num_accepted_tokens == 12


# TensorRT-LLM


def test_iterations_know_all_running_requests(tmp_path: Path) -> None:
    """One of four requests had no draft: it is a row and a token of the target, and no draft."""
    values = rates(imported(tmp_path, trtllm(1, [*STEPS, (0, 0)])).counts)
    assert values["mean_acceptance_length"] == pytest.approx(1 + 4 / 3)
    assert values["mean_tokens_per_step"] == 2.0
    assert values["target_efficiency"] == pytest.approx(8 / 13)
    assert values["target_efficiency_of_spec_steps"] == pytest.approx(7 / 12)


@pytest.mark.parametrize("layout", ["lines", "list", "object", "texts"])
def test_layouts_of_iteration_statistics(layout: str, tmp_path: Path) -> None:
    records = [json.loads(trtllm(i, steps)) for i, steps in enumerate((STEPS, MORE))]
    texts = {
        "lines": "\n".join(map(json.dumps, records)), "list": json.dumps(records, indent=1),
        "object": json.dumps({"stats": records}), "texts": json.dumps([json.dumps(record) for record in records]),
    }  # fmt: skip
    summary = imported(tmp_path, texts[layout], "trtllm-stats")
    assert [sample.label for sample in summary.samples] == ["iteration 0", "iteration 1"]
    assert summary.counts.num_spec_steps == 7


def test_ranks_that_repeat_counts_and_iterations_without_drafts_are_left_out(tmp_path: Path) -> None:
    first = json.loads(trtllm(0, STEPS))
    records = [
        first,
        {**first, "attentionDpRank": 1},
        {"iter": 1, "iterLatencyMS": 9.0},
        json.loads(trtllm(2, [(0, 0)])),
    ]
    summary = imported(tmp_path, "\n".join(map(json.dumps, records)))
    assert summary.counts.num_spec_steps == 3
    assert [note.rpartition(": ")[2] for note in summary.notes[1:]] == ["2", "1"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('AcceptedTokens": 4', 'AcceptedTokens": 44', "accepts more than was drafted"),
        ('WithDraftTokens": 3', 'WithDraftTokens": 0', "contradicts itself"),
        ('numGenRequests": 3', 'numGenRequests": 2', "contradicts itself"),
        ('numDraftTokens": 9', 'numDraftTokens": "9"', "is no count"),
        ('"numAcceptedTokens": 4, ', "", "is of an unknown version"),
        ('"numContextRequests": 0}', "", "is not JSON"),
    ],
)
def test_bad_iterations(old: str, new: str, reason: str, tmp_path: Path) -> None:
    bad = trtllm(1, STEPS).replace(old, new)
    assert bad != trtllm(1, STEPS)
    summary = imported(tmp_path, "\n".join([trtllm(0, STEPS), bad, trtllm(2, MORE)]))
    assert [part.reason for part in summary.skipped] == [reason]
    assert summary.skipped[0].first.startswith(f"{tmp_path / 'engine.log'} line 2")
    assert summary.counts.num_spec_steps == 7


def test_an_acceptance_length_of_another_definition_is_noted(tmp_path: Path) -> None:
    text = trtllm(0, STEPS).replace('"acceptanceLength": 2.3333333333333335', '"acceptanceLength": 1.33')
    assert "acceptanceLength is not 1 + accepted / requests: 1" in imported(tmp_path, text).notes[-1]


# LightLLM


def test_rows_are_not_draft_tokens(tmp_path: Path) -> None:
    """The log divides accepted tokens by rows, the target's included: 4 of 13 is not 4 of 9."""
    counts = imported(tmp_path, lightllm(8, [*STEPS, (0, 0)])).counts
    assert (counts.num_verify_tokens, counts.num_request_steps, counts.num_draft_tokens) == (9, 4, None)
    values = {name: value for name, value in rates(counts).items() if value is not None}
    assert values == pytest.approx(
        {"mean_tokens_per_step": 2.0, "target_efficiency": 8 / 13, "verify_acceptance_rate": 4 / 9}
    )


def test_older_lines_give_accepted_tokens_only(tmp_path: Path) -> None:
    counts = imported(tmp_path, lightllm(8, STEPS, old=True)).counts
    assert (counts.num_accepted_tokens, counts.num_request_steps, counts.num_verify_tokens) == (4, 3, None)


def test_health_probes_and_requests_without_mtp_are_left_out(tmp_path: Path) -> None:
    plain = lightllm(4, STEPS).replace("mtp_total_verify_tokens:12", "mtp_total_verify_tokens:0")
    summary = imported(tmp_path, "\n".join([lightllm(-1, STEPS), plain, lightllm(8, MORE)]))
    assert [sample.label for sample in summary.samples] == ["request 8"]
    assert summary.notes[1:] == ("health probes: 1 left out", "requests without MTP: 1 left out")


@pytest.mark.parametrize(
    ("bad", "reason", "detail"),
    [
        (lightllm(1, STEPS).replace("accepted_token_num:4", "accepted_token_num:10"), "accepts more than was verified",
         "10 accepted of 9 verified"),
        (lightllm(1, STEPS).replace("verify_tokens:12", "verify_tokens:2"), "contradicts itself",
         "2 rows in 3 steps, expected at least one per step"),
        (lightllm(1, STEPS).replace("token_per_step:2.6", "token_per_step:3.6"), "contradicts itself",
         "3.66667 tokens per step for 8 tokens in 3 steps"),
        (lightllm(1, STEPS).partition(" mtp_avg_verify")[0], "is cut off or of an unknown version",
         "it has no mtp_avg_verify_tokens_per_step"),
        (lightllm(1, STEPS, old=True).replace("per_step:2.0", "per_step:1.9"), "is cut off or of an unknown version",
         "1.9 tokens per step for 8 tokens"),
        (lightllm(1, STEPS).replace("out_token_counter:8", "out_token_counter:x"), "is no count",
         "out_token_counter is 'x'"),
    ],
)  # fmt: skip
def test_bad_lightllm_lines(bad: str, reason: str, detail: str, tmp_path: Path) -> None:
    summary = imported(tmp_path, "\n".join([lightllm(0, STEPS), bad, lightllm(2, MORE)]))
    assert summary.skipped == (Skipped(reason, 1, f"{tmp_path / 'engine.log'} line 2: {detail}"),)
    assert summary.counts.num_accepted_tokens == 12
