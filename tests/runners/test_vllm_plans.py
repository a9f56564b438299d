"""Plans inside vLLM's scheduler, which stands in here: what a planner sees, what comes of it, and its failures."""

from __future__ import annotations

import numpy as np
import pytest

from lightspec_bench.core import Batch, EarlyExit, Plan
from lightspec_bench.runners.vllm_adaptive import BUDGET
from lightspec_bench.runners.vllm_report import StepReport
from tests.runners.planners import Scripted
from tests.runners.vllm_standin import Vllm, configuration, controlled, request

NAN = np.nan


def test_a_planner_sees_the_engines_batch_and_its_plan_happens() -> None:
    scheduler = Vllm(configuration(), request("a", 3, outputs=4), request("b", 2))
    control = controlled(scheduler)
    planner = Scripted(lambda batch: Plan(2, num_verify_tokens=np.array([1, 2])))
    control.set_planner(planner)
    report = StepReport(
        0.5, 0.25, 0.125, ("b", "a"), np.array([[0.5, 0.25], [0.75, 0.125]], np.float32), np.ones((2, 2), np.float32)
    )
    output = scheduler.step({"a": 1, "b": 0}, next_drafts=3, report=report)
    assert output.num_scheduled_tokens == {"a": 2, "b": 3}
    scheduler.step({"a": 0, "b": 0}, next_drafts=3)
    first, second = planner.batches
    assert first.request_id.tolist() == [0, 1]
    assert (first.num_draft_tokens.tolist(), second.num_draft_tokens.tolist()) == ([3, 2], [2, 2])
    assert (first.num_output_tokens.tolist(), second.num_output_tokens.tolist()) == ([4, 1], [6, 2])
    assert first.num_context_tokens.tolist() == [14, 11]
    assert second.confidence is not None
    np.testing.assert_array_equal(second.confidence, np.array([[0.75, 0.125, NAN], [0.5, 0.25, NAN]], np.float32))
    step = planner.steps[0]
    assert (step.num_verify_tokens.tolist(), step.num_accepted_tokens.tolist()) == ([1, 2], [1, 0])
    assert (step.verify_s, step.draft_s) == (0.75, 0.125)


def test_a_budget_goes_to_the_surest_drafts() -> None:
    scheduler = Vllm(configuration(), request("a", 3), request("b", 3))
    control = controlled(scheduler)
    control.table.confidence[control.table.slots(["a", "b"])] = [[0.9, 0.8, 0.1], [0.5, 0.9, 0.9]]
    control.set_planner(Scripted(lambda batch: Plan(3, num_target_tokens=5)))
    output = scheduler.step({"a": 0, "b": 0}, next_drafts=3)
    assert output.num_scheduled_tokens == {"a": 3, "b": 2}


def test_requests_draft_as_deep_as_each_was_asked() -> None:
    scheduler = Vllm(configuration(), request("a", 0), request("b", 0))
    control = controlled(scheduler)
    planner = Scripted(lambda batch: Plan(np.array([1, 3]), num_verify_tokens=batch.num_draft_tokens))
    control.set_planner(planner)
    assert scheduler.step({"a": 0, "b": 0}, next_drafts=3).num_spec_tokens_to_schedule == 3
    scheduler.step({"a": 0, "b": 0}, next_drafts=3)
    assert planner.batches[1].num_draft_tokens.tolist() == [1, 3]


def test_under_adaptive_verification_the_device_gets_a_budget_and_nothing_is_cut() -> None:
    vllm_config = configuration()
    vllm_config.speculative_config.enable_adaptive_verification = True
    scheduler = Vllm(vllm_config, request("a", 3), request("b", 3))
    planner = Scripted(lambda batch: Plan(3, num_verify_tokens=np.array([2, 0])))
    controlled(scheduler).set_planner(planner)
    output = scheduler.step({"a": 1, "b": 1}, next_drafts=3)
    assert output.num_scheduled_tokens == {"a": 4, "b": 4}
    assert getattr(output, BUDGET) == 2
    assert planner.steps[0].num_verify_tokens.tolist() == [2, 1]  # the device gave one to b


