"""The conformance check of planners: sound ones pass, and each kind of fault has its sentence."""

from __future__ import annotations

import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import BenchError, EngineConfig, Trace
from tests import faulty_planners
from tests.faulty_planners import (
    BreaksInObserve,
    BreaksWhenBuilt,
    ChangesBatch,
    ChangesBatchLater,
    ChangesItsMind,
    ChangesItsPlan,
    ChangesStep,
    DraftsWithoutADrafter,
    ExitsAsked,
    ExitsByNumber,
    ExitsForOneTooMany,
    ExitsOutOfRange,
    ExitsUnasked,
    ExpectsFullDrafts,
    KeepsAReference,
    KeepsAStep,
    KeepsRequests,
    NeedsAProposal,
    NeedsARequest,
    NeedsConfidences,
    NeedsTheEngineIdle,
    NeedsTwoRequests,
    NeverForgets,
    NeverForgetsSteps,
    OverBudget,
    Peeks,
    PerRequest,
    RemembersSome,
    ReusesItsPlan,
    SharesState,
    Sound,
    TooDeep,
    Undecided,
    Unseeded,
)


@pytest.mark.parametrize(
    "spec",
    [
        "none",
        "static",
        "static:k=0",
        "schedule:ranges=[[1,3,4],[4,8,1]]",
        "lightspec-reference",
        "dspark",
        "clamp:most=4,planner=(dwell:planner=acceptance-target)",
    ],
)
def test_the_planners_here_are_sound(spec: str) -> None:
    assert check_planner(spec) == []


def test_a_class_is_checked_as_well_as_a_name() -> None:
    assert check_planner(Sound) == []
    assert check_planner(Sound, options={"depth": 5}, max_draft_tokens=7, seed=3) == []


def test_a_plan_per_request_is_sound() -> None:
    assert check_planner(PerRequest) == []


def faults(planner: type) -> list[str]:
    """The findings, with only the first place where each occurred."""
    return [
        finding.replace(f"{faulty_planners.__name__}:", "").partition(", and ")[0].rstrip(")")
        for finding in check_planner(planner)
    ]


START = "requests come and go, lag 0"


@pytest.mark.parametrize(
    ("planner", "finding"),
    [
        (OverBudget, "planner OverBudget: num_target_tokens is"),
        (Undecided, f"plan() returns None, expected a Plan ({START}"),
        (Unseeded, "two drives with the same seed differ in the plan of step"),
        (ChangesBatch, "plan() changes batch.num_context_tokens, expected it to leave what it is given alone"),
        (ChangesBatchLater, "observe() changes batch.num_output_tokens, expected it to leave what it is given alone"),
        (ChangesStep, "observe() changes step.num_accepted_tokens, expected it to leave what it is given alone"),
        (Peeks, "the plan of step 0 changes with outcomes of step 0 and later"),
        (KeepsRequests, "plan() raises ValueError: operands could not be broadcast together"),
        (SharesState, "two drives with the same seed differ in the plan of step 0"),
        (KeepsAReference, "the plan of step"),
        (KeepsAStep, "the plan of step"),
        (ReusesItsPlan, "plan() changes the plan that was returned before, expected it to leave a plan alone"),
        (ChangesItsPlan, "observe() changes the plan that was returned before, expected it to leave a plan alone"),
        (NeverForgets, "history holds 2"),
        (NeverForgetsSteps, "log holds 2"),
        (ExitsUnasked, "early_exit looks at confidence, expected requires to name 'confidence'"),
        (ExitsForOneTooMany, "planner ExitsForOneTooMany: early_exit.threshold has shape ["),
        (ExitsByNumber, "planner ExitsByNumber: early_exit is 0.5, expected an EarlyExit or None"),
        (ExitsOutOfRange, "plan() raises BenchError: early_exit.threshold is 1.5, expected 0 to 1"),
        (ExpectsFullDrafts, f"plan() raises ValueError: a short draft ({START}"),
        (ChangesItsMind, "confidence is 'none' when built and 'current' later, expected it to stay"),
        (BreaksInObserve, f"observe() raises KeyError: 0 ({START}"),
        (BreaksWhenBuilt, f"constructor raises ZeroDivisionError: no luck ({START}"),
        (DraftsWithoutADrafter, f"num_draft_tokens is 2, expected 0 as uses_drafter is False ({START}"),
    ],
)
def test_each_fault_has_its_sentence(planner: type, finding: str) -> None:
    assert any(fault.startswith(finding) for fault in faults(planner)), faults(planner)


