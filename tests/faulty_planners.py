"""Planners with one fault each, and a few that only look as if, for the conformance check."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lightspec_bench.core import Batch, EarlyExit, EngineConfig, Plan, Step


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


class PerRequest(Sound):
    """Counts and depths per request, from the pending confidences: the other form of a plan."""

    confidence = "current"
    requires = frozenset({"confidence"})

    def plan(self, batch: Batch) -> Plan:
        likely = np.count_nonzero(batch.confidence > 0.5, axis=1)
        depth = np.minimum(likely + 1, self.most)
        return Plan(depth, num_verify_tokens=np.minimum(likely, batch.num_draft_tokens))


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
