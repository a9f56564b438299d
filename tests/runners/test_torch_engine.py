"""The real engine loses nothing: output is the target's own under any planner, drafter and schedule of depths."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from lightspec_bench.core import Batch, BenchError, ConfidenceAge, Plan, PlanError
from lightspec_bench.planners.none import NoSpeculation
from lightspec_bench.planners.static import Static
from lightspec_bench.runners.requests import Request
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_lm import LmDrafter, without_layers
from lightspec_bench.runners.torch_model import TorchModel, random_model
from lightspec_bench.runners.torch_ngram import NgramDrafter
from lightspec_bench.runners.torch_suffix import SuffixDrafter
from tests.runners.torch_support import (
    Adversary,
    Fixed,
    check_sums,
    outputs_of,
    plain,
    runner,
    some_requests,
    tiny_config,
    tiny_model,
)

MakeDrafter = Callable[[TorchModel, int], TorchDrafter]
DRAFTERS: dict[str, MakeDrafter] = {
    "ngram": lambda target, depth: NgramDrafter(depth),
    "suffix": lambda target, depth: SuffixDrafter(depth, archive_tokens=256),
    "model": lambda target, depth: LmDrafter(tiny_model(seed=1), depth),
    "layer skip": lambda target, depth: LmDrafter(without_layers(target, [1]), depth),
    "itself": lambda target, depth: LmDrafter(target, depth),
}


@cache
def model() -> TorchModel:
    return tiny_model()


@cache
def requests() -> tuple[list[Request], dict[int, list[int]]]:
    """200 requests and the target's own output for them."""
    found = some_requests(200)
    return found, outputs_of(plain(model()), found)


@pytest.mark.parametrize("lag_steps", [0, 1])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_greedy_output_is_the_targets_own(drafter: str, lag_steps: int) -> None:
    sent, expected = requests()
    sent = sent if drafter in ("ngram", "suffix") else sent[:100]
    real = runner(model(), DRAFTERS[drafter](model(), 5), sent, concurrency=24, lag_steps=lag_steps)
    planner = Adversary(5, seed=lag_steps)
    run = real.run(planner)
    assert real.outputs == {row: expected[row] for row in range(len(sent))}
    check_sums(run)
    verified, accepted = run.totals.outcomes.sum(axis=1), run.totals.outcomes.sum(axis=0)
    assert accepted[1:].any()
    assert verified[5] > 0
    assert len(run.requests["request_id"]) == len(sent)
    assert run.origin == "measured"


def test_a_run_may_follow_another_with_the_same_objects() -> None:
    sent, expected = requests()
    real = runner(model(), SuffixDrafter(3), sent[:20], concurrency=8)
    for planner in (Adversary(3), NoSpeculation(real.config), Adversary(3, seed=1)):
        real.run(planner)
        assert real.outputs == {row: expected[row] for row in range(20)}


def test_without_a_drafter_every_step_gives_one_token_a_request() -> None:
    real = runner(model(), None, [Request([1, 2, 3], 5), Request([4], 3)])
    run = real.run(NoSpeculation(real.config))
    assert run.requests["num_steps"].tolist() == [4, 2]
    assert run.steps is not None
    assert run.steps["num_requests"].tolist() == [2, 2, 1, 1]
    assert run.steps["num_target_tokens"].tolist() == [2, 2, 1, 1]
    assert run.steps["num_context_tokens"].tolist() == [4 + 2, 5 + 3, 6, 7]
    assert run.steps["num_prefill_tokens"].tolist() == [4, 0, 0, 0]
    assert run.totals.num_output_tokens == 8


def test_the_target_as_its_own_drafter_is_always_right() -> None:
    real = runner(model(), LmDrafter(model(), 3), [Request([1, 2, 3], 12), Request([9], 12)])
    run = real.run(Fixed([3]))
    # One token of prefill, one of the first step, which had no draft, then four a step, the last one cut to two.
    assert run.requests["num_steps"].tolist() == [4, 4]
    assert run.requests["num_accepted_tokens"].tolist() == [7, 7]
    assert run.totals.outcomes.tolist() == [[2, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 2, 0, 4]]


