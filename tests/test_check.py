"""Bounds of one plan, and the conformance check: sound planners pass, each kind of fault has its sentence."""

from __future__ import annotations

import sys
from typing import ClassVar

import numpy as np
import pytest

from lightspec_bench.check import check_plan
from lightspec_bench.conformance import check_planner
from lightspec_bench.core import Batch, BenchError, EarlyExit, EngineConfig, Plan, PlanError, Step, Trace

PENDING = np.array([3, 0, 2])
BATCH = Batch(0, 0.0, np.arange(3), PENDING, PENDING + 1, PENDING + 100, None, None)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(0, 3),
        Plan(4, 8),
        Plan(np.array([0, 4, 2]), np.int64(5)),
        Plan(2, num_verify_tokens=np.array([3, 0, 0])),
        Plan(2, 3, early_exit=EarlyExit("entropy", 7.5)),
    ],
)
def test_plans_inside_their_bounds(plan: Plan) -> None:
    check_plan(plan, BATCH, 4, "mine")


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(0), "a plan has either num_target_tokens or num_verify_tokens, got neither"),
        (Plan(0, 3, PENDING), "a plan has either num_target_tokens or num_verify_tokens, got both"),
        (Plan(0, 2), r"num_target_tokens is 2, expected 3 to 8 \(3 requests and 5 pending draft tokens\)"),
        (Plan(0, 9), "num_target_tokens is 9, expected 3 to 8"),
        (Plan(0, 4.0), "num_target_tokens is 4.0, expected a whole number"),
        (Plan(0, True), "num_target_tokens is True, expected a whole number"),
        (Plan(5, 3), "num_draft_tokens is 5, expected 0 to 4"),
        (Plan(-1, 3), "num_draft_tokens is -1, expected 0 to 4"),
        (Plan(np.array([0, 5, 2]), 3), r"num_draft_tokens\[1\] is 5, expected 0 to 4"),
        (Plan(np.array([0, 2]), 3), r"num_draft_tokens is int64\[2\], expected 3 whole numbers"),
        (Plan(1.5, 3), "num_draft_tokens is 1.5, expected 3 whole numbers"),
        (Plan(0, num_verify_tokens=np.array([3, 1, 0])), r"num_verify_tokens\[1\] is 1, expected 0 to 0"),
        (Plan(0, num_verify_tokens=np.array([3, 0, -1])), r"num_verify_tokens\[2\] is -1, expected 0 to 2"),
        (Plan(0, num_verify_tokens=np.array([3.0, 0, 0])), r"num_verify_tokens is float64\[3\], expected 3 whole"),
        (Plan(0, 3, early_exit=EarlyExit("logit", 0.5)), "early_exit.signal is 'logit', expected confidence, product"),
        (Plan(0, 3, early_exit=EarlyExit("product", 1.5)), "early_exit.threshold is 1.5, expected 0 to 1"),
        (Plan(0, 3, early_exit=EarlyExit("entropy", float("nan"))), "early_exit.threshold is nan, expected 0 to inf"),
    ],
)
def test_plans_outside_their_bounds(plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=f"planner mine: {message}"):
        check_plan(plan, BATCH, 4, "mine")


@pytest.mark.parametrize(
    "spec", ["none", "static", "static:k=0", "schedule:ranges=[[1,3,4],[4,8,1]]", "lightspec-reference", "dspark"]
)
def test_the_planners_here_are_sound(spec: str) -> None:
    assert check_planner(spec) == []


class Sound:
    """Verifies everything, drafts two tokens; every planner below breaks one rule of this one."""

    confidence: ClassVar[str] = "none"
    requires: ClassVar[frozenset[str]] = frozenset()
    uses_drafter: ClassVar[bool] = True

    def __init__(self, config: EngineConfig, depth: int = 2) -> None:
        self.most = config.max_draft_tokens
        self.depth = min(depth, self.most)
        self.kept: Batch | None = None

    def plan(self, batch: Batch) -> Plan:
        return Plan(self.depth, batch.num_requests + int(batch.num_draft_tokens.sum()))

    def observe(self, step: Step) -> None:
        pass


def test_a_class_is_checked_as_well_as_a_name() -> None:
    assert check_planner(Sound) == []
    assert check_planner(Sound, options={"depth": 5}, max_draft_tokens=7, seed=3) == []


class OverBudget(Sound):
    def plan(self, batch: Batch) -> Plan:
        return Plan(2, batch.num_requests + int(batch.num_draft_tokens.sum()) + 1)


