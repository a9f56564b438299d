"""What a worker reports of a step, beside its tokens: seconds of its parts, and confidences of the new proposals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightspec_bench.core import Confidence

ATTRIBUTE = "lightspec"  # of vLLM's ModelRunnerOutput, which carries it from the worker to the scheduler
ASKS = "lightspec_confidences"  # of vLLM's SchedulerOutput: whether the scheduler wants confidences of this step


@dataclass(frozen=True, slots=True)
class StepReport:
    """Seconds of the target's forward, of sampling and of drafting; (N, K) confidences of what was drafted.

    Confidence is the drafter's highest probability and entropy that of its distribution, in nats. Both depend on the
    text before the token alone, never on the token that was drawn: a plan by them leaves the output's distribution
    as it is.
    """

    forward_s: float
    sample_s: float
    draft_s: float
    request_ids: tuple[str, ...] = ()
    confidence: Confidence | None = None
    entropy: Confidence | None = None


def report_of(output: Any) -> StepReport | None:
    found = getattr(output, ATTRIBUTE, None)
    return found if isinstance(found, StepReport) else None