def accepted_at(drafter: TorchDrafter, schedule: list[int], sent: list[Request]) -> dict[tuple[int, int], int]:
    """Accepted tokens of every step that had a full draft of 3, by request and output tokens so far."""
    real = runner(model(), drafter, sent, concurrency=len(sent))
    planner = Fixed(schedule)
    real.run(planner)
    return {
        (int(request), int(position)): int(accepted)
        for batch, step in zip(planner.batches, planner.steps, strict=False)
        for request, position, drafts, accepted in zip(
            step.request_id, batch.num_output_tokens, step.num_draft_tokens, step.num_accepted_tokens, strict=True
        )
        if drafts == 3
    }


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_acceptance_after_a_spell_of_depth_0_is_what_it_is_without_one(drafter: str) -> None:
    sent = [Request(request.tokens, 60) for request in requests()[0][:10]]
    always = accepted_at(DRAFTERS[drafter](model(), 3), [3], sent)
    spells = accepted_at(DRAFTERS[drafter](model(), 3), [0] * 9 + [3] * 2 + ([0, 0, 0, 0, 0, 3, 1, 3, 0, 3] * 30), sent)
    same = always.keys() & spells.keys()
    if drafter != "suffix":  # its archive holds what had been written by then, which the schedule changes
        assert {key: always[key] for key in same} == {key: spells[key] for key in same}
    assert len(same) >= 5


@pytest.mark.parametrize("drafter", ["ngram", "itself"])
def test_outputs_end_at_a_stop_token_even_inside_an_accepted_run(drafter: str) -> None:
    sent, expected = requests()
    stops = (3, 17)
    real = runner(model(), DRAFTERS[drafter](model(), 5), sent, concurrency=32, stop_tokens=stops)
    run = real.run(Fixed([5]))
    cut = {}
    for row, tokens in expected.items():
        ends = [place for place, token in enumerate(tokens) if token in stops]
        cut[row] = tokens[: ends[0] + 1] if ends else tokens
    assert cut != expected
    assert real.outputs == cut
    check_sums(run)
    assert run.requests["num_output_tokens"].sum() == sum(map(len, cut.values()))


def test_outputs_end_where_the_cache_does() -> None:
    sent, expected = requests()
    real = runner(model(), NgramDrafter(5), sent[:30], max_model_len=25)
    real.run(Fixed([5]))
    assert real.outputs == {row: expected[row][: 25 - len(sent[row].tokens)] for row in range(30)}


def test_more_requests_than_prompts_and_no_tail() -> None:
    sent, expected = requests()
    real = runner(model(), NgramDrafter(2), sent[:5], num_requests=12, keep_full=True, shuffle_seed=3)
    run = real.run(Fixed([2]))
    assert sorted(run.requests["request_id"].tolist()) == sorted(real.outputs)
    assert len(real.outputs) == 12
    assert all(real.outputs[request] == expected[request % 5] for request in real.outputs)
    assert run.steps is not None
    assert (run.steps["num_requests"] == 4).all()


def test_no_request_and_requests_of_one_token() -> None:
    empty = runner(model(), NgramDrafter(2), []).run(Fixed([2]))
    assert (empty.totals.num_steps, empty.totals.num_output_tokens, len(empty.requests["request_id"])) == (0, 0, 0)
    real = runner(model(), NgramDrafter(2), [Request([1, 2], 1)] * 6, concurrency=2)
    run = real.run(Fixed([2]))
    assert (run.totals.num_steps, run.totals.num_output_tokens, run.totals.num_prefill_tokens) == (0, 6, 12)
    assert [len(tokens) for tokens in real.outputs.values()] == [1] * 6


@pytest.mark.parametrize(
    ("sent", "options", "sentence"),
    [
        ([Request([1] * 9, 4)], {"max_model_len": 9}, "request 0 has 9 prompt tokens, expected fewer than 9"),
        ([Request([1] * 300, 4)], {}, "request 0 has 300 prompt tokens, expected fewer than 256"),
        ([Request([1], 4)], {"max_model_len": 512}, "max_model_len is 512, expected at most 256"),
        ([Request([1], 4), Request([], 4)], {}, "request 1 has no prompt tokens, expected at least 1"),
        ([Request([1], 0)], {}, "request 0 has max_tokens 0, expected at least 1"),
    ],
)
def test_requests_that_do_not_fit_are_refused_in_a_sentence(
    sent: list[Request], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BenchError, match=sentence):
        runner(model(), NgramDrafter(2), sent, **options).run(Fixed([2]))


def test_a_drafter_of_another_vocabulary_is_refused() -> None:
    other = tiny_model(vocab_size=60)
    with pytest.raises(BenchError, match="has a vocabulary of 60, expected 61"):
        runner(model(), LmDrafter(other, 2), [Request([1], 4)]).run(Fixed([2]))


def test_a_planner_that_drafts_needs_a_drafter() -> None:
    real = runner(model(), None, [Request([1], 4)])
    with pytest.raises(BenchError, match="planner static uses a drafter and the runner has none"):
        real.run(Static(real.config, k=2))


