"""vLLM's log lines of every version, and its per-request metrics."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from lightspec_bench.acceptance import conditional_per_pos, length_bounds, rates, survival_per_pos
from lightspec_bench.acceptance_summary import Mean, means
from lightspec_bench.core import BenchError
from lightspec_bench.skipped import Skipped
from lightspec_bench.traces.importer import import_summary, import_trace
from tests.traces.engine_logs import Steps, imported, v0_line, vllm_line, vllm_response

STEPS: Steps = [(3, 3), (3, 1), (3, 0)]
# vllm#24127 in the order of 2025 and that of 2026
CASE = "Accepted: 262 tokens, Drafted: 295 tokens, Per-position acceptance rate: 0.983, 0.949, 0.915, 0.881, 0.712"
ORDERS = {
    "rate first": f"SpecDecoding metrics: Draft acceptance rate: 88.8%, Mean acceptance length: 5.44, {CASE}",
    "length first": "SpecDecoding metrics: Mean acceptance length: 5.44, Accepted throughput: 26.20 tokens/s, Drafted "
    f"throughput: 29.50 tokens/s, {CASE}, Avg Draft acceptance rate: 88.8%",
    "probabilities": "SpecDecoding metrics: Draft acceptance rate: 88.8%, Mean acceptance length: 5.44, "
    f"{CASE}".replace("rate: 0.983", "probabilities: 0.983"),
}


# Log lines


@pytest.mark.parametrize("line", ORDERS.values(), ids=ORDERS)
def test_every_field_order(line: str, tmp_path: Path) -> None:
    counts = imported(tmp_path, f"INFO 09-02 10:00:00 [metrics.py:86] {line}\n").counts
    assert (counts.num_spec_steps, counts.num_survived_per_pos) == (59, (58, 56, 54, 52, 42))
    assert rates(counts)["mean_acceptance_length"] == pytest.approx(5.4407, abs=5e-5)
    assert rates(counts)["draft_acceptance_rate"] == pytest.approx(0.8881, abs=5e-5)


def test_nothing_accepted(tmp_path: Path) -> None:
    """vllm-ascend#13665: two windows with nothing accepted, 99 and 3 drafts of 5."""
    text = "\n".join(vllm_line([(5, 0)] * n, depth=5) for n in (99, 3))
    summary = imported(tmp_path, text)
    assert [sample.counts.num_spec_steps for sample in summary.samples] == [99, 3]
    assert rates(summary.counts)["mean_acceptance_length"] == 1.0
    assert "in 2 of 2 windows several numbers of drafts fit" in " ".join(summary.notes)


def test_windows_of_engines_stand_apart(tmp_path: Path) -> None:
    text = "\n".join(vllm_line(STEPS, who=f"(APIServer pid={pid}) ") for pid in (7, 8, 7))
    engines = imported(tmp_path, text).engines
    assert {name: counts.num_spec_steps for name, counts in engines.items()} == {
        "APIServer pid=7": 6,
        "APIServer pid=8": 3,
    }


def test_idle_lines_and_colours(tmp_path: Path) -> None:
    idle = "SpecDecoding metrics: Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 tokens\r\n"
    summary = imported(tmp_path, f"{idle}\x1b[36m{vllm_line(STEPS)}\x1b[0m\r\n{idle}")
    assert [sample.label for sample in summary.samples] == ["line 2"]
    assert summary.notes[-1].endswith("2 left out")


def test_one_window_of_unlike_drafts_is_enough_to_assume_no_full_ones(tmp_path: Path) -> None:
    """A rejected window alone may be 99 drafts of 5 tokens; beside one that has short drafts it may be any number."""
    alone = imported(tmp_path, vllm_line([(5, 0)] * 99, depth=5))
    beside = imported(tmp_path, "\n".join([vllm_line([(5, 0)] * 99, depth=5), vllm_line([(5, 5), (2, 1)], depth=5)]))
    assert (alone.counts.num_spec_steps, beside.samples[0].counts.spec_steps_bounds) == (99, (99, 495))
    assert beside.samples[1].counts.num_spec_steps == 2
    assert means(beside.samples)["mean_acceptance_length"] == Mean(2.5, 2, False)


def test_a_window_whose_drafts_cannot_be_counted_gives_bounds(tmp_path: Path) -> None:
    """An n-gram drafter of up to 5 tokens: many drafts, of unlike lengths."""
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.47, Accepted throughput: 1.00 tokens/s, Drafted throughput: "
        "1.00 tokens/s, Accepted: 30000 tokens, Drafted: 61001 tokens, Per-position acceptance rate: 0.700, 0.400, "
        "0.200, 0.100, 0.070, Avg Draft acceptance rate: 49.2%"
    )
    summary = imported(tmp_path, line)
    low, high = length_bounds(summary.counts) or (0.0, 0.0)
    assert rates(summary.counts)["mean_acceptance_length"] is None
    assert 2.465 < low <= high < 2.475
    assert summary.samples[0].printed == {"mean_acceptance_length": 2.47}


