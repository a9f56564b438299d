"""vLLM under a planner that plans at random: what was planned happens, and the output stays the target's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightspec_bench.core import Step, Trace
from lightspec_bench.traces.format import read_trace
from tests.runners.vllm_support import (
    NEEDS_VLLM,
    Adversary,
    Failing,
    Seen,
    engine,
    force_overlapping,
    prompts,
    tiny_drafter,
    tiny_head,
    tiny_target,
)

pytestmark = NEEDS_VLLM
CASES = ("ngram", "custom proposer", "draft model", "draft model, overlapped", "chain head", "chain head, overlapped")
DEPTH = 4
SHOW_NOTHING = ("ngram", "custom proposer")  # no confidences
DETAILED = {"per_request_spec_decode_metrics": "detailed"}


@dataclass
class Played:
    """One engine's run under the adversary, and what it was told of the engine."""

    case: str
    tokens: list[list[int]]
    details: list[Any]  # vLLM's own per-request record
    planner: Adversary
    seen: Seen
    trace: Trace  # recorded meanwhile
    failing: Seen  # under a planner that fails in its fourth step
    failing_tokens: list[list[int]]

    @property
    def steps(self) -> list[Step]:
        return [timed.step for timed in self.seen.steps]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    target = tiny_target(folder / "target")
    return {
        "target": target,
        "drafter": tiny_drafter(target, folder / "drafter"),
        "head": tiny_head(target, folder / "head"),
    }


@pytest.fixture(scope="module")
def plain(models: dict[str, Path]) -> list[list[int]]:
    """What the target puts out without speculation."""
    with pytest.MonkeyPatch.context() as patch, engine(patch, models["target"]) as running:
        outputs, _ = running.run(prompts(), None)
        return [list(output.outputs[0].token_ids) for output in outputs]


