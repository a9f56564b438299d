"""Kinds of public cases, each in every engine's format: the same steps, and what may be said of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from lightspec_bench.acceptance import conditional_per_pos, from_steps, length_bounds, rates, survival_per_pos
from lightspec_bench.acceptance_summary import AcceptanceSummary, document, means
from lightspec_bench.core import BenchError
from tests.traces.engine_logs import (
    ALL,
    COUNTING,
    Steps,
    imported,
    lightllm,
    llama_request,
    prometheus,
    sglang_line,
    sums,
    vllm_first_line,
)

FULL: list[Steps] = [[(3, 3), (3, 1), (3, 0)], [(3, 2), (3, 3)]]
SHORT: list[Steps] = [[(3, 3), (1, 1), (3, 0), (2, 1)], [(3, 2), (2, 2)]]
REJECTED: list[Steps] = [[(3, 0)] * 3, [(3, 0)]]

counting = pytest.mark.parametrize("engine", COUNTING)
every = pytest.mark.parametrize("engine", ALL)


@every
def test_the_format_is_recognised(engine: str, tmp_path: Path) -> None:
    summary = imported(tmp_path, ALL[engine](FULL))
    assert (summary.source, len(summary.samples), summary.skipped) == (engine, 2, ())


@counting
@pytest.mark.parametrize("parts", [FULL, SHORT], ids=["full", "short"])
def test_counts_and_definitions(engine: str, parts: list[Steps], tmp_path: Path) -> None:
    """Also where drafts were shorter than the depth: the sums are divided by, not drafts times depth."""
    summary = imported(tmp_path, COUNTING[engine](parts))
    steps = [step for part in parts for step in part]
    expected = from_steps([d for d, _ in steps], [a for _, a in steps])
    values = rates(summary.counts)
    for name in ("mean_acceptance_length", "draft_acceptance_rate", "verify_acceptance_rate"):
        assert values[name] == pytest.approx(rates(expected)[name])
    assert values["target_efficiency_of_spec_steps"] == pytest.approx(
        (sum(a for _, a in steps) + len(steps)) / (sum(d for d, _ in steps) + len(steps))
    )


@counting
def test_positions_are_counts_of_drafts(engine: str, tmp_path: Path) -> None:
    counts = imported(tmp_path, COUNTING[engine](FULL)).counts
    if engine == "trtllm-stats":
        assert (survival_per_pos(counts), conditional_per_pos(counts)) == (None, None)
        return
    assert counts.num_survived_per_pos == (4, 3, 2)
    assert survival_per_pos(counts) == pytest.approx((0.8, 0.6, 0.4))
    assert conditional_per_pos(counts) == pytest.approx((4 / 5, 3 / 4, 2 / 3))


@counting
def test_short_drafts_leave_the_conditional_rate_unknown_without_the_steps(engine: str, tmp_path: Path) -> None:
    found = conditional_per_pos(imported(tmp_path, COUNTING[engine](SHORT)).counts)
    assert found == (pytest.approx((5 / 6, 3 / 4, 1 / 2)) if engine == "vllm-requests" else None)


@every
def test_nothing_accepted_is_a_length_of_one_and_a_rate_of_zero(engine: str, tmp_path: Path) -> None:
    summary = imported(tmp_path, ALL[engine](REJECTED))
    found = means(summary.samples)
    rate = found["verify_acceptance_rate"]
    assert rate is not None
    assert rate.value == 0.0
    if engine != "lightllm-log":
        length = found["mean_acceptance_length"]
        assert length is not None
        assert length.value == 1.0
    if engine in COUNTING:
        assert rates(summary.counts)["mean_acceptance_length"] == 1.0
        assert rates(summary.counts)["draft_acceptance_rate"] == 0.0


@pytest.mark.parametrize("engine", [name for name in ALL if name not in ("llamacpp-log",)])
def test_skipped_drafting_is_no_zero_acceptance(engine: str, tmp_path: Path) -> None:
    """A part that drafted nothing changes neither pooled rates nor means. (llama.cpp prints no line for it.)"""
    alone, beside = (imported(tmp_path, ALL[engine](parts)) for parts in (FULL, [*FULL, [(0, 0), (0, 0)]]))
    for name in ("mean_acceptance_length", "verify_acceptance_rate", "draft_acceptance_rate"):
        assert rates(beside.counts)[name] == rates(alone.counts)[name]
        assert means(beside.samples)[name] == means(alone.samples)[name]


NO_DRAFTS = {
    "vllm first V1 lines": vllm_first_line(FULL[0]),
    "vllm V0 counters": 'vllm:spec_decode_num_accepted_tokens_total{m="q"} 4\nvllm:spec_decode_num_draft_tokens_total'
    '{m="q"} 9\nvllm:spec_decode_num_emitted_tokens_total{m="q"} 7\n',
    "llama.cpp older requests": llama_request(FULL[0], modern=False),
    "llama.cpp example": "n_drafted = 9\nn_accept  = 4\naccept    = 44.444%\n",
    "SGLang": sglang_line(FULL[0]),
    "LightLLM": lightllm(1, FULL[0]),
    "LightLLM older": lightllm(1, FULL[0], old=True),
}


@pytest.mark.parametrize("text", NO_DRAFTS.values(), ids=NO_DRAFTS)
def test_without_the_number_of_drafts_the_pooled_length_is_unknown(text: str, tmp_path: Path) -> None:
    """Not 1 + accepted / drafted, nor anything else."""
    counts = imported(tmp_path, text).counts
    assert counts.num_spec_steps is None
    assert (rates(counts)["mean_acceptance_length"], length_bounds(counts)) == (None, None)


@counting
def test_pooled_and_mean_may_order_two_runs_differently(engine: str, tmp_path: Path) -> None:
    a: list[Steps] = [[(3, 1)] * 30, [(3, 3)] * 2]
    b: list[Steps] = [[(3, 1)] * 12 + [(3, 2)] * 8, [(3, 1)] * 3 + [(3, 2)] * 2]
    found = [imported(tmp_path, COUNTING[engine](run)) for run in (a, b)]
    pooled = [rates(summary.counts)["mean_acceptance_length"] or 0.0 for summary in found]
    mean = [value.value for summary in found if (value := means(summary.samples)["mean_acceptance_length"])]
    assert pooled == pytest.approx([1 + 36 / 32, 2.4])
    assert mean == pytest.approx([3.0, 2.4])
    assert (pooled[0] < pooled[1], mean[0] > mean[1]) == (True, True)


# Bad input


@every
def test_good_parts_around_a_bad_one_are_kept_and_it_is_named_and_counted(engine: str, tmp_path: Path) -> None:
    """More accepted than drafted tokens; where a format has no such counts, a length below 1."""
    one, two = ALL[engine](FULL[:1]), prometheus([[], [], FULL[0]])
    broken = {
        "sglang-log": one.replace("accept len: 2.33", "accept len: 0.50"),
        "lightllm-log": one.replace("mtp_accepted_token_num:4", "mtp_accepted_token_num:40"),
        "llamacpp-log": one.replace("    4 accepted", "   40 accepted"),
        "vllm-log": one.replace("Accepted: 4 tokens", "Accepted: 40 tokens"),
        "vllm-requests": one.replace('[3, 1, 0], "per', '[3, 4, 0], "per').replace("r0", "x"),
        "vllm-bench": one.replace('accepted_tokens": 4', 'accepted_tokens": 40'),
        "trtllm-stats": one.replace('AcceptedTokens": 4', 'AcceptedTokens": 40'),
        "vllm-prometheus": two.replace("} 4.0", "} 40.0"),
    }  # fmt: skip
    text = broken[engine] + ALL[engine](FULL) if engine != "vllm-prometheus" else ALL[engine](FULL) + broken[engine]
    summary = imported(tmp_path, text)
    assert summary.num_skipped == 1
    part = summary.skipped[0]
    assert part.first.startswith(str(tmp_path / "engine.log"))
    assert "line " in part.first
    assert part.reason in (
        "accepts more than was drafted", "accepts more than was verified", "has an acceptance length below 1",
    )  # fmt: skip
    if engine != "vllm-prometheus":
        assert means(summary.samples) == means(imported(tmp_path, ALL[engine](FULL)).samples)


@every
def test_a_file_cut_off_anywhere_gives_its_whole_parts_or_one_sentence(engine: str, tmp_path: Path) -> None:
    text = ALL[engine](FULL)
    whole = imported(tmp_path, text, engine)
    for cut in range(len(text) - 1, 0, -7):
        found = imported_or_refused(tmp_path, text[:cut], engine)
        if isinstance(found, str):
            assert found.startswith(str(tmp_path / "engine.log"))
            continue
        for sample in found.samples:
            drafted = sample.counts.num_draft_tokens
            assert drafted is None or drafted in {sums(part)[1] for part in FULL}
        assert len(found.samples) <= len(whole.samples)


def imported_or_refused(folder: Path, text: str, engine: str) -> AcceptanceSummary | str:
    """The summary, or the sentence that says why there is none."""
    try:
        return imported(folder, text, engine)
    except BenchError as error:
        return str(error)


@pytest.mark.parametrize("engine", ["vllm-log", "sglang-log", "llamacpp-log", "lightllm-log"])
def test_lines_of_another_engine_are_named_not_read(engine: str, tmp_path: Path) -> None:
    other = "sglang-log" if engine == "vllm-log" else "vllm-log"
    summary = imported(tmp_path, ALL[engine](FULL) + ALL[other](FULL))
    assert [(part.reason, part.count) for part in summary.skipped] == [("is a line of another engine", 2)]
    assert summary.skipped[0].first == f"{tmp_path / 'engine.log'} line 3: {other} reads it, this is {engine}"
    assert not any(math.isnan(value or 0.0) for value in rates(summary.counts).values())


@every
def test_a_file_without_a_usable_record_is_one_sentence(engine: str, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"engine\.log"):
        imported(tmp_path, "nothing of use\n", engine)


JUNK = ("", "0", "-1", "1e999", "NaN", "null", "[]", '"x"', "9" * 30, ",", ":", "}", "{", "\n")


@every
@given(where=st.floats(0, 1), width=st.integers(0, 20), junk=st.sampled_from(JUNK))
@settings(max_examples=30, deadline=None)
def test_mangled_files_give_a_summary_or_one_sentence(
    engine: str, where: float, width: int, junk: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = ALL[engine](SHORT)
    at = int(where * len(text))
    found = imported_or_refused(tmp_path_factory.getbasetemp(), text[:at] + junk + text[at + width :], engine)
    if not isinstance(found, str):
        json.dumps(document(found), allow_nan=False)