@pytest.mark.parametrize(
    ("planner", "findings"),
    [
        (TooDeep, ["planner TooDeep: num_draft_tokens is 2, expected 0 to 1 (one draft token (D = 1), lag 0"]),
        (NeedsTheEngineIdle, ["plan() raises ValueError: prefill (prompts share steps, requests wait, lag 0"]),
        (
            NeedsARequest,
            [
                "plan() raises ValueError: zero-size array to reduction operation minimum which has no identity "
                "(no request (N = 0), lag 0"
            ],
        ),
        (
            NeedsConfidences,
            [
                "plan() raises TypeError: 'NoneType' object is not subscriptable "
                "(a drafter that shows only what the planner requires, lag 0"
            ],
        ),
    ],
)
def test_what_breaks_in_one_kind_of_batch_is_named_with_it(planner: type, findings: list[str]) -> None:
    assert faults(planner) == findings


@pytest.mark.parametrize(
    ("planner", "place"), [(NeedsTwoRequests, "one request (N = 1), lag 0"), (NeedsAProposal, "lag 0")]
)
def test_rare_batches_are_met(planner: type, place: str) -> None:
    assert any(fault.startswith("plan() raises") and place in fault for fault in faults(planner)), faults(planner)


@pytest.mark.parametrize("planner", [KeepsAReference, KeepsAStep])
def test_references_are_told_apart_from_other_faults(planner: type) -> None:
    assert all(
        "changes when arrays of earlier batches and steps are reused, expected a copy" in fault
        for fault in faults(planner)
    )


@pytest.mark.parametrize("planner", [RemembersSome, ExitsAsked])
def test_what_may_look_like_a_fault_passes(planner: type) -> None:
    assert check_planner(planner) == []


def test_a_fault_in_many_places_is_said_once() -> None:
    (finding,) = check_planner(Undecided)
    assert finding == "plan() returns None, expected a Plan (requests come and go, lag 0, and 22 more)"


class Undeclared:
    def __init__(self, config: EngineConfig) -> None:
        pass


class Misdeclared(Sound):
    confidence = "fresh"
    requires = "entropy"
    uses_drafter = "yes"


class NeedsLogits(Sound):
    """Whether it can be checked depends on its option."""

    def __init__(self, config: EngineConfig, approximate: bool = False) -> None:
        super().__init__(config)
        self.requires = frozenset({"confidence"} if approximate else {"kl_divergence"})  # type: ignore[misc]


class ReadsTrace(Sound):
    def __init__(self, config: EngineConfig, trace: Trace) -> None:
        super().__init__(config)


def test_declarations() -> None:
    assert check_planner(Undeclared) == [
        "attribute confidence is missing, expected one of none, lagged, current",
        "attribute requires is missing, expected a frozenset of words such as 'confidence'",
        "attribute uses_drafter is missing, expected True or False",
        "method plan() is missing",
        "method observe() is missing",
    ]
    assert check_planner(Misdeclared) == [
        "attribute confidence is 'fresh', expected one of none, lagged, current",
        "attribute requires is 'entropy', expected a frozenset of words such as 'confidence'",
        "attribute uses_drafter is 'yes', expected True or False",
    ]


def test_a_signal_that_no_rehearsal_has() -> None:
    assert check_planner(NeedsLogits, options={"approximate": True}) == []
    with pytest.raises(BenchError, match="NeedsLogits needs kl_divergence, which no rehearsal has, expected options"):
        check_planner(NeedsLogits)


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        ("oracle", r"planner oracle reads the trace it runs on \(constructor parameter 'trace'\)"),
        (ReadsTrace, "planner .*:ReadsTrace reads the trace it runs on"),
        ("clamp:planner=oracle", "clamp: planner oracle reads the trace it runs on"),
        ("clamp:planner=(static:k=12)", "static: k is 12, expected 0 to 11"),
        ("json:JSONDecodeError", "its constructor takes 'msg' first, expected 'config'"),
        ("statik", "unknown planner 'statik', did you mean 'static'"),
        ("static:q=3", "static: unknown option 'q', expected one of k"),
        ("static:k=12", "static: k is 12, expected 0 to 11"),
    ],
)
def test_what_cannot_be_checked_is_refused(planner: str | type, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        check_planner(planner)


def test_an_option_that_an_odd_engine_refuses_is_no_fault() -> None:
    """k = 5 is refused at D = 1, where it means nothing."""
    assert check_planner("static:k=5") == []
