"""The conformance check of planners: sound ones pass, and each kind of fault has its sentence."""

from __future__ import annotations

import sys
from typing import ClassVar

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import Batch, BenchError, EngineConfig, Plan, Step, Trace


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


class PerRequest(Sound):
    """Counts and depths per request, from the pending confidences: the other form of a plan."""

    confidence = "current"
    requires = frozenset({"confidence"})

    def plan(self, batch: Batch) -> Plan:
        likely = np.count_nonzero(batch.confidence > 0.5, axis=1)
        depth = np.minimum(likely + 1, self.most)
        return Plan(depth, num_verify_tokens=np.minimum(likely, batch.num_draft_tokens))


def test_a_plan_per_request_is_sound() -> None:
    assert check_planner(PerRequest) == []


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