V0 = "Number of accepted tokens: 32594, Number of draft tokens: 53716, Number of emitted tokens: 34244."


def test_v0_counts_agreement_behind_a_rejection(tmp_path: Path) -> None:
    """vllm#7301: 2.55 tokens per draft, not 1 + accepted / drafts = 3.43."""
    start = (
        "Speculative metrics: Draft acceptance rate: 0.607, System efficiency: 0.510, Number of speculative tokens: 4, "
    )
    values = rates(imported(tmp_path, start + V0).counts)
    assert {name: round(value, 4) for name, value in values.items() if value is not None} == {
        "mean_tokens_per_spec_step": 2.55,
        "target_efficiency_of_spec_steps": 0.51,
        "matched_token_rate": 0.6068,
    }


def test_v0_lines_are_running_totals_until_the_engine_starts_anew(tmp_path: Path) -> None:
    totals = [(5, 1, 5, 1), (5, 3, 15, 5), (5, 3, 15, 5), (5, 2, 10, 4)]
    summary = imported(tmp_path, "\n".join(v0_line(*line) for line in totals))
    counts = [
        (s.counts.num_draft_tokens, s.counts.num_matched_tokens, s.counts.num_spec_tokens) for s in summary.samples
    ]
    assert counts == [(5, 1, 1), (10, 2, 4), (10, 2, 4)]


@pytest.mark.parametrize(
    ("bad", "reason", "detail"),
    [
        (ORDERS["length first"].replace("Drafted: 295", "Drafted: 200"), "accepts more than was drafted",
         "262 accepted of 200 drafted"),
        (ORDERS["length first"].replace("0.983", "1.983"), "has a rate above 1", "per-position acceptance rate 1.983"),
        (ORDERS["rate first"].replace("88.8%", "188.8%"), "has a rate above 1", "draft acceptance rate 1.888"),
        (ORDERS["rate first"].replace("88.8%", "12.0%"), "contradicts itself",
         "rate 12.0% for 262 accepted of 295 drafted"),
        (ORDERS["rate first"].replace("5.44", "4.44"), "contradicts itself",
         "mean acceptance length 4.44 for 262 accepted of 295 fits no number of drafts"),
        (ORDERS["rate first"][:-2], "is cut off or of an unknown version", "its rates per position end in 0.7"),
        (ORDERS["length first"][:-7], "is cut off or of an unknown version", "it has no draft acceptance rate"),
        ("SpecDecoding metrics: Mean acceptance length: 5.44, Acc", "is cut off or of an unknown version",
         "it has no accepted tokens"),
        ("DiffusionDecoding metrics: Committed: 5 tokens", "is about diffusion decoding, which drafts nothing", ""),
        (v0_line(4, 3, 8, 4).replace("0.400", "0.900"), "contradicts itself",
         "system efficiency 0.900 for 4 tokens of 10 rows"),
        (v0_line(4, 3, 9, 4), "contradicts itself", "9 draft tokens are no whole number of drafts of 4"),
        (v0_line(4, 3, 8, 11), "emits more than was verified", "11 tokens of 10 target rows"),
    ],
)  # fmt: skip
def test_bad_lines(bad: str, reason: str, detail: str, tmp_path: Path) -> None:
    summary = imported(tmp_path, f"{vllm_line(STEPS)}\n{bad}\n{vllm_line(STEPS)}\n")
    where = f"{tmp_path / 'engine.log'} line 2"
    assert summary.skipped == (Skipped(reason, 1, f"{where}: {detail}" if detail else where),)
    assert summary.counts.num_spec_steps == 6


def test_a_damaged_gzip_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "v.log.gz"
    path.write_bytes(gzip.compress("\n".join(vllm_line([(3, n % 4)] * n) for n in range(1, 400)).encode()))
    assert len(import_summary(path).samples) == 399
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BenchError, match="truncated or damaged gzip file"):
        import_summary(path, "vllm-log")


# Per-request metrics