@pytest.mark.parametrize("lag_steps", [0, 1])
def test_a_plan_out_of_bounds_is_refused(lag_steps: int) -> None:
    with pytest.raises(PlanError, match="num_draft_tokens is 9, expected 0 to 2"):
        runner(model(), NgramDrafter(2), [Request([1], 4)], lag_steps=lag_steps).run(Fixed([9]))


class Impatient(Fixed):
    """Presses Ctrl-C before its fifth step."""

    def plan(self, batch: Batch) -> Plan:
        if batch.step == 4:
            raise KeyboardInterrupt
        return super().plan(batch)


@pytest.mark.parametrize("lag_steps", [0, 1])
def test_an_interrupt_keeps_what_was_recorded(lag_steps: int) -> None:
    sent, expected = requests()
    real = runner(model(), NgramDrafter(2), [*sent[:3], Request([1], 1)], lag_steps=lag_steps)
    run = real.run(Impatient([0]))
    assert run.settings == {"interrupted": True}
    assert run.steps is not None
    assert len(run.steps["step"]) == run.totals.num_steps == 4
    assert all(tokens == expected[row] for row, tokens in real.outputs.items() if row < 3)
    assert 3 in real.outputs
    assert len(real.outputs) == len(run.requests["request_id"])


class Watcher(Fixed):
    confidence: ClassVar[ConfidenceAge] = "lagged"

    def plan(self, batch: Batch) -> Plan:
        seen = len(self.steps)
        plan = super().plan(batch)
        self.seen = [*getattr(self, "seen", []), seen]
        return plan


class CurrentWatcher(Watcher):
    confidence: ClassVar[ConfidenceAge] = "current"


def test_what_the_planner_knows_when_synchronous() -> None:
    planner = Watcher([3])
    runner(model(), LmDrafter(tiny_model(seed=1), 3), [Request([1, 2], 12)]).run(planner)
    assert planner.seen[:4] == [0, 1, 2, 3]
    for batch, step in zip(planner.batches, planner.steps, strict=False):
        assert batch.num_draft_tokens.tolist() == step.num_draft_tokens.tolist()
        np.testing.assert_array_equal(batch.confidence, step.confidence)


@pytest.mark.parametrize("kind", [Watcher, CurrentWatcher])
def test_what_the_planner_knows_under_lag(kind: type[Watcher]) -> None:
    planner = kind([3])
    runner(model(), LmDrafter(tiny_model(seed=1), 3), [Request([1, 2], 12)], lag_steps=1).run(planner)
    assert planner.seen[:4] == [0, 0, 1, 2]
    assert [batch.step for batch in planner.batches] == list(range(len(planner.batches)))
    if kind is CurrentWatcher:
        np.testing.assert_array_equal(planner.batches[2].confidence, planner.steps[2].confidence)
        return
    assert planner.batches[0].confidence is not None
    assert np.isnan(planner.batches[0].confidence).all()
    for batch, before in zip(planner.batches[1:], planner.steps, strict=False):
        np.testing.assert_array_equal(batch.confidence, before.confidence)  # of the proposal verified one step earlier


@pytest.mark.parametrize("lag_steps", [0, 1])
def test_seconds_add_up(lag_steps: int) -> None:
    sent = requests()[0][:20]
    run = runner(model(), LmDrafter(tiny_model(seed=1), 3), sent, lag_steps=lag_steps).run(Fixed([3]))
    assert run.steps is not None
    parts = sum(run.steps[name] for name in ("verify_s", "draft_s", "host_s", "prefill_s", "exposed_planner_s"))
    np.testing.assert_allclose(parts, run.steps["duration_s"], atol=1e-9)
    np.testing.assert_allclose(run.totals.elapsed_s, run.steps["duration_s"].sum())
    np.testing.assert_allclose(run.steps["start_s"][1:], (run.steps["start_s"] + run.steps["duration_s"])[:-1])
    requests_of = run.requests
    assert (requests_of["start_s"] <= requests_of["first_token_s"]).all()
    assert (requests_of["first_token_s"] <= requests_of["finish_s"]).all()


@pytest.mark.gpu
def test_a_cuda_device_gives_the_same_tokens() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    sent, _ = requests()
    target = random_model(tiny_config(), "tiny", device="cuda")
    alone = runner(target, None, sent, concurrency=1)
    alone.run(NoSpeculation(alone.config))
    speculating = runner(target, NgramDrafter(5), sent, concurrency=24, lag_steps=1)
    speculating.run(Adversary(5))
    assert speculating.outputs == alone.outputs