@pytest.fixture(scope="module", params=CASES)
def played(request: pytest.FixtureRequest, models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Played:
    from lightspec_bench.runners.vllm_record import live_recorder

    case = str(request.param)
    speculative: dict[str, Any] = {"num_speculative_tokens": DEPTH}
    if case == "ngram":
        speculative |= {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    elif case == "custom proposer":
        speculative |= {"method": "custom_class", "model": "tests.runners.vllm_support.RepeatLast"}
    elif case.startswith("draft model"):
        speculative |= {"method": "draft_model", "model": str(models["drafter"])}
    else:
        speculative |= {"method": "eagle3", "model": str(models["head"])}
    with pytest.MonkeyPatch.context() as patch:
        if "overlapped" in case:
            force_overlapping(patch)
        with engine(patch, models["target"], speculative, vllm=DETAILED) as running:
            planner = Adversary(running.control.config, seed=7)
            assert running.control.config.lag_steps == ("overlapped" in case)
            recorder = live_recorder(
                running.llm.llm_engine.vllm_config, running.control, tmp_path_factory.mktemp("trace") / "live.parquet"
            )
            running.control.observers.append(recorder)
            outputs, seen = running.run(prompts(), planner)
            running.control.observers.remove(recorder)
            recorder.close()
            failing_outputs, failing = running.run(prompts(), Failing(running.control.config), strict=False)
    answers = [output.outputs[0] for output in outputs]
    return Played(
        case=case,
        tokens=[list(answer.token_ids) for answer in answers],
        details=[answer.spec_decode_metrics for answer in answers],
        planner=planner,
        seen=seen,
        trace=read_trace(recorder.out),
        failing=failing,
        failing_tokens=[list(output.outputs[0].token_ids) for output in failing_outputs],
    )


def test_every_planned_length_is_honoured(played: Played) -> None:
    assert played.steps
    for step in played.steps:
        np.testing.assert_array_equal(step.num_verify_tokens, step.plan.num_verify_tokens)
        assert (step.num_accepted_tokens <= step.num_verify_tokens).all()
    trimmed = sum(int((step.num_draft_tokens - step.num_verify_tokens).sum()) for step in played.steps)
    assert trimmed > 0


def test_every_depth_is_proposed_and_none_is_passed(played: Played) -> None:
    if played.case == "custom proposer":  # which nobody tells a depth
        assert {timed.depth for timed in played.seen.steps} == {DEPTH}
    else:
        assert {timed.depth for timed in played.seen.steps} == set(range(DEPTH + 1))
    asked: dict[int, int] = {}
    for step in played.steps:
        for request, number in zip(step.request_id.tolist(), step.num_draft_tokens.tolist(), strict=True):
            most = asked.get(request, DEPTH)
            assert number <= most
            if played.case not in SHOW_NOTHING:  # which propose fewer
                assert number in (most, 0) or request not in asked
        depth = np.broadcast_to(step.plan.num_draft_tokens, step.request_id.shape)
        asked = dict(zip(step.request_id.tolist(), depth.tolist(), strict=True))


def test_outputs_are_the_targets_own(played: Played, plain: list[list[int]]) -> None:
    assert played.tokens == plain


def test_acceptance_is_what_vllm_itself_counts(played: Played) -> None:
    """Step by step, but for the last one of a request: we count what came out, vLLM what would have."""
    for request, details in enumerate(played.details):
        own = [
            (int(step.num_verify_tokens[row]), int(step.num_accepted_tokens[row]))
            for step in played.steps
            for row in np.flatnonzero((step.request_id == request) & (step.num_verify_tokens > 0))
        ]
        theirs = list(zip(details.per_step_drafted, details.per_step_accepted, strict=True))
        assert [verified for verified, _ in own] == [verified for verified, _ in theirs][: len(own)]
        assert own[:-1] == theirs[: len(own)][:-1]
        assert own[-1][1] <= theirs[len(own) - 1][1]


def test_tokens_add_up(played: Played) -> None:
    for gone in played.seen.requests:
        assert gone.num_output_tokens == 24
        assert gone.num_output_tokens == 1 + gone.num_steps + gone.num_accepted_tokens
    assert sorted(gone.request_id for gone in played.seen.requests) == list(range(len(prompts())))


def test_a_planner_sees_the_steps_before_and_no_outcome(played: Played) -> None:
    """Tokens out so far are those of the steps before; with steps overlapped, of those before the one that runs."""
    told = 1 + int("overlapped" in played.case)
    out: dict[int, list[int]] = {}  # tokens out after the prompt and after each step
    batches = {batch.step: batch for batch in played.planner.batches}
    for step in played.steps:
        batch = batches[step.index]
        known = dict(zip(batch.request_id.tolist(), batch.num_output_tokens.tolist(), strict=True))
        for request, accepted in zip(step.request_id.tolist(), step.num_accepted_tokens.tolist(), strict=True):
            history = out.setdefault(request, [1])
            assert known[request] == ([0, *history][-told] if told > 1 else history[-1])
            history.append(history[-1] + accepted + 1)


def test_the_recorded_trace_has_what_every_step_verified_and_accepted(played: Played) -> None:
    trace = played.trace
    known = {gone.name: gone for gone in played.seen.requests}
    assert set(trace.request_id.tolist()) == set(known)
    for row, name in enumerate(trace.request_id.tolist()):
        gone = known[name]
        start = int(trace.offsets[row])
        assert trace.num_output_tokens[row] == gone.num_output_tokens
        assert trace.num_draft_tokens is not None
        position, steps = 1, []
        while position < gone.num_output_tokens:
            accepted = int(trace.num_accepted[start + position])
            steps.append((int(trace.num_draft_tokens[start + position]), accepted))
            position += accepted + 1
        own = [
            (int(step.num_verify_tokens[at]), int(step.num_accepted_tokens[at]))
            for step in played.steps
            for at in np.flatnonzero(step.request_id == gone.request_id)
        ]
        assert [accepted for _, accepted in steps] == [accepted for _, accepted in own]
        assert steps[:-1] == own[:-1]  # the last may have verified past the request's end
    assert (trace.confidence is None) == (played.case in SHOW_NOTHING)


def test_a_planner_that_fails_is_left_out_and_the_text_stays(played: Played, plain: list[list[int]]) -> None:
    assert played.failing_tokens == plain
    later = [timed for timed in played.failing.steps if timed.step.index >= 6]
    assert later
    assert {timed.depth for timed in later} == {DEPTH}
    for timed in later:
        np.testing.assert_array_equal(timed.step.num_verify_tokens, timed.step.num_draft_tokens)