def test_the_histogram_of_the_documentation(tmp_path: Path) -> None:
    """acceptance_metrics.md, with a histogram by draft length, whose keys are texts (pull request 56278)."""
    found = {
        "mean_acceptance_length": 1.2325581395348837, "draft_acceptance_rate": 0.07751937984496124,
        "acceptance_histogram": [39, 1, 0, 3], "num_spec_steps": 43, "num_accepted_draft_tokens": 10,
        "num_draft_tokens": 129, "num_spec_tokens": 3,
    }  # fmt: skip
    by_length = {**found, "acceptance_histogram_by_draft_length": {"3": [39, 1, 0, 3]}}
    for record in (found, {"speculative_decoding": by_length}, {"data": {"metrics": {"speculative_decoding": found}}}):
        counts = imported(tmp_path, json.dumps(record, indent=1)).counts
        assert rates(counts)["mean_acceptance_length"] == pytest.approx(1.23256, abs=5e-6)
        assert rates(counts)["draft_acceptance_rate"] == pytest.approx(0.077519, abs=5e-7)
        assert survival_per_pos(counts) == pytest.approx((4 / 43, 3 / 43, 3 / 43))
        assert conditional_per_pos(counts) == pytest.approx((4 / 43, 3 / 4, 1.0))


def test_draft_lengths_tell_what_was_at_risk(tmp_path: Path) -> None:
    """(drafted, accepted) of (1, 1), (3, 2) and of (2, 1), (2, 2) have the same sums."""
    record = {"acceptance_histogram": [0, 1, 1, 0], "num_draft_tokens": 4}
    a, b = (
        imported(tmp_path, json.dumps({**record, "acceptance_histogram_by_draft_length": by_length})).counts
        for by_length in ({"1": [0, 1], "3": [0, 0, 1, 0]}, {"2": [0, 1, 1]})
    )
    assert (a.num_accepted_tokens, a.num_draft_tokens) == (b.num_accepted_tokens, b.num_draft_tokens) == (3, 4)
    assert (a.num_at_risk_per_pos, b.num_at_risk_per_pos) == ((2, 1, 1), (2, 2))


GIVEN = {"target": "t", "drafter": "d", "drafter_kind": "autoregressive"}


def test_detailed_requests_become_a_step_indexed_trace(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join([vllm_response("a", [(3, 1), (2, 2), (3, 0)]), vllm_response("b", [(3, 3)])]))
    trace = import_trace(path, None, GIVEN)
    assert (trace.info.indexing, trace.max_draft_tokens, trace.num_prompt_tokens.tolist()) == ("step", 3, [9, 9])
    assert trace.request_id.tolist() == ["a", "b"]
    assert trace.num_draft_tokens is not None
    first = slice(0, trace.offsets[1])
    np.testing.assert_array_equal(trace.num_draft_tokens[first], [0, 3, 2, 2, 1, 0, 3])
    np.testing.assert_array_equal(trace.num_accepted[first], [0, 1, 0, 2, 1, 0, 0])


def test_a_trace_keeps_the_requests_that_have_steps_and_says_what_it_left_out(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    skipping = vllm_response("b", [(3, 3), (0, 0)])
    path.write_text("\n".join([skipping, vllm_response("c", STEPS, level="summary"), '{"id": "cut']))
    trace = import_trace(path, None, GIVEN)
    assert trace.request_id.tolist() == ["b"]
    assert "2 records left out; 1 requests had steps without a draft" in trace.info.made_by


def test_summaries_alone_make_no_trace(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(vllm_response("a", STEPS, level="summary"))
    with pytest.raises(BenchError, match="no request has per_step_accepted and per_step_drafted"):
        import_trace(tmp_path / "r.jsonl", None, GIVEN)
    (tmp_path / "v.log").write_text(vllm_line(STEPS))
    with pytest.raises(BenchError, match="VllmLog reads sums over steps, of which no trace can be made"):
        import_trace(tmp_path / "v.log", None, GIVEN)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"per_step_accepted": [3, 1, 4]}, "accepts more than was drafted"),
        ({"per_step_accepted": [3, 1]}, "contradicts itself"),
        ({"num_spec_steps": 4}, "contradicts itself"),
        ({"per_step_accepted": [3, 1, -1]}, "is no count"),
        ({"per_step_accepted": "3"}, "is of an unknown version"),
        (None, "has no metrics.speculative_decoding"),
    ],
)
def test_bad_requests(change: dict[str, object] | None, reason: str, tmp_path: Path) -> None:
    record = json.loads(vllm_response("x", STEPS))
    inner = record["metrics"]["speculative_decoding"]
    record["metrics"]["speculative_decoding"] = None if change is None else {**inner, **change}
    good = [vllm_response(name, STEPS) for name in "ab"]
    summary = imported(tmp_path, "\n".join([good[0], json.dumps(record), good[1]]))
    assert [(part.reason, part.count) for part in summary.skipped] == [(reason, 1)]
    assert f"{tmp_path / 'engine.log'} line 2" in summary.skipped[0].first
    assert summary.counts.num_spec_steps == 6