@pytest.mark.parametrize("how", ["suffix", "fixed"])
def test_a_fixed_depth_is_drafted_and_cut(how: str) -> None:
    scheduler = Vllm(configuration("suffix" if how == "suffix" else "draft_model"), request("a", 0))
    control = controlled(scheduler, depth="planned" if how == "suffix" else "fixed")
    planner = Scripted(lambda batch: Plan(1, num_verify_tokens=batch.num_draft_tokens))
    control.set_planner(planner)
    assert scheduler.step({"a": 0}, next_drafts=3).num_spec_tokens_to_schedule == 3
    scheduler.step({"a": 0}, next_drafts=3)
    assert planner.batches[1].num_draft_tokens.tolist() == [1]


def test_an_early_exit_ends_drafts_where_the_drafter_was_unsure(caplog: pytest.LogCaptureFixture) -> None:
    rule = EarlyExit("confidence", np.array([0.5, 0.8]))
    report = StepReport(0, 0, 0, ("a", "b"), np.array([[0.9, 0.6, 0.4]] * 2, np.float32), np.ones((2, 3), np.float32))
    seen = {}
    for overlapped in (False, True):
        scheduler = Vllm(configuration(overlapped=overlapped), request("a", 0), request("b", 0))
        control = controlled(scheduler)
        planner = Scripted(lambda batch: Plan(3, num_verify_tokens=batch.num_draft_tokens, early_exit=rule))
        control.set_planner(planner)
        scheduler.step({"a": 0, "b": 0}, next_drafts=3, report=report)
        scheduler.step({"a": 0, "b": 0}, next_drafts=3)
        seen[overlapped] = planner.batches[1].num_draft_tokens.tolist()
    assert seen == {False: [2, 1], True: [3, 3]}
    assert "early exits need --no-async-scheduling" in caplog.text


@pytest.mark.parametrize("strict", [False, True])
def test_a_failing_planner_is_switched_off_with_one_warning(strict: bool, caplog: pytest.LogCaptureFixture) -> None:
    def plan(batch: Batch) -> Plan:
        raise ZeroDivisionError("no rate")

    scheduler = Vllm(configuration(), request("a", 3))
    control = controlled(scheduler)
    caplog.clear()
    control.set_planner(Scripted(plan), strict=strict)
    if strict:
        with pytest.raises(ZeroDivisionError):
            scheduler.step({"a": 0}, next_drafts=3)
        return
    for _ in range(3):
        output = scheduler.step({"a": 2}, next_drafts=3)
        assert (output.num_scheduled_tokens, output.num_spec_tokens_to_schedule) == ({"a": 4}, 3)
    assert len(caplog.messages) == 1
    assert "failed and is switched off" in caplog.messages[0]
    assert "ZeroDivisionError: no rate" in caplog.messages[0]


def test_plans_out_of_bounds_are_failures_too() -> None:
    scheduler = Vllm(configuration(), request("a", 3), depths=[0, 2, 1])
    control = controlled(scheduler)
    control.set_planner(Scripted(lambda batch: Plan(9, num_target_tokens=1)), strict=False)
    output = scheduler.step({"a": 0}, next_drafts=3)
    assert output.num_spec_tokens_to_schedule == 2  # vLLM's own table
    assert output.num_scheduled_tokens == {"a": 4}


def test_what_a_forward_takes_beyond_the_last_without_prompts_is_prefill() -> None:
    scheduler = Vllm(configuration(), request("a", 0))
    control = controlled(scheduler)
    control.set_planner(planner := Scripted(lambda batch: Plan(0, num_target_tokens=batch.num_requests)))
    report = StepReport(0.5, 0.0, 0.0, ("a",))
    scheduler.step({"a": 0}, 0, report)
    prompt = request("p", 0, outputs=0, is_prefill_chunk=True, num_computed_tokens=0)
    scheduler.running.append(prompt)
    control.added(prompt)
    scheduler.step({"a": 0, "p": -1}, 0, StepReport(2.0, 0.0, 0.0, ("a", "p")))
    assert [(step.verify_s, step.prefill_s) for step in planner.steps] == [(0.5, 0.0), (0.5, 1.5)]
    assert planner.batches[1].num_prefill_tokens == 10