class TooDeep(Sound):
    def plan(self, batch: Batch) -> Plan:
        return Plan(2, batch.num_requests)


class Undecided(Sound):
    def plan(self, batch: Batch) -> None:
        return None


class Unseeded(Sound):
    def plan(self, batch: Batch) -> Plan:
        return Plan(int(np.random.default_rng().integers(self.most + 1)), batch.num_requests)


class ChangesBatch(Sound):
    def plan(self, batch: Batch) -> Plan:
        batch.num_context_tokens.sort()
        return super().plan(batch)


class ChangesBatchLater(Sound):
    def plan(self, batch: Batch) -> Plan:
        self.kept = batch
        return super().plan(batch)

    def observe(self, step: Step) -> None:
        assert self.kept is not None
        self.kept.num_output_tokens[:] += 1


class ChangesStep(Sound):
    def observe(self, step: Step) -> None:
        np.add(step.num_accepted_tokens, 1, out=step.num_accepted_tokens)


class Peeks(Sound):
    """Looks into the drive it is called from, where the outcome of this step lies ready."""

    def plan(self, batch: Batch) -> Plan:
        moment = sys._getframe(2).f_locals["moment"]
        return Plan(int(moment.acceptable.sum()) % (self.most + 1), batch.num_requests)


class NeedsARequest(Sound):
    def plan(self, batch: Batch) -> Plan:
        return Plan(min(self.most, int(batch.num_output_tokens.min())), batch.num_requests)


class NeedsTwoRequests(Sound):
    def plan(self, batch: Batch) -> Plan:
        return Plan(min(self.most, 8 // (batch.num_requests - 1)), batch.num_requests)


class NeedsAProposal(Sound):
    """Breaks when, after the first step, nobody has a proposal."""

    def plan(self, batch: Batch) -> Plan:
        if batch.step and batch.num_requests:
            batch.num_draft_tokens[batch.num_draft_tokens > 0].min()
        return super().plan(batch)


class NeedsConfidences(Sound):
    confidence = "lagged"

    def plan(self, batch: Batch) -> Plan:
        batch.confidence[:, 0].sum()
        return super().plan(batch)


class KeepsRequests(Sound):
    """Believes that the requests of its first step are those of every step."""

    def plan(self, batch: Batch) -> Plan:
        self.kept = self.kept or batch
        alike = bool((self.kept.request_id == batch.request_id).all())
        return Plan(int(alike), batch.num_requests)


class BreaksInObserve(Sound):
    def observe(self, step: Step) -> None:
        raise KeyError(step.index)


class BreaksWhenBuilt(Sound):
    def __init__(self, config: EngineConfig) -> None:
        raise ZeroDivisionError("no luck")


class DraftsWithoutADrafter(Sound):
    uses_drafter = False


def faults(planner: type) -> list[str]:
    """The findings, with only the first place where each occurred."""
    return [
        finding.replace(f"{__name__}:", "").partition(", and ")[0].rstrip(")") for finding in check_planner(planner)
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


def test_a_fault_in_many_places_is_said_once() -> None:
    (finding,) = check_planner(Undecided)
    assert finding == "plan() returns None, expected a Plan (requests come and go, lag 0, and 17 more)"


class Undeclared:
    def __init__(self, config: EngineConfig) -> None:
        pass


class Misdeclared(Sound):
    confidence = "fresh"
    requires = frozenset({"logits"})
    uses_drafter = "yes"


def test_declarations() -> None:
    assert check_planner(Undeclared) == [
        "class attribute confidence is missing, expected one of none, lagged, current",
        "class attribute requires is missing, expected a frozenset of 'confidence' and 'entropy'",
        "class attribute uses_drafter is missing, expected True or False",
        "method plan() is missing",
        "method observe() is missing",
    ]
    assert check_planner(Misdeclared) == [
        "class attribute confidence is 'fresh', expected one of none, lagged, current",
        "class attribute requires is frozenset({'logits'}), expected a frozenset of 'confidence' and 'entropy'",
        "class attribute uses_drafter is 'yes', expected True or False",
    ]


class ReadsTrace(Sound):
    def __init__(self, config: EngineConfig, trace: Trace) -> None:
        super().__init__(config)


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        ("oracle", r"planner oracle reads the trace it runs on \(constructor parameter 'trace'\)"),
        (ReadsTrace, "planner .*:ReadsTrace reads the trace it runs on"),
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
