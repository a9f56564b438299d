"""The conformance check of planners: sound ones pass, and each kind of fault has its sentence."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from lightspec_bench.conformance import check_planner
from lightspec_bench.core import Batch, BenchError, EarlyExit, EngineConfig, Plan, Step, Trace


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


class NeedsTheEngineIdle(Sound):
    """Takes prompt tokens in its step for an error."""

    def plan(self, batch: Batch) -> Plan:
        if batch.num_prefill_tokens:
            raise ValueError("prefill")
        return super().plan(batch)


class KeepsAReference(Sound):
    """Compares the requests with those of the step before, but kept the engine's array instead of a copy."""

    def plan(self, batch: Batch) -> Plan:
        before, self.kept = self.kept, batch
        alike = before is not None and np.array_equal(before.request_id, batch.request_id)
        return Plan(1 + int(alike and self.most > 1), batch.num_requests)


class KeepsAStep(Sound):
    """The same with a step's outcome."""

    def plan(self, batch: Batch) -> Plan:
        steps = vars(self).setdefault("steps", [])
        return Plan(
            min(self.most, int(steps[-1].num_accepted_tokens.sum()) if steps else 0),
            batch.num_requests + int(batch.num_draft_tokens.sum()),
        )

    def observe(self, step: Step) -> None:
        vars(self).setdefault("steps", []).append(step)
        del vars(self)["steps"][:-1]


class ReusesItsPlan(Sound):
    """One array for the plans of all steps."""

    def plan(self, batch: Batch) -> Plan:
        buffer = vars(self).setdefault("buffer", np.zeros(99, dtype=np.int64))
        buffer[:] = batch.step % (self.most + 1)
        return Plan(buffer[: batch.num_requests], batch.num_requests)


class ChangesItsPlan(Sound):
    def plan(self, batch: Batch) -> Plan:
        self.depths = np.full(batch.num_requests, 1)
        return Plan(self.depths, batch.num_requests)

    def observe(self, step: Step) -> None:
        self.depths[:1] = 0


class NeverForgets(Sound):
    """A dictionary entry for every request it ever saw."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.history: dict[int, int] = {}

    def observe(self, step: Step) -> None:
        accepted = step.num_accepted_tokens.tolist()
        self.history.update(zip(step.request_id.tolist(), accepted, strict=True))


class NeverForgetsSteps(Sound):
    """Every step, in a list inside another object."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.log = Log([])

    def observe(self, step: Step) -> None:
        self.log.steps.append(step)


@dataclass
class Log:
    steps: list[Step]


class RemembersSome(NeverForgets):
    """A bounded number of requests is a cache, not a leak."""

    def observe(self, step: Step) -> None:
        super().observe(step)
        while len(self.history) > 500:
            del self.history[next(iter(self.history))]


class ExitsUnasked(Sound):
    """Lets the drafter stop by a confidence that not every engine records."""

    def plan(self, batch: Batch) -> Plan:
        return replace(super().plan(batch), early_exit=EarlyExit("confidence", 0.5))


class ExitsAsked(ExitsUnasked):
    """Per request, by batch order; `requires` and the age depend on an option."""

    requires = frozenset()

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.requires = frozenset({"confidence"})  # type: ignore[misc]

    def plan(self, batch: Batch) -> Plan:
        threshold = np.linspace(0.1, 0.9, batch.num_requests)
        return replace(super().plan(batch), early_exit=EarlyExit("product", threshold, min_draft_tokens=1))


class ExitsForOneTooMany(ExitsAsked):
    def plan(self, batch: Batch) -> Plan:
        threshold = np.linspace(0.1, 0.9, batch.num_requests + 1)
        return replace(super().plan(batch), early_exit=EarlyExit("product", threshold))


class ExitsByNumber(ExitsAsked):
    def plan(self, batch: Batch) -> Plan:
        return replace(super().plan(batch), early_exit=0.5)  # type: ignore[arg-type]


class ExitsOutOfRange(ExitsAsked):
    def plan(self, batch: Batch) -> Plan:
        return replace(super().plan(batch), early_exit=EarlyExit("confidence", 1.5))


class ExpectsFullDrafts(ExitsAsked):
    """Believes that drafts are as long as they were planned, whatever its exit rule does."""

    confidence = "current"

    def plan(self, batch: Batch) -> Plan:
        if not set(batch.num_draft_tokens.tolist()) <= {0, self.depth}:
            raise ValueError("a short draft")
        return super().plan(batch)


class ChangesItsMind(Sound):
    def observe(self, step: Step) -> None:
        self.confidence = "current"  # type: ignore[misc]


class SharesState(Sound):
    """Counts in a class variable, so a second run goes on where the first one ended."""

    count: ClassVar[list[int]] = []

    def plan(self, batch: Batch) -> Plan:
        self.count.append(1)
        return Plan(len(self.count) % (self.most + 1), batch.num_requests)


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


class NeedsLogits(Sound):
    """Whether it can be checked depends on its option."""

    def __init__(self, config: EngineConfig, approximate: bool = False) -> None:
        super().__init__(config)
        self.requires = frozenset({"confidence"} if approximate else {"kl_divergence"})  # type: ignore[misc]


def test_a_signal_that_no_rehearsal_has() -> None:
    assert check_planner(NeedsLogits, options={"approximate": True}) == []
    with pytest.raises(BenchError, match="NeedsLogits needs kl_divergence, which no rehearsal has, expected options"):
        check_planner(NeedsLogits)


class ReadsTrace(Sound):
    def __init__(self, config: EngineConfig, trace: Trace) -> None:
        super().__init__(config)


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
